//! Whom API servers trust: the `caBundle` of a webhook's entry.
//!
//! What is in it is read as an API server reads it, and never thrown away while it may be of use: replicas may still show a
//! certificate of an authority that is not ours.

use super::validity::{issuer, validity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pem::{EncodeConfig, LineEnding, Pem, encode_config};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use std::time::Duration;

/// The certificates of a `caBundle`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    /// Whether there is something else that is meant to be one.
    junk: bool,
}

impl Bundle {
    /// Reads `clientConfig.caBundle`, which is base64 of PEM.
    pub(crate) fn read(text: &str) -> Self {
        match STANDARD.decode(text) {
            Ok(pem) => Self::of_pem(&pem),
            Err(_) => Self {
                certificates: Vec::new(),
                junk: true,
            },
        }
    }

    /// Reads PEM.
    pub(crate) fn of_pem(pem: &[u8]) -> Self {
        let (mut certificates, mut junk) = (Vec::new(), false);
        for section in CertificateDer::pem_slice_iter(pem) {
            match section {
                Ok(certificate) if validity(&certificate).is_some() => certificates.push(certificate),
                Ok(_) | Err(_) => junk = true,
            }
        }
        // An API server refuses to call with a text that holds no certificate; with none at all it does.
        junk |= certificates.is_empty() && !pem.trim_ascii().is_empty();
        Self { certificates, junk }
    }

    /// The certificates, in order.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// The bundle with `authorities` in it as well, and without what is no certificate or had ended at `now`; nothing where
    /// that is what it is.
    pub(crate) fn completed(&self, authorities: &[CertificateDer<'static>], now: i64) -> Option<Self> {
        let lives = |certificate: &&CertificateDer<'static>| {
            validity(certificate).is_some_and(|validity| now < validity.not_after)
        };
        let mut certificates: Vec<_> = self.certificates.iter().filter(lives).cloned().collect();
        for authority in authorities.iter().filter(lives) {
            if !certificates.contains(authority) {
                certificates.push(authority.clone());
            }
        }
        let completed = Self {
            certificates,
            junk: false,
        };
        (completed != *self).then_some(completed)
    }

    /// The text for `clientConfig.caBundle`.
    pub(crate) fn to_text(&self) -> String {
        let form = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let pem =
            |certificate: &CertificateDer<'_>| encode_config(&Pem::new("CERTIFICATE", certificate.as_ref()), form);
        STANDARD.encode(self.certificates.iter().map(pem).collect::<String>())
    }

    /// Whether an API server that dials `host` takes `chain`, the server's certificate first, at `now`; the error says why
    /// not. It asks Go's `crypto/x509`, and here rustls is asked, which is stricter.
    pub(crate) fn vouches_for(&self, chain: &[CertificateDer<'static>], host: &str, now: i64) -> Result<(), Error> {
        let (leaf, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        let parsed = ParsedCertificate::try_from(leaf)?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or_default()));
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let signed = verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots(), intermediates, now, algorithms);
        match signed {
            // To Go, a certificate that is itself in the bundle is a chain by itself, whoever issued it and be it a CA's
            // (`Certificate.Verify`).
            Err(error) if is_about_the_chain(&error) && self.certificates.contains(leaf) => {}
            signed => signed?,
        }
        verify_host(&parsed, host)
    }

    /// Whether a certificate of the bundle, or another of `chain`, has the name of whoever issued the first of `chain`.
    pub(crate) fn may_have_issued(&self, chain: &[CertificateDer<'static>]) -> bool {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return false;
        };
        let mut known = self.roots();
        known.add_parsable_certificates(intermediates.iter().cloned());
        let issuer = issuer(leaf);
        known.roots.iter().any(|root| Some(root.subject.as_ref()) == issuer)
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.certificates.iter().cloned());
        roots
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

