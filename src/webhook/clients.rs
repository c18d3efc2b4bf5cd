//! Who may connect to the webhook's port: whoever holds a certificate of the API server's authority, and where names are
//! listed, one of those.
//!
//! An API server has such a certificate for a webhook only where its `AdmissionConfiguration` says so, in the kubeconfig of
//! `WebhookAdmissionConfiguration`. Without a list of clients everybody who reaches the port may ask, as with Linkerd's.

use super::certificate::common_name;
use super::options::ClientFiles;
use super::reload::{Change, LoadError, Reloaded, Source};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long it is not said again that a client was refused; each is counted.
const SILENCE: Duration = Duration::from_secs(10);

/// Why a file cannot say who may connect.
#[derive(Debug, thiserror::Error)]
enum AuthorityError {
    #[error("it holds no certificate in PEM: {0}")]
    Pem(pem::Error),
    #[error("it holds no certificate in PEM")]
    Empty,
    #[error("it holds a certificate that is no authority's: {0}")]
    Certificate(#[from] Error),
    #[error("nobody can be judged by it: {0}")]
    Verifier(#[from] VerifierBuilderError),
}

/// A certificate that is in order, of somebody who is not listed.
#[derive(Debug, thiserror::Error)]
#[error("it is of {found}, and only {listed} may connect")]
struct NotListed {
    found: String,
    listed: String,
}

/// Judges who connects.
#[derive(Debug)]
pub(super) struct Clients {
    authority: Reloaded<Arc<dyn ClientCertVerifier>>,
    names: Vec<String>,
}

impl Clients {
    /// Those whom `files` describe.
    pub(super) fn load(files: &ClientFiles) -> Result<Self, LoadError> {
        let sources = [Source::File(files.authority.clone())];
        Ok(Self {
            authority: Reloaded::load(sources, |[authority]| verifier(authority).map(Arc::new))?,
            names: files.names.clone(),
        })
    }

    /// Reads the authority again where it has changed.
    pub(super) fn check(&self) -> Change {
        self.authority.check()
    }

    /// Whether a certificate that is in order is of somebody who is listed: by its common name, as of Kubernetes' users, or by
    /// a DNS name.
    fn verify_name(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let common = common_name(certificate);
        let is_of = |name: &String| {
            let host = ServerName::try_from(name.as_str());
            common.as_ref() == Some(name) || host.is_ok_and(|host| verify_server_name(&parsed, &host).is_ok())
        };
        if self.names.is_empty() || self.names.iter().any(is_of) {
            return Ok(());
        }
        let error = NotListed {
            found: common.map_or_else(|| "nobody by name".to_owned(), |name| format!("{name:?}")),
            listed: self.names.join(", "),
        };
        Err(CertificateError::Other(OtherError(Arc::new(error))).into())
    }
}

/// Reads authorities in PEM.
fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, AuthorityError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(AuthorityError::Pem)?)?;
    }
    if roots.is_empty() {
        return Err(AuthorityError::Empty);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
}

impl ClientCertVerifier for Clients {
    /// None: they change with the file, and a client with one certificate needs no hint which to show.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .authority
            .current()
            .verify_client_cert(certificate, intermediates, now)?;
        self.verify_name(certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority
            .current()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority
            .current()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.current().supported_verify_schemes()
    }
}

/// Why handshakes fail. Of clients that are refused the operator must hear, but not once for each time that somebody tries.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    said: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Why a handshake failed, in a word and in many.
    pub(super) fn tell(&self, error: &io::Error) -> (&'static str, String) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        let Some(why) = cause.and_then(refusal) else {
            return ("handshake", error.to_string());
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SILENCE) {
            *said = Some(Instant::now());
            warn!(
                why,
                "a client is refused: only API servers that show a certificate of --client-ca may connect"
            );
        }
        ("client_certificate", why)
    }
}

/// Why a client is refused, where an error means that it is.
fn refusal(error: &Error) -> Option<String> {
    if *error == Error::NoCertificatesPresented {
        return Some("it shows no certificate".to_owned());
    }
    let Error::InvalidCertificate(why) = error else {
        return None;
    };
    let why = if let CertificateError::Other(other) = why {
        other.to_string()
    } else {
        why.to_string()
    };
    Some(format!("its certificate is not accepted: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use std::path::PathBuf;
    use tempfile::TempDir;

    struct Authority(CertifiedIssuer<'static, KeyPair>);

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
        }

        /// A client's certificate with a common name and a DNS name.
        fn issue(&self, common: &str, host: &str) -> CertificateDer<'static> {
            let mut params = CertificateParams::new([host.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, common);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
                .signed_by(&KeyPair::generate().unwrap(), &self.0)
                .unwrap()
                .der()
                .clone()
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an authority is a file")]
    fn write(folder: &TempDir, authority: &str) -> PathBuf {
        let file = folder.path().join("ca.crt");
        std::fs::write(&file, authority).unwrap();
        file
    }

    fn clients(folder: &TempDir, authority: &str, names: &[&str]) -> Result<Clients, LoadError> {
        let file = write(folder, authority);
        Clients::load(&ClientFiles {
            authority: file,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    fn why(clients: &Clients, certificate: &CertificateDer<'_>) -> Option<String> {
        let verified = clients.verify_client_cert(certificate, &[], UnixTime::now());
        verified.err().map(|error| refusal(&error).unwrap())
    }

    #[test]
    fn only_those_who_are_listed_may_connect() {
        let (folder, authority, other) = (TempDir::new().unwrap(), Authority::new(), Authority::new());
        let pem = authority.0.pem();
        let server = authority.issue("kube-apiserver", "apiserver.example.com");
        let anybody = clients(&folder, &pem, &[]).unwrap();
        assert_eq!(why(&anybody, &server), None);
        let stranger = why(&anybody, &other.issue("kube-apiserver", "a")).unwrap();
        assert!(stranger.starts_with("its certificate is not accepted: "), "{stranger}");
        for listed in ["kube-apiserver", "apiserver.example.com"] {
            assert_eq!(
                why(&clients(&folder, &pem, &["x", listed]).unwrap(), &server),
                None,
                "{listed}"
            );
        }
        let others = clients(&folder, &pem, &["front-proxy", "x"]).unwrap();
        assert_eq!(
            why(&others, &server).unwrap(),
            "its certificate is not accepted: it is of \"kube-apiserver\", and only front-proxy, x may connect"
        );
    }

    #[test]
    fn another_authority_comes_into_use_and_a_bad_one_does_not() {
        let (folder, one, two) = (TempDir::new().unwrap(), Authority::new(), Authority::new());
        let clients = clients(&folder, &one.0.pem(), &[]).unwrap();
        let (of_one, of_two) = (one.issue("a", "a"), two.issue("a", "a"));
        assert_eq!((why(&clients, &of_one), why(&clients, &of_two).is_some()), (None, true));
        write(&folder, "garbage");
        assert!(matches!(clients.check(), Change::Kept(_)));
        assert_eq!(why(&clients, &of_one), None);
        write(&folder, &two.0.pem());
        assert!(matches!(clients.check(), Change::Swapped));
        assert_eq!((why(&clients, &of_one).is_some(), why(&clients, &of_two)), (true, None));
    }

    #[test]
    fn a_file_that_says_nothing_is_named() {
        let folder = TempDir::new().unwrap();
        for (text, expected) in [
            ("", "it holds no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----", "PEM: "),
        ] {
            let error = clients(&folder, text, &[]).unwrap_err().to_string();
            assert!(error.contains("ca.crt") && error.contains(expected), "{error}");
        }
    }
}
