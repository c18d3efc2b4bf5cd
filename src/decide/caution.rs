//! What the author of a pod should know, though the pod is not refused for it.

use std::fmt;

/// A kind of warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Caution {
    /// A value cannot be read; the default stands in its place.
    IgnoredValue,
    /// A value is taken as it stands, although something later may refuse it.
    DoubtfulValue,
    /// The debug container is left out, because a policy refuses it.
    DebugContainerRefused,
    /// The server has not told its release; the newest is assumed.
    ReleaseAssumed,
    /// The pod can land on no node of today.
    NoNodeForPod,
    /// Nobody can tell where the CNI plugin is.
    CniCoverageUnknown,
    /// The CNI plugin is failing on nodes that the pod can land on.
    CniFailing,
    /// Init containers start before the proxy, and after the rules.
    InitContainersWithoutNetwork,
    /// The pod gets a node selector.
    HeldToCniNodes,
    /// Linkerd's CNI plugin sets rules although none were asked for.
    PluginIgnoresAnnotation,
    /// A setting does nothing for native sidecars.
    NoEffect,
    /// The proxy of a Job does not end by itself.
    JobWillNotFinish,
    /// The pod leaves the quality-of-service class `Guaranteed`.
    GuaranteeLost,
    /// The pod is admitted without a proxy, because no redirection is left.
    NotMeshed,
    /// A label of the namespace says nothing valid to Pod Security.
    InvalidNamespaceLabel,
    /// The pod's own proxy was mended.
    ProxyRepaired,
    /// Quotas demand figures of the injected containers that nobody named.
    FiguresFilledIn,
    /// The pod is refused for its own sake, and no redirection would be left once it is not.
    NoRedirectionEither,
    /// A way around the proxy stays open although the fence is asked for.
    FenceIncomplete,
    /// A dry run shows another policy than the configuration does.
    ProbeContradicts,
}

coded! { Caution, self: Self => &'static str {
    Self::IgnoredValue => "ignored_value",
    Self::DoubtfulValue => "doubtful_value",
    Self::DebugContainerRefused => "debug_container_refused",
    Self::ReleaseAssumed => "release_assumed",
    Self::NoNodeForPod => "no_node_for_pod",
    Self::CniCoverageUnknown => "cni_coverage_unknown",
    Self::CniFailing => "cni_failing",
    Self::InitContainersWithoutNetwork => "init_containers_without_network",
    Self::HeldToCniNodes => "held_to_cni_nodes",
    Self::PluginIgnoresAnnotation => "plugin_ignores_annotation",
    Self::NoEffect => "no_effect",
    Self::JobWillNotFinish => "job_will_not_finish",
    Self::GuaranteeLost => "guarantee_lost",
    Self::NotMeshed => "not_meshed",
    Self::InvalidNamespaceLabel => "invalid_namespace_label",
    Self::ProxyRepaired => "proxy_repaired",
    Self::FiguresFilledIn => "figures_filled_in",
    Self::NoRedirectionEither => "no_redirection_either",
    Self::FenceIncomplete => "fence_incomplete",
    Self::ProbeContradicts => "probe_contradicts",
} }

/// Something that the author of a pod should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Its kind.
    pub caution: Caution,
    /// What and where.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.caution.code(), self.text)
    }
}
