//! Whether the API server trusts a chain of certificates.
//!
//! It asks Go's `crypto/x509`, and here rustls is asked, which is stricter. What both say of names, times, purposes and
//! signatures is said; what rustls alone objects to is left to a dry run.

use super::{LEFT_OF_LIFE, read};
use crate::webhook::certificate::{Validity, issuer, validity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore, crypto};
use std::sync::Arc;
use std::time::Duration;

/// The certificates of a `caBundle`.
pub(super) struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

/// By what a chain is judged.
pub(super) struct Trust<'a> {
    pub(super) bundle: Option<&'a Bundle>,
    pub(super) host: Option<&'a str>,
    /// Seconds since 1970.
    pub(super) now: i64,
}

/// How a chain stands; times are in seconds.
pub(super) enum Standing {
    Good {
        left: i64,
    },
    Ending {
        left: i64,
    },
    Expired {
        since: i64,
    },
    Untrusted {
        why: String,
    },
    /// rustls objects to something that Go may not mind.
    Untold {
        why: String,
    },
    Unreadable,
}

impl Bundle {
    /// Reads base64 of PEM.
    pub(super) fn read(bundle: &str) -> Result<Self, String> {
        let pem = STANDARD.decode(bundle).map_err(|error| format!("no base64: {error}"))?;
        let certificates = read(&pem)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            certificates,
            roots: Arc::new(roots),
        })
    }

    /// Whether a certificate of the bundle or of a chain that goes with it has the name of whoever issued `leaf`.
    fn may_have_issued(&self, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'static>]) -> bool {
        let mut known = RootCertStore::clone(&self.roots);
        known.add_parsable_certificates(intermediates.iter().cloned());
        let issuer = issuer(leaf);
        known.roots.iter().any(|root| Some(root.subject.as_ref()) == issuer)
    }

    pub(super) fn len(&self) -> usize {
        self.certificates.len()
    }
}

impl Trust<'_> {
    /// Judges a chain, the server's certificate first.
    pub(super) fn of(&self, chain: &[CertificateDer<'static>]) -> Standing {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Standing::Unreadable;
        };
        let Some(Validity { not_before, not_after }) = validity(leaf) else {
            return Standing::Unreadable;
        };
        let left = not_after - self.now;
        if left < 0 {
            return Standing::Expired { since: -left };
        }
        if let Err(doubt) = self.verify(leaf, intermediates) {
            return doubt;
        }
        match left < (not_after - not_before) / LEFT_OF_LIFE {
            true => Standing::Ending { left },
            false => Standing::Good { left },
        }
    }

    /// What a chain could not be compared with.
    pub(super) fn unseen(&self) -> &'static [&'static str] {
        match (self.bundle, self.host) {
            (Some(_), Some(_)) => &[],
            (_, _) => &["caBundle"],
        }
    }

    fn verify(&self, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'static>]) -> Result<(), Standing> {
        let (Some(bundle), Some(host)) = (self.bundle, self.host) else {
            return Ok(());
        };
        let untrusted = |why: String| Standing::Untrusted { why };
        let name = ServerName::try_from(host).map_err(|error| untrusted(format!("{host}: {error}")))?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(&bundle.roots), provider).build();
        let verifier = verifier.map_err(|error| untrusted(error.to_string()))?;
        let now = u64::try_from(self.now).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let Err(error) = verifier.verify_server_cert(leaf, intermediates, &name, &[], now) else {
            return Ok(());
        };
        // To Go, a certificate that is itself in the bundle is a chain by itself, whoever issued it and be it a CA's
        // (`Certificate.Verify`).
        if is_about_the_chain(&error) && bundle.certificates.contains(leaf) {
            let named = ParsedCertificate::try_from(leaf).and_then(|leaf| verify_server_name(&leaf, &name));
            return named.map_err(|error| untrusted(error.to_string()));
        }
        if let Error::InvalidCertificate(CertificateError::Other(why)) = &error
            && bundle.may_have_issued(leaf, intermediates)
        {
            return Err(Standing::Untold { why: why.to_string() });
        }
        Err(untrusted(error.to_string()))
    }
}

/// Whether the certificate itself is as it should be, and only who vouches for it is in doubt.
fn is_about_the_chain(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_)
        )
    )
}
