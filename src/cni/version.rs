//! Versions of the CNI specification.

use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// A version of the specification that the plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.3.0, the first with chains of plugins.
    V030,
    /// 0.3.1.
    V031,
    /// 0.4.0, the first with CHECK.
    V040,
    /// 1.0.0.
    V100,
    /// 1.1.0, the first with GC and STATUS.
    V110,
}

impl Version {
    /// Every version, ascending.
    pub const ALL: [Self; 5] = [Self::V030, Self::V031, Self::V040, Self::V100, Self::V110];

    /// The version spoken where none is known.
    pub const LATEST: Self = Self::V110;

    /// As the configuration writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::V030 => "0.3.0",
            Self::V031 => "0.3.1",
            Self::V040 => "0.4.0",
            Self::V100 => "1.0.0",
            Self::V110 => "1.1.0",
        }
    }

    /// The answer to VERSION, in this version.
    pub fn report(self) -> Value {
        json!({"cniVersion": self.text(), "supportedVersions": Self::ALL.map(Self::text)})
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A text that is no [`Version`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cniVersion {0:?} is not supported; expected one of {known}", known = Version::ALL.map(Version::text).join(", "))]
pub struct VersionError(String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|version| version.text() == text);
        known.ok_or_else(|| VersionError(text.to_owned()))
    }
}
