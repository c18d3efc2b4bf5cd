//! How a chain of certificates stands with the API server: by the same rules as in the webhook. What rustls alone objects to is
//! left to a dry run.

use super::LEFT_OF_LIFE;
use crate::webhook::certificate::{Bundle, Validity, validity};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error};

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

impl Trust<'_> {
    /// Judges a chain, the server's certificate first.
    pub(super) fn of(&self, chain: &[CertificateDer<'static>]) -> Standing {
        let Some(leaf) = chain.first() else {
            return Standing::Unreadable;
        };
        let Some(Validity { not_before, not_after }) = validity(leaf) else {
            return Standing::Unreadable;
        };
        let left = not_after - self.now;
        if left < 0 {
            return Standing::Expired { since: -left };
        }
        if let Err(doubt) = self.verify(chain) {
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

    fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), Standing> {
        let (Some(bundle), Some(host)) = (self.bundle, self.host) else {
            return Ok(());
        };
        let Err(error) = bundle.vouches_for(chain, host, self.now) else {
            return Ok(());
        };
        if let Error::InvalidCertificate(CertificateError::Other(why)) = &error
            && bundle.may_have_issued(chain)
        {
            return Err(Standing::Untold { why: why.to_string() });
        }
        Err(Standing::Untrusted { why: error.to_string() })
    }
}
