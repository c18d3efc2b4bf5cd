//! Why no way is left to redirect a pod's traffic, and what somebody could do about it.

use crate::inject::Redirection;
use std::fmt;

/// Every redirection would get the pod refused, or cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Each redirection with what stands against it.
    pub attempts: Vec<String>,
    /// The setting that the policies go by; nothing where none of them refuses anything.
    pub obstacle: Option<String>,
    /// What somebody could do, each enough by itself.
    pub ways_out: Vec<&'static str>,
}

impl Refusal {
    /// The gist of every refusal.
    pub const GIST: &'static str = "no way to redirect the pod's traffic is left";

    /// A refusal of `attempts`, where `asked` is what `linkerd.io/setup-iptables` asks for.
    pub(super) fn new(attempts: Vec<String>, obstacle: Option<String>, asked: Option<Redirection>) -> Self {
        let ways_out = [
            (
                asked != Some(Redirection::InitContainer),
                "put the CNI plugin on the nodes (outrigger-cni or linkerd-cni)",
            ),
            (
                asked.is_some(),
                "leave the choice open: take linkerd.io/setup-iptables away",
            ),
            (
                asked != Some(Redirection::Cni) && obstacle.is_some(),
                "set pod-security.kubernetes.io/enforce=privileged, which opens the namespace for all its pods",
            ),
            (true, "leave the pod out of the mesh with linkerd.io/inject: disabled"),
        ];
        let ways_out = ways_out.into_iter().filter_map(|(helps, way)| helps.then_some(way));
        Self {
            attempts,
            obstacle,
            ways_out: ways_out.collect(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; ", Self::GIST, self.attempts.join("; "))?;
        if let Some(obstacle) = &self.obstacle {
            write!(f, "{obstacle}; ")?;
        }
        write!(f, "either {}", self.ways_out.join(", or "))
    }
}
