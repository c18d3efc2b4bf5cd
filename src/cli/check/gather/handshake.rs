//! A TLS handshake with the webhook, to see what it presents. Nothing is sent after it.

use crate::cli::check::rules::certificates::Presented;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// From outside a cluster its addresses lead nowhere, and nobody says so: a person waits for this.
const LIMIT: Duration = Duration::from_secs(3);

/// Speaks to `address` as if it were `host`.
pub(in crate::cli::check) async fn present(address: &str, host: &str) -> Presented {
    let unreachable = |why: String| Presented::Unreachable {
        why: format!("{address}: {why}"),
    };
    let name = match ServerName::try_from(host.to_owned()) {
        Ok(name) => name,
        Err(error) => return unreachable(format!("{host}: {error}")),
    };
    let stream = match timeout(LIMIT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return unreachable(error.to_string()),
        Err(_elapsed) => return unreachable(format!("no answer within {} s", LIMIT.as_secs())),
    };
    let broken = |why: String| Presented::Broken {
        why: format!("{address}: {why}"),
    };
    let config = match config() {
        Ok(config) => config,
        Err(error) => return broken(error.to_string()),
    };
    let connector = TlsConnector::from(Arc::new(config));
    let session = match timeout(LIMIT, connector.connect(name, stream)).await {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => return broken(error.to_string()),
        Err(_elapsed) => return broken(format!("no handshake within {} s", LIMIT.as_secs())),
    };
    let (_, connection) = session.get_ref();
    Presented::Chain {
        chain: connection.peer_certificates().unwrap_or_default().to_vec(),
        address: address.to_owned(),
    }
}

/// A client that takes every certificate: what it takes is judged afterwards, and nothing is ever told to the other side.
fn config() -> Result<ClientConfig, Error> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Looker(provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Looks at certificates and trusts none.
#[derive(Debug)]
struct Looker(Arc<CryptoProvider>);

impl ServerCertVerifier for Looker {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
