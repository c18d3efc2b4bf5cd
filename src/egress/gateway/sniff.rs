//! What the first bytes of a connection are: TLS, HTTP or something else.

use super::hello::{Hello, Progress, Reader};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

/// Bytes that are looked at: the longest record of TLS, and more than most servers take as the head of a request.
pub(super) const HEAD: usize = 16 << 10;

/// The longest method that is taken for one; the longest that is registered has 17 letters (`UPDATEREDIRECTREF`).
const METHOD: usize = 24;

/// The preface of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a client speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Tls(Hello),
    Http1,
    Http2,
    /// Anything else: its first bytes are none of these, or none came in time, as where the server speaks first.
    Opaque,
}

/// A client's first bytes, and what they are.
#[derive(Debug)]
pub(super) struct Sniffed {
    pub(super) speech: Speech,
    /// What was read, all of which the server still has to get.
    pub(super) bytes: Vec<u8>,
}

/// Reads until it is clear what the client speaks, for `patience` at most.
///
/// # Errors
/// Where reading fails, and `UnexpectedEof` where the client leaves without a word.
pub(super) async fn sniff(client: &mut (impl AsyncRead + Unpin), patience: Duration) -> io::Result<Sniffed> {
    let deadline = Instant::now() + patience;
    let mut sniffer = Sniffer::default();
    let mut bytes = Vec::new();
    let speech = loop {
        let before = bytes.len();
        let left = u64::try_from(HEAD - before).unwrap_or_default();
        let mut limited = (&mut *client).take(left);
        match timeout_at(deadline, limited.read_buf(&mut bytes)).await {
            Ok(Ok(0)) if before == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            // Late, or half of something and then nothing: whatever it was to be, it is none of what is known.
            Err(_) | Ok(Ok(0)) => break Speech::Opaque,
            Ok(read) => read?,
        };
        match sniffer.look(&bytes, before) {
            Some(speech) => break speech,
            None if bytes.len() >= HEAD => break Speech::Opaque,
            None => {}
        }
    };
    bytes.shrink_to_fit();
    Ok(Sniffed { speech, bytes })
}

#[derive(Default)]
struct Sniffer {
    hello: Reader,
}

impl Sniffer {
    /// What `bytes` are, the first `known` of which were not enough to tell.
    fn look(&mut self, bytes: &[u8], known: usize) -> Option<Speech> {
        // A record of the handshake, version 3.x (RFC 8446, section 5.1).
        if begins(bytes, &[22, 3]) {
            let fresh = bytes.get(known..).unwrap_or_default();
            if bytes.len() < 2 {
                return None;
            }
            // The first look may come after bytes that were too few for one.
            let fresh = if known < 2 { bytes } else { fresh };
            return match self.hello.take(bytes, fresh) {
                Progress::More => None,
                Progress::Done(hello) => Some(Speech::Tls(hello)),
                Progress::Broken => Some(Speech::Opaque),
            };
        }
        if begins(bytes, PREFACE) {
            return (bytes.len() >= PREFACE.len()).then_some(Speech::Http2);
        }
        http1(bytes)
    }
}

/// Whether `bytes` are the beginning of `whole`, or `whole` of theirs.
fn begins(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(byte, expected)| byte == expected)
}

/// Whether a request line of HTTP/1 comes: a method, a target and a version, each after one space.
fn http1(bytes: &[u8]) -> Option<Speech> {
    // RFC 9112, section 2.2: an empty line before it is passed over.
    let line = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let is_method =
        |byte: &u8| byte.is_ascii_alphabetic() || b"-_.!#$%&'*+^`|~".contains(byte) || byte.is_ascii_digit();
    let method = line.iter().take_while(|byte| is_method(byte)).count();
    match line.get(method) {
        None if method > METHOD => return Some(Speech::Opaque),
        None => return None,
        Some(b' ') if (1..=METHOD).contains(&method) => {}
        Some(b'\r') if bytes == b"\r" => return None,
        Some(_) => return Some(Speech::Opaque),
    }
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let line = line.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    Some(match version {
        b"HTTP/1.1" | b"HTTP/1.0" => Speech::Http1,
        _ => Speech::Opaque,
    })
}

