//! Puts the rules into the kernel, the only part of this room that touches anything.
//!
//! Every back end goes the same way: read what is there; where it already does what is wanted, change nothing; else
//! change it in one commit, read it back, and put the old state back where the kernel shows something else. Two runs in
//! one network namespace wait for each other. Rules of others are never written.

mod error;
mod lock;
mod namespace;
mod native;
mod programs;
mod socket;
mod tables;

pub use error::ApplyError;
pub use namespace::{has_ipv6, has_ipv6_address, inside};

use super::nft::TableFamily;
use super::{Family, Redirection};
use programs::Back;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The way in which the rules are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `iptables-legacy`, or another pair of programs where it is missing; Linkerd's meaning of no mode at all.
    #[default]
    Legacy,
    /// `iptables-nft`, or another pair of programs where it is missing.
    Nft,
    /// `iptables`, or another pair of programs where it is missing.
    Plain,
    /// One nftables table, by netlink; no program is needed.
    Native,
    /// The first that works of native, `iptables-nft` and `iptables-legacy`.
    Auto,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
            Self::Plain => "plain",
            Self::Native => "native",
            Self::Auto => "auto",
        })
    }
}

/// A text that is no [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("iptables mode {0:?} is none; expected legacy, nft, plain, native or auto")]
pub struct ModeError(String);

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Legacy, Self::Nft, Self::Plain, Self::Native, Self::Auto]
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| ModeError(text.to_owned()))
    }
}

/// How the rules are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// By which means.
    pub mode: Mode,
    /// For IPv6 too, where the kernel has it.
    pub ipv6: bool,
    /// How long others are waited for.
    pub wait: Wait,
}

/// How long the locks are waited for: that of `iptables`, and ours on a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// 30 seconds at most.
    #[default]
    Usual,
    /// For that of `iptables` as long as it takes, and 30 seconds for ours.
    Endless,
    /// Until then: whoever asked goes away.
    Until(Instant),
}

/// [`Wait::Usual`], which is longer than any run takes.
const USUAL: Duration = Duration::from_secs(30);

impl Wait {
    /// What is left of the time for the lock of `iptables`; `None` where there is no end.
    fn left(self) -> Option<Duration> {
        match self {
            Self::Usual => Some(USUAL),
            Self::Endless => None,
            Self::Until(end) => Some(end.saturating_duration_since(Instant::now())),
        }
    }

    /// The time for our own lock. Rules are written without it in the end, so that time must be left for them.
    fn left_for_ours(self) -> Duration {
        match self {
            Self::Usual | Self::Endless => USUAL,
            Self::Until(_) => self.left().unwrap_or_default() / 2,
        }
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// By which means, for people: `native nftables`, `iptables-nft` and the like.
    pub by: String,
    /// Whether anything was changed; a second run changes nothing.
    pub changed: bool,
    /// What people should know all the same, each a sentence.
    pub warnings: Vec<String>,
}

/// Puts the rules of `redirection` in force in the network namespace of this thread.
///
/// # Errors
/// With the cause in a sentence; the rules are then what they were before.
pub fn apply(redirection: &Redirection, options: Options) -> Result<Applied, ApplyError> {
    let _lock = lock::acquire(options.wait.left_for_ours());
    let mut warnings = Vec::new();
    let ipv6 = wants_ipv6(redirection, options) && has_ipv6();
    if options.ipv6 && !ipv6 {
        warnings.push("this kernel has no IPv6: rules are written for IPv4 alone".to_owned());
    }
    let options = Options { ipv6, ..options };
    let mut applied = match options.mode {
        Mode::Native => native::apply(redirection, table_family(ipv6))?,
        Mode::Auto => apply_first(redirection, options, &mut warnings)?,
        Mode::Legacy => tables::apply(redirection, Back::Legacy, options)?,
        Mode::Nft => tables::apply(redirection, Back::Nft, options)?,
        Mode::Plain => tables::apply(redirection, Back::Plain, options)?,
    };
    warnings.append(&mut applied.warnings);
    Ok(Applied { warnings, ..applied })
}

/// Whether the rules of `redirection` are in force, as a check asks.
///
/// # Errors
/// [`ApplyError::NotInForce`] where they are not; others where that cannot be told.
pub fn check(redirection: &Redirection, options: Options) -> Result<(), ApplyError> {
    let options = Options {
        ipv6: wants_ipv6(redirection, options) && has_ipv6(),
        ..options
    };
    let back = match options.mode {
        Mode::Native => return native::check(redirection, table_family(options.ipv6)),
        Mode::Auto => {
            let native = native::check(redirection, table_family(options.ipv6));
            let others = || {
                [Back::Nft, Back::Legacy]
                    .iter()
                    .any(|back| tables::check(redirection, *back, options).is_ok())
            };
            return if native.is_err() && others() { Ok(()) } else { native };
        }
        Mode::Legacy => Back::Legacy,
        Mode::Nft => Back::Nft,
        Mode::Plain => Back::Plain,
    };
    tables::check(redirection, back, options)
}

/// Takes the rules away again; where there are none, nothing happens.
///
/// # Errors
/// With the cause in a sentence.
pub fn remove(options: Options) -> Result<(), ApplyError> {
    let _lock = lock::acquire(options.wait.left_for_ours());
    let options = Options {
        ipv6: options.ipv6 && has_ipv6(),
        ..options
    };
    match options.mode {
        Mode::Native | Mode::Auto => native::remove(),
        Mode::Legacy => tables::remove(Back::Legacy, options),
        Mode::Nft => tables::remove(Back::Nft, options),
        Mode::Plain => tables::remove(Back::Plain, options),
    }
}

/// Whether incoming connections are redirected, by any means; `None` where nothing here may read the rules.
pub fn redirects_inbound() -> Option<bool> {
    let native = native::redirects_inbound();
    let programs = [Back::Nft, Back::Legacy].map(tables::redirects_inbound);
    let answers: Vec<bool> = programs.into_iter().chain([native]).flatten().collect();
    let sure = native.is_some() && programs.iter().any(Option::is_some);
    if answers.contains(&true) {
        Some(true)
    } else {
        sure.then_some(false)
    }
}

fn apply_first(redirection: &Redirection, options: Options, warnings: &mut Vec<String>) -> Result<Applied, ApplyError> {
    let mut causes = Vec::new();
    let attempts: [&dyn Fn() -> Result<Applied, ApplyError>; 3] = [
        &|| native::apply(redirection, table_family(options.ipv6)),
        &|| tables::apply_exactly(redirection, Back::Nft, options),
        &|| tables::apply_exactly(redirection, Back::Legacy, options),
    ];
    for attempt in attempts {
        match attempt() {
            Ok(applied) => {
                warnings.extend(causes);
                return Ok(applied);
            }
            Err(error) => causes.push(error.to_string()),
        }
    }
    Err(ApplyError::NothingWorks {
        causes: causes.join("; "),
    })
}

/// Whether rules are for IPv6 too. A fence is: what the proxy does not carry must not go around it.
const fn wants_ipv6(redirection: &Redirection, options: Options) -> bool {
    options.ipv6 || redirection.fence.is_some()
}

const fn table_family(ipv6: bool) -> TableFamily {
    if ipv6 { TableFamily::Inet } else { TableFamily::Ip }
}

const fn families(ipv6: bool) -> &'static [Family] {
    if ipv6 { &[Family::V4, Family::V6] } else { &[Family::V4] }
}
