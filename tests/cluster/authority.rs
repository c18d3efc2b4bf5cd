//! Certificates, made when a test runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate authority of one test.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The certificate as a TLS client sees it.
    pub(crate) der: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of a test");
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority can be made");
        Self { issuer }
    }

    /// The certificate of the authority, PEM.
    pub(crate) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A new key with a certificate for 127.0.0.1 and for the injector's service.
    pub(crate) fn issue(&self) -> Pair {
        let names = ["127.0.0.1", "linkerd-proxy-injector.linkerd.svc"].map(str::to_owned);
        self.sign(&CertificateParams::new(names).expect("the names are valid"))
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = key();
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a certificate can be signed");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    /// A new key with a certificate for a client whose common name is `name`.
    pub(crate) fn issue_to_client(&self, name: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(&params)
    }

    /// The certificate that the server at `address` presents, if this authority vouches for it.
    pub(crate) async fn served_by(&self, address: SocketAddr) -> Option<CertificateDer<'static>> {
        let stream = self.connect(address).await.ok()?;
        let (_, session) = stream.get_ref();
        session.peer_certificates()?.first().cloned()
    }

    /// A TLS connection to the server at `address`, if this authority vouches for it.
    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.issuer.der().clone())
            .expect("the authority is a valid root");
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config))
            .connect(address.ip().into(), stream)
            .await
    }
}

/// A new ECDSA P-256 key.
pub(crate) fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}
