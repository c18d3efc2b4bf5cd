//! Certificates: what the API server trusts, what the webhook presents, and how long each lasts.

use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::webhook::certificate::{Validity, validity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{RootCertStore, crypto};
use std::sync::Arc;
use std::time::Duration;

/// A certificate with less than this part of its life left should have been renewed: cert-manager's default is to renew at
/// two thirds.
const LEFT_OF_LIFE: i64 = 3;

/// Trust anchors live for years: Linkerd's own check warns 60 days ahead.
const ANCHOR_NOTICE: i64 = 60 * 86_400;

/// A chain, the server's certificate first.
pub(in crate::cli::check) type Chain = Vec<CertificateDer<'static>>;

/// What the webhook presented when it was spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Presented {
    /// A chain, at this address.
    Chain {
        /// The certificates.
        chain: Chain,
        /// Where.
        address: String,
    },
    /// It could not be spoken to from here.
    Unreachable {
        /// Why not.
        why: String,
    },
    /// It was reached and did not speak TLS.
    Broken {
        /// What it did.
        why: String,
    },
}

/// What there is of certificates; all of it PEM but for what was presented.
#[derive(Clone, Debug, Default)]
pub(in crate::cli::check) struct Certificates {
    /// Base64 of PEM, as `clientConfig.caBundle` has it; nothing where no webhook is registered.
    pub(in crate::cli::check) bundle: Option<String>,
    /// The name that the certificate must have.
    pub(in crate::cli::check) host: Option<String>,
    /// `tls.crt` of the Secret; nothing where it may not be read or is not there.
    pub(in crate::cli::check) secret: Option<Vec<u8>>,
    /// What was presented; nothing where there is nobody to speak to.
    pub(in crate::cli::check) presented: Option<Presented>,
    /// The trust anchors; nothing where they are not known.
    pub(in crate::cli::check) anchors: Option<String>,
    /// Seconds since 1970.
    pub(in crate::cli::check) now: i64,
}

/// Judges all of them.
pub(in crate::cli::check) fn judge(certificates: &Certificates) -> Vec<Finding> {
    let mut findings = Vec::new();
    let roots = certificates.bundle.as_ref().map(|bundle| roots(bundle));
    findings.extend(roots.as_ref().map(|roots| match roots {
        Ok(roots) => Finding::ok(
            Code::CaBundle,
            format!("caBundle holds {}", count(roots.len(), "certificate")),
        ),
        Err(why) => Finding::failed(Code::CaBundleUnusable, format!("caBundle: {why}")),
    }));
    let roots = roots.and_then(Result::ok);
    let trust = Trust {
        roots: roots.as_ref(),
        host: certificates.host.as_deref(),
        now: certificates.now,
    };
    if let Some(pem) = &certificates.secret {
        findings.push(stored(pem, &trust));
    }
    if let Some(presented) = &certificates.presented {
        findings.push(spoken(presented, &trust));
    }
    findings.extend(certificates.anchors.as_ref().map(|pem| anchors(pem, certificates.now)));
    findings
}

/// By what a chain is judged.
struct Trust<'a> {
    roots: Option<&'a RootCertStore>,
    host: Option<&'a str>,
    now: i64,
}

/// How a chain stands.
enum Standing {
    Good { left: i64 },
    Ending { left: i64 },
    Expired { since: i64 },
    Untrusted { why: String },
    Unreadable,
}

impl Trust<'_> {
    fn of(&self, chain: &[CertificateDer<'static>]) -> Standing {
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
        if let Err(why) = self.verify(leaf, intermediates) {
            return Standing::Untrusted { why };
        }
        match left < (not_after - not_before) / LEFT_OF_LIFE {
            true => Standing::Ending { left },
            false => Standing::Good { left },
        }
    }

    fn verify(&self, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'static>]) -> Result<(), String> {
        let (Some(roots), Some(host)) = (self.roots, self.host) else {
            return Ok(());
        };
        let name = ServerName::try_from(host).map_err(|error| format!("{host}: {error}"))?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        let now = u64::try_from(self.now).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let verified = verifier.verify_server_cert(leaf, intermediates, &name, &[], now);
        verified.map(drop).map_err(|error| error.to_string())
    }
}

