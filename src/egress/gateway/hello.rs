//! What a TLS ClientHello shows before anything is answered: the server's name, and whether the real name is hidden.

use rustls::server::Acceptor;

/// The extension that carries an encrypted ClientHello (RFC 9849, section 5), real or made up: nobody but the server can tell.
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The same in its first drafts, `encrypted_server_name`.
const ENCRYPTED_SERVER_NAME: u16 = 0xffce;

/// Types of records and of messages (RFC 8446, sections 5.1 and 4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// A ClientHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The name of the server as it is shown (SNI). What is an address or empty counts as none.
    pub(super) name: Option<String>,
    /// Whether it has an encrypted one inside, so that the name that is shown is not the one that is asked for.
    pub(super) is_encrypted: bool,
}

/// How far a hello has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not to its end.
    More,
    Done(Hello),
    /// It is none.
    Broken,
}

/// Reads a ClientHello while it arrives, in as many records and segments as it comes in.
#[derive(Default)]
pub(super) struct Reader(Acceptor);

impl Reader {
    /// Takes `fresh` bytes, the last of `all` that came so far.
    pub(super) fn take(&mut self, all: &[u8], mut fresh: &[u8]) -> Progress {
        while !fresh.is_empty() {
            match self.0.read_tls(&mut fresh) {
                Ok(0) | Err(_) => return Progress::Broken,
                Ok(_) => {}
            }
            match self.0.accept() {
                Ok(None) => {}
                Err(_) => return Progress::Broken,
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    return Progress::Done(Hello {
                        name: hello.server_name().map(str::to_owned),
                        is_encrypted: hides_a_name(all),
                    });
                }
            }
        }
        Progress::More
    }
}

/// Whether the extensions of a hello, which rustls has found in order, hide another. What cannot be followed does.
fn hides_a_name(records: &[u8]) -> bool {
    let message = unite(records);
    let Some(extensions) = extensions(&message) else {
        return true;
    };
    let hidden = [ENCRYPTED_CLIENT_HELLO, ENCRYPTED_SERVER_NAME];
    extensions.iter().any(|kind| hidden.contains(kind))
}

/// The handshake messages in records, without the records' heads.
fn unite(records: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(records.len());
    let mut rest = Cursor(records);
    while let Some(record) = rest.record() {
        message.extend_from_slice(record);
    }
    message
}

/// The kinds of extensions of a ClientHello (RFC 8446, section 4.1.2).
fn extensions(message: &[u8]) -> Option<Vec<u16>> {
    let mut message = Cursor(message);
    (message.number(1)? == usize::from(CLIENT_HELLO)).then_some(())?;
    let mut hello = Cursor(message.vector(3)?);
    // Version and random value; session, suites and compression.
    hello.bytes(2 + 32)?;
    for size in [1, 2, 1] {
        hello.vector(size)?;
    }
    let mut kinds = Vec::new();
    if hello.0.is_empty() {
        return Some(kinds);
    }
    let mut list = Cursor(hello.vector(2)?);
    while !list.0.is_empty() {
        kinds.push(u16::try_from(list.number(2)?).ok()?);
        list.vector(2)?;
    }
    Some(kinds)
}

