//! The head of a request: whom it is for, and what goes on to the server.

use crate::egress::connection::Presented;
use crate::egress::host::{Host, HostError};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Uri, Version};

/// Headers about one connection, beside those that `connection` lists (RFC 9110, section 7.6.1, and what older software has).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whom a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    /// The port that it names beside.
    pub(super) port: Option<u16>,
}

/// Why it cannot be said whom a request is for, or what it holds.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it names no host")]
    NoHost,
    #[error("it has {0} Host headers")]
    SeveralHosts(usize),
    #[error("it names two hosts: {0:?} and {1:?}")]
    HostsDiffer(String, String),
    #[error(transparent)]
    Unreadable(#[from] HostError),
    #[error("{0:?} is no host with or without a port")]
    Authority(String),
    #[error("CONNECT would hide what follows")]
    Connect,
    #[error("how its body is encoded cannot be followed")]
    Encoding,
}

impl Fault {
    /// What the request shows as its destination.
    pub(super) fn shows(&self) -> Presented {
        match self {
            Self::NoHost => Presented::Nothing,
            Self::SeveralHosts(_) | Self::HostsDiffer(_, _) => Presented::Disagreeing,
            Self::Unreadable(_) | Self::Authority(_) | Self::Connect | Self::Encoding => Presented::Malformed,
        }
    }

    /// Whether it is not about the host.
    pub(super) fn is_of_form(&self) -> bool {
        matches!(self, Self::Connect | Self::Encoding)
    }
}

/// Whom a request is for: by its Host header and by its target, which must agree where both say so.
pub(super) fn target(head: &request::Parts) -> Result<Target, Fault> {
    if head.method == Method::CONNECT {
        return Err(Fault::Connect);
    }
    let is_http2 = head.version == Version::HTTP_2;
    let encodings: Vec<_> = head.headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    match encodings[..] {
        [] => {}
        [one] if !is_http2 && one.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
        _ => return Err(Fault::Encoding),
    }
    let hosts: Vec<_> = head.headers.get_all(header::HOST).iter().collect();
    let header = match hosts[..] {
        [] => None,
        [host] => Some(String::from_utf8_lossy(host.as_bytes()).into_owned()),
        _ => return Err(Fault::SeveralHosts(hosts.len())),
    };
    match (header, head.uri.authority()) {
        (None, None) => Err(Fault::NoHost),
        // RFC 9112, section 3.2: a request without a Host header is none, whatever its target.
        (None, Some(_)) if !is_http2 => Err(Fault::NoHost),
        (None, Some(authority)) => read(authority.as_str()),
        (Some(header), None) => read(&header),
        (Some(header), Some(authority)) => {
            let (one, other) = (read(&header)?, read(authority.as_str())?);
            match one == other {
                true => Ok(one),
                false => Err(Fault::HostsDiffer(header, authority.to_string())),
            }
        }
    }
}

/// A host, and perhaps a port behind it.
fn read(text: &str) -> Result<Target, Fault> {
    let text = text.trim_matches([' ', '\t']);
    if text.is_empty() {
        return Err(Fault::NoHost);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        // RFC 3986, section 3.2.3: a colon with nothing behind means as much as none.
        None | Some("") => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().map_err(|_number| Fault::Authority(text.to_owned()))?)
        }
        Some(_) => return Err(Fault::Authority(text.to_owned())),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(Fault::Authority(text.to_owned()));
    }
    Ok(Target {
        host: Host::parse(host)?,
        port,
    })
}