/// Whether `leaf` has the name `host`.
pub(super) fn verify_host(leaf: &ParsedCertificate<'_>, host: &str) -> Result<(), Error> {
    let name = ServerName::try_from(host).map_err(|error| Error::General(format!("{host}: {error}")))?;
    verify_server_name(leaf, &name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::certificate::issue::{Issued, issue};
    use proptest::prelude::*;
    use std::time::SystemTime;

    const HOST: &str = "linkerd-proxy-injector.linkerd.svc";
    const DAY: i64 = 86_400;

    /// A certificate that is good from the first to the second of two days since 1970.
    fn issued(begin: i64, end: i64) -> Issued {
        let at = |day: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(day * DAY).unwrap());
        issue("authority", &[HOST.to_owned()], at(begin), at(end)).unwrap()
    }

    fn chain(issued: &Issued) -> Vec<CertificateDer<'static>> {
        Bundle::of_pem(issued.certificate.as_bytes()).certificates
    }

    fn authorities(issued: &[&Issued]) -> Vec<CertificateDer<'static>> {
        let of = |issued: &&Issued| Bundle::of_pem(issued.authority.as_bytes()).certificates;
        issued.iter().flat_map(of).collect()
    }

    #[test]
    fn a_bundle_gets_what_it_lacks_and_loses_what_is_of_no_use() {
        let (ended, old, new) = (issued(0, 10), issued(0, 30), issued(20, 50));
        let now = 25 * DAY;
        let all = authorities(&[&ended, &old]);
        let before = Bundle::default().completed(&all, 5 * DAY).unwrap();
        assert_eq!(before.certificates(), all);
        assert_eq!(Bundle::read(&before.to_text()), before);

        let ours = authorities(&[&new]);
        let after = before.completed(&ours, now).unwrap();
        assert_eq!(after.certificates(), authorities(&[&old, &new]));
        assert_eq!(after.completed(&ours, now), None);
        assert_eq!(Bundle::default().completed(&authorities(&[&ended]), now), None);
    }

    #[test]
    fn what_is_no_certificate_is_replaced() {
        let new = issued(0, 10);
        let ours = authorities(&[&new]);
        let good = Bundle::default().completed(&ours, DAY).unwrap();
        let truncated = new.authority.get(..100).unwrap();
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let texts = [
            "CA_BUNDLE".to_owned(),
            "%".to_owned(),
            STANDARD.encode("no PEM"),
            STANDARD.encode(truncated),
            STANDARD.encode(garbage),
            STANDARD.encode(format!("{}{garbage}", new.authority)),
        ];
        for text in texts {
            assert_eq!(Bundle::read(&text).completed(&ours, DAY), Some(good.clone()), "{text}");
        }
        let remark = STANDARD.encode(format!("made by hand\n{}", new.authority));
        assert_eq!(Bundle::read(&remark).completed(&ours, DAY), None);
        assert_eq!(Bundle::read(""), Bundle::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_bundle_holds_one_completion_is_enough(
            text in "[A-Za-z0-9+/=%]{0,64}",
            pem in "(-----(BEGIN|END) CERTIFICATE-----\n|[A-Z=]{1,8}\n|\n){0,12}",
        ) {
            for bundle in [Bundle::read(&text), Bundle::of_pem(pem.as_bytes())] {
                let now = DAY;
                let completed = bundle.completed(&[], now).unwrap_or(bundle);
                prop_assert_eq!(completed.completed(&[], now), None);
                prop_assert_eq!(Bundle::read(&completed.to_text()), completed);
            }
        }
    }

    #[test]
    fn a_chain_is_judged_as_an_api_server_judges_it() {
        let (ours, others) = (issued(1, 10), issued(1, 10));
        let bundle = Bundle::of_pem(format!("{}{}", others.authority, ours.authority).as_bytes());
        assert_eq!(bundle.vouches_for(&chain(&ours), HOST, 2 * DAY), Ok(()));
        let why = |bundle: &Bundle, host, day: i64| {
            bundle
                .vouches_for(&chain(&ours), host, day * DAY)
                .unwrap_err()
                .to_string()
        };
        assert!(
            why(&bundle, "a.b.svc", 2).contains("not valid for name"),
            "{}",
            why(&bundle, "a.b.svc", 2)
        );
        assert!(
            why(&bundle, HOST, 0).contains("not valid yet"),
            "{}",
            why(&bundle, HOST, 0)
        );
        assert!(why(&bundle, HOST, 11).contains("expired"), "{}", why(&bundle, HOST, 11));
        let stranger = Bundle::of_pem(others.authority.as_bytes());
        assert!(
            why(&stranger, HOST, 2).contains("BadSignature"),
            "{}",
            why(&stranger, HOST, 2)
        );
        assert!(why(&Bundle::default(), HOST, 2).contains("UnknownIssuer"));
        assert!(bundle.vouches_for(&[], HOST, 0).is_err());
        // One that is in the bundle itself needs nobody else, but the name.
        let pinned = Bundle::of_pem(ours.certificate.as_bytes());
        assert_eq!(pinned.vouches_for(&chain(&ours), HOST, 2 * DAY), Ok(()));
        assert!(why(&pinned, "a.b.svc", 2).contains("not valid for name"));
        assert!(why(&pinned, HOST, 11).contains("expired"));
    }
}