/// What is left to read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of `size` bytes.
    fn number(&mut self, size: usize) -> Option<usize> {
        let bytes = self.bytes(size)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes after their number, which has `size` bytes.
    fn vector(&mut self, size: usize) -> Option<&'a [u8]> {
        let length = self.number(size)?;
        self.bytes(length)
    }

    /// The content of a record of the handshake.
    fn record(&mut self) -> Option<&'a [u8]> {
        (self.number(1)? == usize::from(HANDSHAKE)).then_some(())?;
        self.bytes(2)?;
        self.vector(2)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    /// The hello of rustls for `name`, in one record.
    pub(in super::super) fn hello(name: &str, alpn: &[&str]) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(RootCertStore::empty());
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// The same message in records of `size` bytes.
    pub(in super::super) fn fragmented(hello: &[u8], size: usize) -> Vec<u8> {
        let fragments = hello[5..].chunks(size);
        fragments
            .flat_map(|part| {
                let length = u16::try_from(part.len()).unwrap().to_be_bytes();
                [&[HANDSHAKE, 3, 1][..], &length, part].concat()
            })
            .collect()
    }

    /// The same message with one more extension.
    pub(in super::super) fn with_extension(hello: &[u8], kind: u16, content: &[u8]) -> Vec<u8> {
        let mut message = hello[5..].to_vec();
        // Where the list of extensions begins: after the session, the suites and compression.
        let mut place = 4 + 2 + 32;
        place += 1 + usize::from(message[place]);
        place += 2 + usize::from(u16::from_be_bytes([message[place], message[place + 1]]));
        place += 1 + usize::from(message[place]);
        let size = u16::from_be_bytes([message[place], message[place + 1]]);
        let length = u16::try_from(content.len()).unwrap();
        let extension = [&kind.to_be_bytes()[..], &length.to_be_bytes(), content].concat();
        message.splice(place + 2..place + 2, extension.iter().copied());
        message[place..place + 2].copy_from_slice(&(size + length + 4).to_be_bytes());
        let body = u32::try_from(message.len() - 4).unwrap().to_be_bytes();
        message[1..4].copy_from_slice(&body[1..]);
        fragmented(&[&[0; 5], &message[..]].concat(), 16 << 10)
    }

    fn read(bytes: &[u8], step: usize) -> Progress {
        let mut reader = Reader::default();
        let mut seen = 0;
        for part in bytes.chunks(step) {
            seen += part.len();
            match reader.take(&bytes[..seen], part) {
                Progress::More => {}
                end @ (Progress::Done(_) | Progress::Broken) => return end,
            }
        }
        Progress::More
    }

    fn done(bytes: &[u8], step: usize) -> Hello {
        match read(bytes, step) {
            Progress::Done(hello) => hello,
            other @ (Progress::More | Progress::Broken) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hello_is_read_however_it_is_cut() {
        let whole = hello("api.github.com", &["h2", "http/1.1"]);
        for bytes in [whole.clone(), fragmented(&whole, 1), fragmented(&whole, 100)] {
            for step in [1, 7, bytes.len()] {
                let hello = done(&bytes, step);
                assert_eq!(hello.name.as_deref(), Some("api.github.com"));
                assert!(!hello.is_encrypted);
            }
        }
        assert_eq!(read(&whole[..whole.len() - 1], 9), Progress::More);
    }

    #[test]
    fn a_hello_for_an_address_has_no_name() {
        assert_eq!(done(&hello("192.0.2.1", &[]), 1000).name, None);
    }

    #[test]
    fn an_encrypted_hello_is_seen_wherever_it_is() {
        let plain = hello("front.example", &[]);
        // Section 5: an outer hello, a suite, a configuration, 32 bytes of a key and 128 of noise.
        let noise = [&[0, 0, 1, 0, 1, 9, 0, 32][..], &[7; 32], &[0, 128], &[7; 128]].concat();
        for (kind, content) in [(ENCRYPTED_CLIENT_HELLO, &noise[..]), (ENCRYPTED_SERVER_NAME, b"noise")] {
            let hidden = with_extension(&plain, kind, content);
            for bytes in [hidden.clone(), fragmented(&hidden, 3)] {
                let hello = done(&bytes, 11);
                assert!(hello.is_encrypted, "{kind:#x}");
                assert_eq!(hello.name.as_deref(), Some("front.example"));
            }
        }
        assert!(!done(&with_extension(&plain, 0x0a0a, &[]), 11).is_encrypted);
        assert_eq!(
            read(&with_extension(&plain, ENCRYPTED_CLIENT_HELLO, &[7; 9]), 11),
            Progress::Broken
        );
    }

    #[test]
    fn what_is_no_hello_is_broken() {
        for bytes in [&[22, 3, 1, 0, 4, 2, 0, 0, 0][..], &[22, 3, 1, 0xff, 0xff, 1]] {
            assert_eq!(read(bytes, 100), Progress::Broken, "{bytes:?}");
        }
        let mut named_oddly = hello("api.github.com", &[]);
        let place = named_oddly.windows(3).position(|three| three == b"api").unwrap();
        named_oddly[place] = 0xff;
        assert_eq!(read(&named_oddly, 100), Progress::Broken);
    }
}