impl Target {
    /// The host and the port as a request writes them.
    fn written(&self) -> String {
        let host = match &self.host {
            Host::Address(address) if address.is_ipv6() => format!("[{address}]"),
            Host::Address(_) | Host::Name(_) => self.host.to_string(),
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

/// Whether a request is one of gRPC.
pub(super) fn is_grpc(head: &request::Parts) -> bool {
    let kind = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let grpc = b"application/grpc";
    let kind = kind.and_then(|kind| kind.split_at_checked(grpc.len()));
    // gRPC-Web is another protocol, which HTTP/1 carries as well.
    kind.is_some_and(|(begin, rest)| begin.eq_ignore_ascii_case(grpc) && !rest.starts_with(b"-web"))
}

/// Takes out what is about the client's connection alone.
pub(super) fn strip(headers: &mut HeaderMap) {
    let takes_trailers = headers
        .get_all(header::TE)
        .iter()
        .any(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A client must not have taken out what was judged.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    for name in listed.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    // gRPC's servers ask for it (RFC 9110, section 10.1.4, lets it through when it says this alone).
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Writes the target of a request anew, in the one form of the host that was judged.
pub(super) fn readdress(head: &mut request::Parts, target: &Target, scheme: Scheme) -> Result<(), Fault> {
    let written = target.written();
    let fault = || Fault::Authority(written.clone());
    let path = head.uri.path_and_query().cloned();
    let mut uri = hyper::http::uri::Parts::default();
    uri.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    head.headers.remove(header::HOST);
    if head.version == Version::HTTP_2 {
        uri.scheme = Some(scheme);
        uri.authority = Some(written.parse::<Authority>().map_err(|_invalid| fault())?);
    } else {
        let host = HeaderValue::from_str(&written).map_err(|_invalid| fault())?;
        head.headers.insert(header::HOST, host);
        head.version = Version::HTTP_11;
    }
    head.uri = Uri::from_parts(uri).map_err(|_invalid| fault())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(method: &str, uri: &str, version: Version, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri(uri).version(version);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    fn told(head: &request::Parts) -> String {
        match target(head) {
            Ok(target) => target.written(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn a_request_is_for_the_one_host_that_it_names() {
        for (host, expected) in [
            ("API.GitHub.com.", "api.github.com"),
            ("api.github.com:8080", "api.github.com:8080"),
            (" api.github.com ", "api.github.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("[::1]:80", "[::1]:80"),
            ("2130706433", "127.0.0.1"),
        ] {
            assert_eq!(told(&head("GET", "/", Version::HTTP_11, &[("host", host)])), expected);
        }
        let absolute = |uri, host| told(&head("GET", uri, Version::HTTP_11, &[("host", host)]));
        assert_eq!(absolute("http://A.example/", "a.example"), "a.example");
        assert!(absolute("http://b.example/", "a.example").starts_with("it names two hosts: "));
        assert!(absolute("http://a.example:81/", "a.example").starts_with("it names two hosts: "));
        assert!(absolute("http://a.example@b.example/", "b.example").contains("no name has"));
        let both = |host: &[(&str, &str)]| told(&head("GET", "http://a.example/", Version::HTTP_2, host));
        assert_eq!(both(&[]), "a.example");
        assert_eq!(both(&[("host", "A.example")]), "a.example");
        assert!(both(&[("host", "b.example")]).starts_with("it names two hosts: "));
    }

    #[test]
    fn what_names_none_or_several_is_refused() {
        let of = |headers: &[(&str, &str)]| told(&head("GET", "/", Version::HTTP_11, headers));
        assert_eq!(of(&[]), "it names no host");
        assert_eq!(of(&[("host", "")]), "it names no host");
        assert_eq!(
            of(&[("host", "a.example"), ("host", "a.example")]),
            "it has 2 Host headers"
        );
        for host in [
            "a.example:port",
            "a.example:99999",
            "a.example:80:80",
            "::1",
            "a.example:+80",
        ] {
            assert!(
                of(&[("host", host)]).contains("no host with or without a port"),
                "{host}: {}",
                of(&[("host", host)])
            );
        }
        assert!(of(&[("host", "a.example, b.example")]).contains("no host name"));
        assert!(
            told(&head(
                "CONNECT",
                "a.example:443",
                Version::HTTP_11,
                &[("host", "a.example")]
            ))
            .starts_with("CONNECT")
        );
        let encoded = |value| of(&[("host", "a.example"), ("transfer-encoding", value)]);
        assert_eq!(encoded("Chunked"), "a.example");
        assert!(encoded("gzip, chunked").starts_with("how its body"));
        assert!(encoded("xchunked").starts_with("how its body"));
        assert_eq!(
            told(&head("GET", "http://a.example/", Version::HTTP_11, &[])),
            "it names no host"
        );
    }

    #[test]
    fn what_is_about_the_connection_stays_here() {
        let mut headers = head(
            "GET",
            "/",
            Version::HTTP_11,
            &[
                ("host", "a.example"),
                ("connection", "close, X-Secret, host"),
                ("x-secret", "1"),
                ("te", "trailers"),
                ("upgrade", "h2c"),
                ("http2-settings", "AAA"),
                ("keep-alive", "1"),
                ("accept", "*/*"),
            ],
        )
        .headers;
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "host", "te"]);
    }

    #[test]
    fn a_request_goes_on_with_the_host_that_was_judged() {
        let mut first = head(
            "GET",
            "http://A.example./p?q",
            Version::HTTP_10,
            &[("host", "a.example")],
        );
        let target = target(&first).unwrap();
        readdress(&mut first, &target, Scheme::HTTP).unwrap();
        assert_eq!(
            (first.uri.to_string(), &first.headers[header::HOST]),
            ("/p?q".to_owned(), &HeaderValue::from_static("a.example"))
        );
        let mut second = head("POST", "http://A.example/p", Version::HTTP_2, &[("host", "A.example")]);
        readdress(&mut second, &target, Scheme::HTTPS).unwrap();
        assert_eq!(second.uri.to_string(), "https://a.example/p");
        assert!(!second.headers.contains_key(header::HOST));
    }

    #[test]
    fn grpc_is_told_by_its_content() {
        for (kind, is) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(
                is_grpc(&head("POST", "/", Version::HTTP_2, &[("content-type", kind)])),
                is,
                "{kind}"
            );
        }
    }
}
