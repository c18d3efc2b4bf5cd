//! Manifests at URLs.
//!
//! As with Linkerd, only HTTPS will do, for nothing else keeps whoever is in between from changing what will run in the
//! cluster; over the loopback there is nobody in between.

use anyhow::{Context, Result, anyhow, bail};
use rustls::crypto::aws_lc_rs;
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};

/// How often a server may point elsewhere: as with Go's client.
const REDIRECTS: u32 = 10;

/// How long a server may take.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Until the connection is there, name look-up and handshake included.
    connect: Duration,
    /// From the request to the head of the answer.
    answer: Duration,
    /// For everything.
    all: Duration,
}

/// A page that is generated takes seconds; minutes are enough for the largest that is read over a slow line.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(15),
    answer: Duration::from_secs(30),
    all: Duration::from_secs(300),
};

/// A URL that may be read.
#[derive(Clone, Debug)]
pub(super) struct Url {
    uri: Uri,
    secure: bool,
}

impl Url {
    /// Reads `argument`; nothing where it is no URL with scheme and host, an error where it is one that is not read.
    pub(super) fn parse(argument: &str) -> Option<Result<Self>> {
        if !argument.contains("://") {
            return None;
        }
        let uri: Uri = argument.parse().ok()?;
        let (scheme, host) = (uri.scheme_str()?.to_ascii_lowercase(), uri.host()?);
        let secure = scheme == "https";
        Some(match secure || scheme == "http" && is_loopback(host) {
            true => Ok(Self { uri, secure }),
            false => Err(anyhow!("only HTTPS URLs are allowed")),
        })
    }

    /// Asks for it, and returns what its server answers.
    pub(super) fn fetch(&self) -> Result<impl Read + use<>> {
        self.fetch_within(PATIENCE)
    }

    fn fetch_within(&self, patience: Patience) -> Result<impl Read + use<>> {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()));
        let mut config = Agent::config_builder()
            .https_only(self.secure)
            .max_redirects(REDIRECTS)
            .http_status_as_error(false)
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.answer))
            .timeout_global(Some(patience.all))
            .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build());
        if !self.secure {
            // Whoever a server or a proxy points at is not on this machine.
            config = config.max_redirects(0).proxy(None);
        }
        let answer = config.build().new_agent().get(&self.uri).call();
        let answer = answer.context("unable to read the URL")?;
        let status = answer.status();
        if status.as_u16() != 200 {
            bail!(
                "unable to read URL {:?}, server reported {status}, status code={}",
                self.to_string(),
                status.as_u16()
            );
        }
        Ok(answer.into_body().into_reader())
    }
}

impl fmt::Display for Url {
    /// Without user, password and query, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let (_, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        write!(
            f,
            "{}://{place}{}",
            self.uri.scheme_str().unwrap_or_default(),
            self.uri.path()
        )
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_https_and_the_loopback_are_read() {
        let parsed = |argument| {
            Url::parse(argument).map(|url| url.map_or_else(|error| error.to_string(), |url| url.to_string()))
        };
        for (argument, read) in [
            ("https://example.org/app.yaml", "https://example.org/app.yaml"),
            ("HTTPS://example.org", "https://example.org/"),
            ("http://localhost:80/a", "http://localhost:80/a"),
            ("http://127.0.0.2/a", "http://127.0.0.2/a"),
            ("http://[::1]:8080/a", "http://[::1]:8080/a"),
            ("https://me:secret@example.org/a?token=secret", "https://example.org/a"),
            ("http://example.org/a", "only HTTPS URLs are allowed"),
            ("http://localhost.example.org/a", "only HTTPS URLs are allowed"),
            ("file://host/a", "only HTTPS URLs are allowed"),
        ] {
            assert_eq!(parsed(argument).as_deref(), Some(read), "{argument}");
        }
        for path in ["app.yaml", "/app.yaml", "a:b", "https:/a", "a b://c"] {
            assert_eq!(parsed(path), None, "{path}");
        }
    }

    #[test]
    fn nobody_waits_for_a_server_that_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        let patience = Patience {
            answer: Duration::from_millis(50),
            ..PATIENCE
        };
        let error = Url::parse(&url).unwrap().unwrap().fetch_within(patience).err().unwrap();
        assert!(format!("{error:#}").contains("timeout"), "{error:#}");
    }
}
