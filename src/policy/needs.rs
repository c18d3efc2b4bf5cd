//! What pods ask of a policy that is to be made for them, and which of them asks for it.
//!
//! [`Needs`] gathers from the pods as they will be admitted; the rooms of the policies make objects of it
//! ([`pod_security_policy::tailored`](super::pod_security_policy::tailored), [`scc::tailored`](super::scc::tailored)). What
//! every pod may have is no need, and what the API server refuses whatever a policy says is none either.

mod asker;
mod draft;
mod reading;
mod right;

pub use asker::Askers;
pub use draft::{Note, Tailored};
pub use right::right;

pub(in crate::policy) use draft::Draft;

use crate::pod::Pod;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Something that a pod has and a policy may forbid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need<'p> {
    /// `hostNetwork`
    HostNetwork,
    /// `hostPID`
    HostPid,
    /// `hostIPC`
    HostIpc,
    /// `hostPort`, 1 to 65535.
    HostPort(i64),
    /// A privileged container.
    Privileged,
    /// A container that may gain privileges: it says so, or could not run without.
    Escalation,
    /// A container whose root file system must be writable.
    WritableRoot,
    /// One that leaves it open.
    OpenRoot,
    /// A container that runs as root, or says that it may.
    Root,
    /// One whose image decides.
    OpenUser,
    /// A capability that is added, as it is written.
    Capability(&'p str),
    /// A kind of volume, by the field of its source.
    Volume(&'p str),
    /// A path on the node.
    HostPath {
        /// The path.
        path: &'p str,
        /// Whether every container mounts it read-only.
        read_only: bool,
    },
    /// The driver of a flex volume.
    FlexDriver(&'p str),
    /// The driver of an inline CSI volume.
    CsiDriver(&'p str),
    /// `fsGroup`
    FsGroup(i64),
    /// One of `supplementalGroups`.
    SupplementalGroup(i64),
    /// `supplementalGroups` with nothing in it.
    NoSupplementalGroup,
    /// `seLinuxOptions`
    SeLinux,
    /// A seccomp profile, by the name that annotations give it.
    Seccomp(Cow<'p, str>),
    /// A kernel parameter.
    Sysctl(&'p str),
    /// `procMount: Unmasked`
    UnmaskedProc,
}

/// What some pods need, and which of them needs it.
#[derive(Clone, Debug, Default)]
pub struct Needs<'p> {
    askers: BTreeMap<Need<'p>, Askers<'p>>,
}

impl<'p> Needs<'p> {
    /// Adds what `pod` needs, a pod of `workload` after the API's defaulting.
    pub fn add(&mut self, workload: &'p str, pod: &Pod<'p>) {
        reading::read(pod, &mut |need, container| {
            self.askers.entry(need).or_default().add(workload, container);
        });
    }

    /// Who needs `need`.
    pub fn askers(&self, need: &Need<'p>) -> Option<&Askers<'p>> {
        self.askers.get(need)
    }

    /// Every need, in order, with those who have it.
    pub fn iter(&self) -> impl Iterator<Item = (&Need<'p>, &Askers<'p>)> {
        self.askers.iter()
    }
}

impl fmt::Display for Need<'_> {
    /// What is needed, in a few words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str("the host's network"),
            Self::HostPid => f.write_str("the host's processes"),
            Self::HostIpc => f.write_str("the host's IPC"),
            Self::HostPort(port) => write!(f, "host port {port}"),
            Self::Privileged => f.write_str("privileged"),
            Self::Escalation => f.write_str("gaining privileges"),
            Self::WritableRoot => f.write_str("a writable root file system"),
            Self::OpenRoot => f.write_str("a root file system of which nothing is said"),
            Self::Root => f.write_str("running as root"),
            Self::OpenUser => f.write_str("the user of the image"),
            Self::Capability(text)
            | Self::Volume(text)
            | Self::Sysctl(text)
            | Self::HostPath {
                path: text,
                read_only: false,
            } => f.write_str(text),
            Self::HostPath { path, .. } => write!(f, "{path}, read-only"),
            Self::FlexDriver(driver) | Self::CsiDriver(driver) => write!(f, "driver {driver}"),
            Self::FsGroup(group) | Self::SupplementalGroup(group) => write!(f, "group {group}"),
            Self::NoSupplementalGroup => f.write_str("no group at all"),
            Self::SeLinux => f.write_str("own SELinux options"),
            Self::Seccomp(profile) => f.write_str(profile),
            Self::UnmaskedProc => f.write_str("Unmasked"),
        }
    }
}

#[cfg(test)]
mod tests;
