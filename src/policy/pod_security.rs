//! Pod Security admission: what the API server's built-in `PodSecurity` plugin will say to a pod.
//!
//! Three uses, from the inside out. [`evaluate`] judges one pod, as given, by one [`Policy`]. [`NamespacePolicies`] reads
//! a namespace's labels over the cluster's [`Configuration`]. [`Question::admission`] puts both together: the whole way
//! of a pod's creation through the plugin, exemptions included, for a namespace and a requester; it is prepared once and
//! then asked about the pod as it came and about each candidate.
//!
//! Answers, texts included, are those of the named [`Server`]: releases differ, and so do policy versions. This room
//! never changes a pod, but for [`default`], which applies the part of the API's defaulting that the checks can see.
//!
//! Spec: the Pod Security Standards, as k8s.io/pod-security-admission implements them in Kubernetes 1.22 to 1.37.

mod baseline;
mod configuration;
mod defaulting;
mod evaluation;
mod labels;
mod profiles;
pub mod question;
mod restricted;
mod review;
mod server;
mod subject;
mod wording;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use configuration::{Configuration, ConfigurationError, Defaults, Exemptions};
pub use defaulting::default;
pub use evaluation::{Evaluation, evaluate};
pub use labels::{LabelError, NamespacePolicies};
pub use review::{Admission, Exemption, Question, Review};
pub use server::Server;

/// How strict a policy is; a greater level is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known ways to more privileges are refused.
    Baseline,
    /// Current hardening practice is demanded.
    Restricted,
}

/// The version of the standards that a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The newest that the server knows.
    Latest,
    /// `v1.N`; one that the server does not know yet means its newest.
    Minor(u64),
}

/// A level at a version, `baseline:latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How strict.
    pub level: Level,
    /// By which version of the standards.
    pub version: Version,
}

/// A text that is neither a level nor a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} {expected}")]
pub struct PolicyError {
    value: String,
    expected: &'static str,
}

impl Policy {
    /// What is in force where nothing restricts.
    pub const PRIVILEGED: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

impl Level {
    /// What a level must be, in the API server's words.
    const EXPECTED: &'static str = "must be one of privileged, baseline, restricted";

    /// The level as labels write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = PolicyError;

    /// Reads a level exactly as labels write it: lower case, no blanks.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Privileged, Self::Baseline, Self::Restricted]
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| PolicyError {
                value: text.to_owned(),
                expected: Self::EXPECTED,
            })
    }
}

impl Version {
    /// What a version must be, in the API server's words.
    const EXPECTED: &'static str = r#"must be "latest" or "v1.x""#;
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

impl FromStr for Version {
    type Err = PolicyError;

    /// Reads `latest`, or `v1.` and a decimal number without leading zeros that fits a signed 64-bit integer.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PolicyError {
            value: text.to_owned(),
            expected: Self::EXPECTED,
        };
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").ok_or_else(error)?;
        let decimal = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let minor = digits
            .parse::<i64>()
            .ok()
            .filter(|_| decimal)
            .and_then(|minor| u64::try_from(minor).ok());
        minor.map(Self::Minor).ok_or_else(error)
    }
}
