//! TLS that the gateway begins itself, for an application that speaks in the clear. The server's certificate is always
//! verified: there is no way to switch that off.

use crate::egress::host::Host;
use crate::webhook::reload::{Change, LoadError, Reloaded, Source};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The authorities that are trusted where a policy names none.
#[derive(Debug)]
pub(super) struct Trust(Reloaded<Authorities>);

/// Authorities whose certificates are taken, as the client's side of TLS.
#[derive(Debug)]
pub(super) struct Authorities {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("it is no PEM: {0}")]
    Pem(pem::Error),
    #[error("it holds no certificate that can be trusted")]
    Empty,
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Why there is no TLS to a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// Its certificate is wrong: expired, of another name, or of nobody who is trusted.
    #[error("its certificate is refused: {0}")]
    Certificate(rustls::CertificateError),
    #[error("it does not speak HTTP/2")]
    NoHttp2,
    #[error("the handshake failed: {0}")]
    Handshake(io::Error),
    #[error("no handshake in time")]
    Late,
    #[error("its name cannot be verified: {0}")]
    Name(InvalidDnsNameError),
}

impl Trust {
    /// Trusts the certificates in `bundle`, PEM; nobody where there is none.
    pub(super) fn load(bundle: Option<PathBuf>) -> Result<Self, LoadError> {
        let is_given = bundle.is_some();
        let source = bundle.map_or(Source::Nothing, Source::File);
        Reloaded::load([source], move |[pem]| Authorities::read(pem, is_given)).map(Self)
    }

    /// Reads the bundle again where it has changed.
    pub(super) fn check(&self) -> Change {
        self.0.check()
    }

    /// Those in use.
    pub(super) fn current(&self) -> Arc<Authorities> {
        self.0.current()
    }
}

impl Authorities {
    /// Reads certificates, PEM; at least one must be of use where one is `needed`.
    pub(super) fn read(bundle: &[u8], needed: bool) -> Result<Arc<Self>, BundleError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
        let mut roots = RootCertStore::empty();
        // Those of a system hold some that are too old for anybody's taste.
        roots.add_parsable_certificates(certificates.map_err(BundleError::Pem)?);
        if needed && roots.is_empty() {
            return Err(BundleError::Empty);
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut http1 = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(Self {
            http1: Arc::new(http1),
            http2: Arc::new(http2),
        }))
    }

    /// TLS to `host` over `stream`, for HTTP/2 or for HTTP/1.1, within `patience`.
    pub(super) async fn connect(
        &self,
        host: &Host,
        wants_http2: bool,
        stream: TcpStream,
        patience: Duration,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let config = if wants_http2 { &self.http2 } else { &self.http1 };
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).map_err(TlsError::Name)?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let handshake = TlsConnector::from(Arc::clone(config)).connect(name, stream);
        let stream = match timeout(patience, handshake).await {
            Err(_) => return Err(TlsError::Late),
            Ok(Err(error)) => return Err(reason(error)),
            Ok(Ok(stream)) => stream,
        };
        match (wants_http2, stream.get_ref().1.alpn_protocol()) {
            (true, Some(b"h2")) | (false, _) => Ok(stream),
            (true, _) => Err(TlsError::NoHttp2),
        }
    }
}

fn reason(error: io::Error) -> TlsError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(why)) => TlsError::Certificate(why.clone()),
        Some(rustls::Error::NoApplicationProtocol) => TlsError::NoHttp2,
        _ => TlsError::Handshake(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_that_trusts_nobody_is_refused() {
        let empty = Authorities::read(b"", true).unwrap_err();
        assert!(matches!(empty, BundleError::Empty), "{empty}");
        let broken = b"-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            Authorities::read(broken, true).unwrap_err(),
            BundleError::Pem(_)
        ));
        assert!(Authorities::read(b"", false).is_ok());
    }
}