/// The certificates of a `caBundle`.
fn roots(bundle: &str) -> Result<RootCertStore, String> {
    let pem = STANDARD.decode(bundle).map_err(|error| format!("no base64: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in read(&pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The certificates of a PEM text: one at least.
pub(in crate::cli::check) fn read(pem: &[u8]) -> Result<Chain, String> {
    let chain: Result<Chain, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| format!("no PEM: {error}"))?;
    match chain.is_empty() {
        true => Err("no certificate in PEM".to_owned()),
        false => Ok(chain),
    }
}

/// The certificate that the Secret has, and the webhook takes within a minute.
fn stored(pem: &[u8], trust: &Trust<'_>) -> Finding {
    let chain = match read(pem) {
        Ok(chain) => chain,
        Err(why) => {
            return Finding::failed(
                Code::ServingCertificateUnreadable,
                format!("tls.crt of the Secret: {why}"),
            );
        }
    };
    match trust.of(&chain) {
        Standing::Good { left } => {
            let message = format!("the Secret's certificate is good for {}", span(left));
            Finding::ok(Code::ServingCertificate, message)
        }
        Standing::Ending { left } => {
            let message = format!("the Secret's certificate ends in {}", span(left));
            Finding::warning(Code::ServingCertificateEnding, message)
        }
        Standing::Expired { since } => {
            let message = format!("the Secret's certificate ended {} ago", span(since));
            Finding::failed(Code::ServingCertificateExpired, message)
        }
        Standing::Untrusted { why } => {
            let message = format!("the API server will not take the Secret's certificate: {why}");
            Finding::failed(Code::ServingCertificateNotTrusted, message)
        }
        Standing::Unreadable => {
            let message = "tls.crt of the Secret holds no certificate that can be read";
            Finding::failed(Code::ServingCertificateUnreadable, message)
        }
    }
}

/// The certificate that the webhook presents.
fn spoken(presented: &Presented, trust: &Trust<'_>) -> Finding {
    let (chain, address) = match presented {
        Presented::Chain { chain, address } => (chain, address),
        Presented::Unreachable { why } => {
            let message = format!("the webhook cannot be reached from here: {why}");
            return Finding::unknown(Code::HandshakeNotTried, message);
        }
        Presented::Broken { why } => {
            return Finding::failed(Code::HandshakeFailed, format!("no TLS: {why}"));
        }
    };
    match trust.of(chain) {
        Standing::Good { left } | Standing::Ending { left } => {
            let message = format!(
                "the webhook at {address} presents a certificate of caBundle, good for {}",
                span(left)
            );
            Finding::ok(Code::Handshake, message)
        }
        Standing::Expired { since } => {
            let message = format!(
                "the webhook at {address} presents a certificate that ended {} ago",
                span(since)
            );
            Finding::failed(Code::HandshakeFailed, message)
        }
        Standing::Untrusted { why } => {
            let message = format!("the API server will not take what the webhook at {address} presents: {why}");
            Finding::failed(Code::HandshakeFailed, message)
        }
        Standing::Unreadable => {
            let message = format!("the webhook at {address} presents no certificate that can be read");
            Finding::failed(Code::HandshakeFailed, message)
        }
    }
}

fn anchors(pem: &str, now: i64) -> Finding {
    let chain = match read(pem.as_bytes()) {
        Ok(chain) => chain,
        Err(why) => return Finding::failed(Code::TrustAnchorsUnreadable, format!("trust anchors: {why}")),
    };
    let lives: Option<Vec<_>> = chain.iter().map(validity).collect();
    let Some(lives) = lives else {
        let message = "trust anchors: a certificate cannot be read";
        return Finding::failed(Code::TrustAnchorsUnreadable, message);
    };
    let all = count(lives.len(), "trust anchor");
    let expired = lives.iter().filter(|life| life.not_after < now).count();
    // The one that is trusted longest counts: during a rotation the bundle holds the old one too.
    let longest = lives.iter().max_by_key(|life| life.not_after);
    let (left, life) = longest.map_or((0, 0), |life| (life.not_after - now, life.not_after - life.not_before));
    if left < 0 {
        let message = format!("{all}, the last of which ended {} ago", span(-left));
        return Finding::failed(Code::TrustAnchorsExpired, message);
    }
    if left < ANCHOR_NOTICE.min(life / LEFT_OF_LIFE) {
        return Finding::warning(Code::TrustAnchorsEnding, format!("{all}, good for {} more", span(left)));
    }
    let aside = match expired {
        0 => String::new(),
        number => format!("; {number} of them ended, and can be taken out"),
    };
    Finding::ok(Code::TrustAnchors, format!("{all}, good for {}{aside}", span(left)))
}

/// A time in its largest unit.
fn span(seconds: i64) -> String {
    let of = |unit: i64, noun: &str| count(usize::try_from(seconds / unit).unwrap_or_default(), noun);
    match seconds {
        ..120 => of(1, "second"),
        120..7200 => of(60, "minute"),
        7200..172_800 => of(3600, "hour"),
        _ => of(86_400, "day"),
    }
}

#[cfg(test)]
mod tests;
