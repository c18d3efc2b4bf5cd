//! One request and one response of HTTP/1.1 (RFC 9112), as much of it as a GET from an API server needs.

use super::credentials::Server;

/// A response that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// Its status.
    pub(super) status: u16,
    /// Its content.
    pub(super) body: Vec<u8>,
}

/// What is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("it does not speak HTTP/1.1")]
    Head,
    #[error("its answer ended too early")]
    Truncated,
}

/// A GET, after whose answer the server closes the connection.
///
/// Neither path nor token may hold control characters: [`is_plain`] tells.
pub(super) fn get(server: &Server, path: &str, token: Option<&str>) -> String {
    let authorization = token
        .map(|token| format!("Authorization: Bearer {token}\r\n"))
        .unwrap_or_default();
    format!(
        "GET {prefix}{path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Accept: application/json\r\nUser-Agent: \
         outrigger-cni/{version}\r\nConnection: close\r\n\r\n",
        prefix = server.prefix,
        host = server.authority(),
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// Whether a token can be sent in a header.
pub(super) fn is_plain(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Response {
    /// Reads what came until the connection was closed.
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, ResponseError> {
        loop {
            let end = find(bytes, b"\r\n\r\n").ok_or(ResponseError::Head)?;
            let (head, rest) = bytes.split_at_checked(end + 4).ok_or(ResponseError::Head)?;
            let head = std::str::from_utf8(head).map_err(|_binary| ResponseError::Head)?;
            let status = status(head).ok_or(ResponseError::Head)?;
            // Interim responses come before the one that counts.
            if (100..200).contains(&status) {
                bytes = rest;
                continue;
            }
            return Ok(Self {
                status,
                body: body(head, rest)?,
            });
        }
    }
}

fn status(head: &str) -> Option<u16> {
    let mut words = head.lines().next()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn body(head: &str, rest: &[u8]) -> Result<Vec<u8>, ResponseError> {
    if header(head, "transfer-encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("chunked")) {
        return chunks(rest);
    }
    let Some(length) = header(head, "content-length") else {
        return Ok(rest.to_vec());
    };
    let length = length.parse::<usize>().map_err(|_no_number| ResponseError::Head)?;
    rest.get(..length).map(<[u8]>::to_vec).ok_or(ResponseError::Truncated)
}

fn chunks(mut rest: &[u8]) -> Result<Vec<u8>, ResponseError> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n").ok_or(ResponseError::Truncated)?;
        let (size, after) = rest.split_at_checked(end).ok_or(ResponseError::Truncated)?;
        let size = std::str::from_utf8(size).map_err(|_binary| ResponseError::Head)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_no_number| ResponseError::Head)?;
        if size == 0 {
            return Ok(body);
        }
        let end = size.checked_add(2).ok_or(ResponseError::Head)?;
        body.extend_from_slice(after.get(2..end).ok_or(ResponseError::Truncated)?);
        rest = after.get(end + 2..).ok_or(ResponseError::Truncated)?;
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(u16, String), ResponseError> {
        Response::parse(text.as_bytes()).map(|read| (read.status, String::from_utf8(read.body).unwrap()))
    }

    #[test]
    fn bodies_of_every_kind_are_read() {
        let done = |body: &str| Ok((200, body.to_owned()));
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nhi there"), done("hi"));
        assert_eq!(read("HTTP/1.0 200 OK\r\n\r\nto the end"), done("to the end"));
        let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            read(&format!("{chunked}3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n")),
            done("abc0123456789")
        );
        assert_eq!(
            read("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
            Ok((401, String::new()))
        );
    }

    #[test]
    fn what_is_cut_short_or_no_http_is_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let table = [
            ("", ResponseError::Head),
            ("HTTP/1.1 200 OK\r\n", ResponseError::Head),
            ("SSH-2.0-OpenSSH_9\r\n\r\n", ResponseError::Head),
            ("HTTP/1.1 abc\r\n\r\n", ResponseError::Head),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
                ResponseError::Truncated,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab", ResponseError::Head),
        ];
        for (text, error) in table {
            assert_eq!(read(text), Err(error), "{text}");
        }
        for rest in [
            "",
            "3\r\nab",
            "3\r\nabc",
            "3\r\nabc\r\n",
            "ffffffffffffffff\r\nabc\r\n",
            "-1\r\n",
        ] {
            read(&format!("{chunked}{rest}")).unwrap_err();
        }
    }

    #[test]
    fn a_token_cannot_end_its_header() {
        assert!(is_plain("eyJhbGciOi.J-_/+=") && !is_plain("a\r\nb") && !is_plain("") && !is_plain("a b"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(0_u8.., 0..200), size in "[0-9a-fA-F]{0,20}") {
            let mut chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n").into_bytes();
            chunked.extend(&bytes);
            for response in [&bytes, &chunked] {
                if let Ok(read) = Response::parse(response) {
                    proptest::prop_assert!(read.body.len() <= response.len());
                }
            }
        }
    }
}
