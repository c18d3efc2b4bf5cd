//! Why a pod is injected the way it is, and why it is denied. Why it is left alone: `eligibility`.

use super::Refusal;
use crate::inject::Redirection;
use crate::pod::structure::Malformed;
use std::fmt;

/// Why a redirection was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectReason {
    /// It was asked for.
    AskedFor(Redirection),
    /// The CNI plugin is on every node that the pod can land on.
    CniCoversEveryNode,
    /// `linkerd-init` is admitted.
    InitContainerAdmitted,
    /// The CNI plugin is on some nodes, to which the pod is held.
    CniOnSomeNodes,
    /// The CNI plugin is meant for every node, and failing on some.
    CniFailingOnSomeNodes,
    /// The CNI plugin is there, though the application's init containers will have no network.
    CniDespiteInitContainers,
    /// The API server refuses the pod as it came, and will say so.
    RefusedAnyway,
    /// `linkerd-init` is refused, and nobody can tell where the CNI plugin is.
    CniCoverageUnknown,
}

coded! { InjectReason, self: Self => &'static str {
    Self::AskedFor(Redirection::None) => "redirection_off",
    Self::AskedFor(Redirection::InitContainer | Redirection::Cni) => "redirection_asked_for",
    Self::CniCoversEveryNode => "cni_covers_every_node",
    Self::InitContainerAdmitted => "init_container_admitted",
    Self::CniOnSomeNodes => "cni_on_some_nodes",
    Self::CniFailingOnSomeNodes => "cni_failing_on_some_nodes",
    Self::CniDespiteInitContainers => "cni_despite_init_containers",
    Self::RefusedAnyway => "refused_anyway",
    Self::CniCoverageUnknown => "cni_coverage_unknown",
} }

impl fmt::Display for InjectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AskedFor(Redirection::None) => "linkerd.io/setup-iptables asks for no redirection",
            Self::AskedFor(Redirection::InitContainer) => "linkerd.io/setup-iptables asks for the init container",
            Self::AskedFor(Redirection::Cni) => "linkerd.io/setup-iptables asks for the CNI plugin",
            Self::CniCoversEveryNode => "the CNI plugin is on every node that the pod can land on",
            Self::InitContainerAdmitted => "the policies in force admit linkerd-init",
            Self::CniOnSomeNodes => {
                "the policies in force refuse linkerd-init; the pod is held to nodes with the CNI plugin"
            }
            Self::CniFailingOnSomeNodes => {
                "the policies in force refuse linkerd-init; the CNI plugin is meant for every node, and failing on some"
            }
            Self::CniDespiteInitContainers => {
                "the policies in force refuse linkerd-init; the CNI plugin redirects traffic before the proxy runs"
            }
            Self::RefusedAnyway => "the policies in force refuse the pod as it came, whatever is injected",
            Self::CniCoverageUnknown => {
                "the policies in force refuse linkerd-init; where the CNI plugin is cannot be known"
            }
        })
    }
}

/// Why a pod is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenyReason {
    /// Every redirection would get the pod refused, or cannot be had.
    #[error("{0}")]
    NoRedirection(Refusal),
    /// `linkerd.io/setup-iptables` says something unknown.
    #[error("linkerd.io/setup-iptables: {0:?} is not one of true, false, init-container, cni")]
    UnknownRedirection(String),
    /// A value would make the pod unsafe or unable to run.
    #[error("{0}")]
    Value(String),
    /// The proxy's user is one of the application's.
    #[error(
        "container {container:?} runs as user {user}, which is the proxy's: its traffic would pass the proxy by; set config.linkerd.io/proxy-uid to another"
    )]
    UserClash {
        /// The application's container.
        container: String,
        /// The user.
        user: i64,
    },
    /// The installation's configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// The pod has a `linkerd-proxy` that cannot run.
    #[error("the pod's container linkerd-proxy {0}, and cannot run: remove it, or uninject the manifest")]
    BrokenProxy(String),
    /// A container or a volume has a name that injection needs.
    #[error("{0}")]
    NameTaken(String),
    /// A field has not the type that the API gives it, so that it can neither be read nor be added to.
    #[error("{0}")]
    Malformed(Malformed),
    /// The containers cannot be made from the configuration.
    #[error("{0}")]
    Shape(String),
}

coded! { DenyReason, self: &Self => &'static str {
    Self::NoRedirection(_) => "no_redirection_admitted",
    Self::UnknownRedirection(_) => "unknown_redirection",
    Self::Value(_) => "invalid_value",
    Self::UserClash { .. } => "proxy_user_clash",
    Self::Configuration(_) => "invalid_configuration",
    Self::BrokenProxy(_) => "broken_proxy",
    Self::NameTaken(_) => "name_taken",
    Self::Malformed(_) => "malformed_pod",
    Self::Shape(_) => "invalid_proxy_configuration",
} }