#[cfg(test)]
mod tests {
    use super::super::hello::tests::{fragmented, hello};
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    /// What is told of `bytes` that come one by one, and after how many.
    fn told(bytes: &[u8]) -> Option<(Speech, usize)> {
        let mut sniffer = Sniffer::default();
        (1..=bytes.len()).find_map(|end| Some((sniffer.look(&bytes[..end], end - 1)?, end)))
    }

    #[test]
    fn http_is_told_by_its_first_line() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "POST http://a/b HTTP/1.0\n",
            "\r\nM-SEARCH * HTTP/1.1\r\n",
            "GET /a b HTTP/1.1\r\n",
        ] {
            assert_eq!(told(line.as_bytes()), Some((Speech::Http1, line.len())), "{line}");
        }
        assert_eq!(told(PREFACE), Some((Speech::Http2, PREFACE.len())));
        assert_eq!(told(b"GET / HTTP/1.1"), None);
        assert_eq!(told(b"PRI * HTTP/2"), None);
    }

    #[test]
    fn what_is_neither_is_told_as_soon_as_possible() {
        for (bytes, after) in [
            (&b"\x00\x00\x00\x2a"[..], 1),
            (b"EHLO mail.example\r\n", 19),
            (b"SSH-2.0-OpenSSH_9.7\r\n", 20),
            (b"GET / HTTP/2.0\r\n", 16),
            (b"GET /\r\n", 7),
            (b"\r\r", 2),
            (b"PRI * HTTP/2.0\r\nHost: a\r\n", 17),
            (b"\x16\x02\x00", 2),
        ] {
            assert_eq!(told(bytes), Some((Speech::Opaque, after)), "{}", bytes.escape_ascii());
        }
        assert_eq!(told(&[b'a'; 100]), Some((Speech::Opaque, METHOD + 1)));
    }

    #[test]
    fn tls_is_told_by_its_hello() {
        let whole = hello("example.com", &["h2"]);
        for bytes in [fragmented(&whole, 5), whole] {
            let (speech, after) = told(&bytes).unwrap();
            assert_eq!(after, bytes.len());
            assert!(matches!(speech, Speech::Tls(hello) if hello.name.as_deref() == Some("example.com")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_or_writes_too_much_is_opaque() {
        let patience = Duration::from_secs(1);
        let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
        assert_eq!(sniff(&mut ours, patience).await.unwrap().speech, Speech::Opaque);
        theirs.write_all(b"GET /half").await.unwrap();
        let late = sniff(&mut ours, patience).await.unwrap();
        assert_eq!((late.speech, &late.bytes[..]), (Speech::Opaque, &b"GET /half"[..]));
        let endless = [b"GET /".to_vec(), vec![b'a'; 2 * HEAD]].concat();
        theirs.write_all(&endless).await.unwrap();
        let long = sniff(&mut ours, patience).await.unwrap();
        assert_eq!((long.speech, long.bytes.len()), (Speech::Opaque, HEAD));
    }

    #[tokio::test]
    async fn a_client_that_leaves_without_a_word_says_nothing() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let error = sniff(&mut ours, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        #[test]
        fn any_bytes_are_something(bytes in proptest::collection::vec(any::<u8>(), 0..200), start in 0..4_usize) {
            let start: &[u8] = [&b""[..], b"\x16\x03\x01", b"GET / ", b"PRI * "][start];
            let _speech = told(&[start, &bytes].concat());
        }

        #[test]
        fn a_hello_that_was_tampered_with_is_read_or_refused(place in 0..1000_usize, byte: u8, size in 1..300_usize) {
            let mut bytes = hello("example.com", &["h2"]);
            let place = place % bytes.len();
            bytes[place] = byte;
            let _speech = told(&fragmented(&bytes, size));
        }
    }
}
