//! What may not be read, and what cannot be told without it.

use crate::cli::live::policies::Policies;
use crate::policy::installed::Source;

/// A list or an object that may not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Withheld {
    /// The resource, and the namespace where it was asked for.
    pub(in crate::cli::check) what: String,
    /// The server's words.
    pub(in crate::cli::check) why: String,
    /// What cannot be told without it.
    pub(in crate::cli::check) need: Need,
}

/// What something is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Need {
    pub(in crate::cli::check) parts: &'static [Part],
    /// In words.
    pub(in crate::cli::check) unknown: &'static str,
}

/// A part of the cluster that findings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Part {
    /// Which namespaces there are, and what they say.
    Namespaces,
    /// Nodes.
    Nodes,
    /// The `DaemonSets` of the CNI plugin.
    Plugins,
    /// Their pods.
    PluginPods,
    /// What makes pods.
    Workloads,
    /// Running pods.
    Pods,
    /// Admission policies beside Pod Security.
    Policies,
    /// `MutatingWebhookConfigurations`.
    Webhooks,
    /// The injector's Deployment.
    Injector,
    /// Linkerd's configuration.
    Configuration,
    /// The rest of the control plane's namespace.
    ControlPlane,
    /// `NetworkPolicies`.
    Network,
}

impl Withheld {
    /// A line for it.
    pub(in crate::cli::check) fn message(&self) -> String {
        format!("{} cannot be read, so unknown: {}", self.what, self.need.unknown)
    }
}

/// What of `withheld` is of one of `parts`, each once.
pub(in crate::cli::check) fn unseen<'w>(withheld: &'w [Withheld], parts: &[Part]) -> Vec<&'w str> {
    let mut unseen: Vec<_> = withheld
        .iter()
        .filter(|withheld| withheld.need.parts.iter().any(|part| parts.contains(part)))
        .map(|withheld| withheld.what.as_str())
        .collect();
    unseen.dedup();
    unseen
}

/// The policies that may not be read.
pub(super) fn policies(policies: &Policies) -> impl Iterator<Item = Withheld> {
    policies
        .withheld
        .iter()
        .map(|(source, why): &(Source, String)| Withheld {
            what: source.resource().to_owned(),
            why: why.clone(),
            need: Need {
                parts: &[Part::Policies],
                unknown: "what these policies say to pods",
            },
        })
}
