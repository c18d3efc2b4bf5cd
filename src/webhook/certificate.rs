//! The server's certificate: from a folder, as a mounted Secret has it, from a Secret that the replicas look after themselves,
//! or made for this process alone.

mod issue;
mod looker;
mod lookout;
mod object;
mod registration;
mod standing;
mod subject;
mod trust;
mod upkeep;
mod validity;

pub use issue::{Issued, issue};
pub(crate) use looker::looker;
pub(super) use lookout::look;
pub(super) use object::Object;
pub(super) use registration::Service;
pub use standing::Standing;
pub(super) use subject::common_name;
pub(crate) use trust::Bundle;
pub(super) use upkeep::Upkeep;
pub use validity::{Validity, not_after, validity};

use super::reload::{LoadError, Reloaded, Source};
use arc_swap::ArcSwapOption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig, version};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zeroize::Zeroize;

/// How long a certificate made for this process is good for: it ends with the process, so long past that.
const SELF_MADE_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How far a client's clock may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The certificates are no PEM.
    #[error("the certificate file holds no certificate in PEM: {0}")]
    Certificate(pem::Error),
    /// There is no certificate.
    #[error("the certificate file holds no certificate in PEM")]
    NoCertificate,
    /// The key is no PEM.
    #[error("the key file holds no private key in PEM (PKCS #8, SEC1 or PKCS #1): {0}")]
    Key(pem::Error),
    /// The key is of no use, or not the certificate's.
    #[error("the key does not go with the first certificate: {0}")]
    Pair(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The certificate that new connections get; existing ones keep theirs.
#[derive(Debug)]
pub enum Certificate {
    /// From the files of a folder.
    Files(Reloaded<CertifiedKey>),
    /// Of the replicas' own making; nothing as long as there is none.
    Own(ArcSwapOption<CertifiedKey>),
    /// Made for this process.
    SelfMade(Arc<CertifiedKey>),
}

impl Certificate {
    /// Reads `tls.crt` (the server's certificate first, then its chain) and `tls.key` of `folder`.
    pub fn load(folder: &Path) -> Result<Self, LoadError> {
        let sources = ["tls.crt", "tls.key"].map(|name| Source::File(folder.join(name)));
        Reloaded::load(sources, parse).map(Self::Files)
    }

    /// One that is still to be made, and shown.
    pub fn own() -> Self {
        Self::Own(ArcSwapOption::empty())
    }

    /// Makes a certificate for `localhost`, the loopback addresses and `names`.
    pub fn make(names: &[String]) -> Result<Self, CertificateError> {
        let usual = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut parameters = rcgen::CertificateParams::new([&usual, names].concat())?;
        let now = SystemTime::now();
        parameters.not_before = (now - CLOCK_SKEW).into();
        parameters.not_after = (now + SELF_MADE_LIFE).into();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "outrigger");
        let key = rcgen::KeyPair::generate()?;
        let certificate = parameters.self_signed(&key)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let key = CertifiedKey::from_der(vec![certificate], key, &provider())?;
        Ok(Self::SelfMade(Arc::new(key)))
    }

    /// The certificate in use and its key; nothing where there is none yet.
    pub fn current(&self) -> Option<Arc<CertifiedKey>> {
        match self {
            Self::Files(files) => Some(files.current()),
            Self::Own(shown) => shown.load_full(),
            Self::SelfMade(key) => Some(Arc::clone(key)),
        }
    }

    /// Shows `key` from now on, where the replicas look after the certificate themselves.
    fn show(&self, key: Arc<CertifiedKey>) {
        if let Self::Own(shown) = self {
            shown.store(Some(key));
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

/// TLS 1.3 and 1.2 with HTTP/2 and HTTP/1.1, by aws-lc-rs.
///
/// Sessions are not resumed: API servers do not ask for it, and a resumed one would outlive a rotated certificate. Where there
/// are `clients`, nobody else may connect.
pub fn server_config(
    certificate: Arc<Certificate>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

fn parse([certificate, key]: [&[u8]; 2]) -> Result<Arc<CertifiedKey>, CertificateError> {
    pair(certificate, key)
}

/// The pair that two texts in PEM are. Of the key, only what rustls has made of it is left.
fn pair(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(CertificateError::Certificate)?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    let mut der = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)?;
    let key = any_supported_type(&der);
    der.zeroize();
    let pair = CertifiedKey::new(chain, key?);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
