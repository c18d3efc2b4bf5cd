//! Why no way is left to redirect a pod's traffic, and what somebody could do about it.

use super::policies::kind;
use crate::inject::Redirection;
use std::fmt;

/// Every redirection would get the pod refused, or cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Each redirection with what stands against it.
    pub attempts: Vec<String>,
    /// The settings that policies go by; none where no policy refuses anything.
    pub obstacles: Vec<Obstacle>,
    /// What somebody could do, each enough by itself.
    pub ways_out: Vec<&'static str>,
}

/// A setting that a policy goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The policy's kind.
    pub by: &'static str,
    /// The setting, as a sentence.
    pub setting: String,
}

impl Refusal {
    /// The gist of every refusal.
    pub const GIST: &'static str = "no way to redirect the pod's traffic is left";

    /// A refusal of `attempts`, where `asked` is what `linkerd.io/setup-iptables` asks for.
    pub(super) fn new(attempts: Vec<String>, obstacles: Vec<Obstacle>, asked: Option<Redirection>) -> Self {
        let refuses = |by| obstacles.iter().any(|obstacle| obstacle.by == by);
        let by_pod_security = refuses(kind::POD_SECURITY);
        let by_limits = obstacles
            .iter()
            .any(|obstacle| [kind::LIMIT_RANGE, kind::RESOURCE_QUOTA, kind::VALIDATION].contains(&obstacle.by));
        let ways_out = [
            (
                asked != Some(Redirection::InitContainer) && !by_limits,
                "put the CNI plugin on the nodes (outrigger-cni or linkerd-cni)",
            ),
            (
                asked.is_some(),
                "leave the choice open: take linkerd.io/setup-iptables away",
            ),
            (
                asked != Some(Redirection::Cni) && by_pod_security,
                "set pod-security.kubernetes.io/enforce=privileged, which opens the namespace for all its pods",
            ),
            (
                refuses(kind::POD_SECURITY_POLICY),
                "let its service account use a PodSecurityPolicy that takes it",
            ),
            (
                refuses(kind::CONSTRAINTS),
                "let its service account use SecurityContextConstraints that take it",
            ),
            (
                by_limits,
                "set figures that fit with the config.linkerd.io/proxy- annotations of the named resource",
            ),
            (
                refuses(kind::PROBE) && !by_pod_security,
                "have the policy that refused the dry run take it",
            ),
            (true, "leave the pod out of the mesh with linkerd.io/inject: disabled"),
        ];
        let ways_out = ways_out.into_iter().filter_map(|(helps, way)| helps.then_some(way));
        Self {
            attempts,
            obstacles,
            ways_out: ways_out.collect(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; ", Self::GIST, self.attempts.join("; "))?;
        for obstacle in &self.obstacles {
            write!(f, "{}; ", obstacle.setting)?;
        }
        write!(f, "either {}", self.ways_out.join(", or "))
    }
}
