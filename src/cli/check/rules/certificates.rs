//! Certificates: what the API server trusts, what the webhook presents, and how long each lasts.

use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::webhook::certificate::{Bundle, validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use trust::{Standing, Trust};

mod trust;

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

/// What there is of the Secret that the webhook's certificate is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli::check) enum Stored {
    /// It may not be read, or nobody knows which it is.
    #[default]
    Unknown,
    /// The Secret of that name is not there.
    Missing(String),
    /// `tls.crt`, PEM; empty where there is none.
    Certificate(Vec<u8>),
}

/// What there is of certificates; all of it PEM but for what was presented.
#[derive(Clone, Debug, Default)]
pub(in crate::cli::check) struct Certificates {
    /// Base64 of PEM, as `clientConfig.caBundle` has it; nothing where no webhook is registered.
    pub(in crate::cli::check) bundle: Option<String>,
    /// The name that the certificate must have.
    pub(in crate::cli::check) host: Option<String>,
    /// The Secret.
    pub(in crate::cli::check) secret: Stored,
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
    let bundle = certificates.bundle.as_ref().map(|bundle| Bundle::read(bundle));
    findings.extend(bundle.as_ref().map(|bundle| match bundle.certificates() {
        [] => Finding::failed(Code::CaBundleUnusable, "caBundle holds no certificate in PEM"),
        certificates => Finding::ok(
            Code::CaBundle,
            format!("caBundle holds {}", count(certificates.len(), "certificate")),
        ),
    }));
    let bundle = bundle.filter(|bundle| !bundle.certificates().is_empty());
    let trust = Trust {
        bundle: bundle.as_ref(),
        host: certificates.host.as_deref(),
        now: certificates.now,
    };
    findings.extend(match &certificates.secret {
        Stored::Certificate(pem) => Some(stored(pem, &trust)),
        Stored::Missing(name) => {
            let message = format!("there is no Secret {name}, from which the webhook has its certificate");
            Some(Finding::failed(Code::ServingCertificateMissing, message))
        }
        Stored::Unknown => None,
    });
    if let Some(presented) = &certificates.presented {
        findings.push(spoken(presented, &trust));
    }
    findings.extend(certificates.anchors.as_ref().map(|pem| anchors(pem, certificates.now)));
    findings
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
            Finding::ok(Code::ServingCertificate, message).unless_unseen(trust.unseen())
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
        Standing::Untold { why } => {
            let message =
                format!("whether the API server takes the Secret's certificate is for a dry run to tell: {why}");
            Finding::unknown(Code::ServingCertificate, message)
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
            return Finding::failed(
                Code::HandshakeBroken,
                format!("no TLS handshake with the webhook: {why}"),
            );
        }
    };
    match trust.of(chain) {
        Standing::Good { left } | Standing::Ending { left } => {
            let message = format!(
                "the webhook at {address} presents a certificate of caBundle, good for {}",
                span(left)
            );
            match trust.unseen() {
                [] => Finding::ok(Code::Handshake, message),
                unseen => {
                    let message = format!(
                        "the webhook at {address} presents a certificate, good for {}",
                        span(left)
                    );
                    Finding::ok(Code::Handshake, message).unless_unseen(unseen)
                }
            }
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
        Standing::Untold { why } => {
            let message = format!(
                "whether the API server takes what the webhook at {address} presents is for a dry run to tell: {why}"
            );
            Finding::unknown(Code::Handshake, message)
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
