//! The API server that judges: its release, and what its release changes beside the policy version.

use super::Version;
use crate::policy::Release;

/// The policy versions at which some check changes.
const BREAKPOINTS: [u32; 13] = [0, 8, 19, 22, 23, 25, 27, 29, 31, 32, 34, 35, 37];

/// An API server, as far as Pod Security depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// The release of the binary.
    pub release: Release,
    /// The older release that it emulates (`emulationMinor` of `GET /version`), where it does.
    pub emulated: Option<Release>,
    /// Whether the feature gate `UserNamespacesPodSecurityStandards` is on: releases 1.29 to 1.34 only. It cannot be
    /// read from outside; upstream has it off, OpenShift on.
    pub user_namespaces: bool,
}

impl From<Release> for Server {
    fn from(release: Release) -> Self {
        Self {
            release,
            emulated: None,
            user_namespaces: false,
        }
    }
}

impl Server {
    /// The release whose features the server offers: the emulated one, where there is one.
    pub(super) fn offers(self) -> Release {
        self.emulated
            .map_or(self.release, |emulated| emulated.min(self.release))
    }

    /// Whether the binary is of `release` 1.N or newer.
    pub(super) fn since(self, release: u32) -> bool {
        self.release >= Release(release)
    }

    /// The minor number of the policy version by which this server judges where `version` is asked for.
    pub(super) fn resolve(self, version: Version) -> u32 {
        let top = self.top();
        match version {
            Version::Latest => top,
            Version::Minor(minor) => u32::try_from(minor).map_or(top, |minor| minor.min(top)),
        }
    }

    /// The newest policy version that this server knows: the last at which one of its checks changed.
    fn top(self) -> u32 {
        // 1.22 is the first release with Pod Security.
        let Release(release) = self.release.max(Release(22));
        let newest = BREAKPOINTS
            .into_iter()
            .rfind(|&minor| minor <= release)
            .unwrap_or_default();
        // Only from 1.35 on does emulation reach the checks' versions.
        if release >= 35 {
            newest.min(self.offers().0)
        } else {
            newest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_policy_version_is_not_the_release() {
        let tops = [
            (18, 22),
            (22, 22),
            (24, 23),
            (26, 25),
            (28, 27),
            (30, 29),
            (31, 31),
            (33, 32),
            (34, 34),
            (36, 35),
        ];
        for (release, top) in tops.into_iter().chain([(37, 37), (99, 37)]) {
            let server = Server::from(Release(release));
            assert_eq!(server.resolve(Version::Latest), top, "1.{release}");
            assert_eq!(server.resolve(Version::Minor(u64::MAX)), top, "1.{release}");
            assert_eq!(server.resolve(Version::Minor(3)), 3, "1.{release}");
        }
    }

    #[test]
    fn emulation_lowers_the_newest_policy_version_from_1_35() {
        let emulating = |release, older| Server {
            emulated: Some(Release(older)),
            ..Server::from(Release(release))
        };
        assert_eq!(emulating(36, 33).resolve(Version::Latest), 33);
        assert_eq!(emulating(36, 36).resolve(Version::Latest), 35);
        assert_eq!(emulating(36, 40).resolve(Version::Latest), 35);
        assert_eq!(emulating(34, 33).resolve(Version::Latest), 34);
    }
}
