//! Releases of the API server, `1.N`.

use std::fmt;
use std::str::FromStr;

/// A release of Kubernetes: the minor version of an API server or of a kubelet (the major version is always 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32);

impl Release {
    /// The newest release whose rules are known here; assumed where no server was asked.
    pub const NEWEST: Self = Self(37);

    /// The first release in which an init container may go on running: the gate `SidecarContainers` is on by default.
    pub const NATIVE_SIDECARS: Self = Self(29);
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// A text that is no release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no Kubernetes release: expected 1.N, as in 1.33")]
pub struct ReleaseError(String);

impl FromStr for Release {
    type Err = ReleaseError;

    /// Reads `1.33`, `v1.33`, `v1.33.2`, and what managed platforms report, such as `1.33+` or `v1.33.2-gke.100`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ReleaseError(text.to_owned());
        let rest = text
            .strip_prefix('v')
            .unwrap_or(text)
            .strip_prefix("1.")
            .ok_or_else(error)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, tail) = rest.split_at(end);
        if !(tail.is_empty() || tail.starts_with(['.', '+', '-'])) {
            return Err(error());
        }
        minor.parse().map(Self).ok().ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_servers_report() {
        for (text, minor) in [("1.33", 33), ("v1.24.17", 24), ("1.29+", 29), ("v1.33.2-gke.100", 33)] {
            assert_eq!(text.parse(), Ok(Release(minor)), "{text}");
        }
        for text in ["", "33", "1.", "2.3", "1.x", "1.3x"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
    }
}
