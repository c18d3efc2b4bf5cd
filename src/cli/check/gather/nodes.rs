//! Nodes, and what puts the CNI plugin on them.

use super::Gatherer;
use super::withheld::{Need, Part};
use crate::cli::live::{self, resource, tidied};
use anyhow::Result;
use serde_json::Value;

/// What is known of them. Lists are missing where they may not be read.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) nodes: Option<Vec<Value>>,
    /// Of all namespaces, for the CNI plugin may be in any.
    pub(super) daemon_sets: Option<Vec<Value>>,
    pub(super) plugin_pods: Vec<Value>,
}

impl Gatherer<'_> {
    /// All of them; `only` is the namespace whose workloads are looked at, where it is one.
    pub(super) async fn nodes(&mut self, only: Option<&str>) -> Result<Fleet> {
        const NODES: Need = Need {
            parts: &[Part::Nodes],
            unknown: "which nodes the CNI plugin covers, and their kubelets",
        };
        const PLUGINS: Need = Need {
            parts: &[Part::Plugins],
            unknown: "where the CNI plugin is",
        };
        const BOTH: Need = Need {
            parts: &[Part::Plugins, Part::Workloads],
            unknown: "their pods, and where the CNI plugin is",
        };
        let keep = |object| Some(tidied(object));
        let nodes = self.list(&resource::NODES, None, NODES, keep).await?;
        let need = if only.is_some() { PLUGINS } else { BOTH };
        let daemon_sets = self.list(&resource::DAEMON_SETS, None, need, keep).await?;
        let plugin_pods = self.plugin_pods(daemon_sets.as_deref().unwrap_or_default()).await?;
        Ok(Fleet {
            nodes,
            daemon_sets,
            plugin_pods,
        })
    }

    /// The `DaemonSets` of one namespace, for a user who may not see those of all.
    pub(super) async fn own_daemon_sets(&mut self, namespace: &str) -> Result<Option<Vec<Value>>> {
        let need = Need {
            parts: &[Part::Workloads],
            unknown: "their pods",
        };
        let keep = |object| Some(tidied(object));
        self.list(&resource::DAEMON_SETS, Some(namespace), need, keep).await
    }

    /// The pods of the plugins among `daemon_sets`, which tell where it has been failing.
    async fn plugin_pods(&mut self, daemon_sets: &[Value]) -> Result<Vec<Value>> {
        let need = Need {
            parts: &[Part::PluginPods],
            unknown: "whether the CNI plugin is failing on its nodes",
        };
        let mut pods = Vec::new();
        for place in live::plugin_places(daemon_sets) {
            let found = live::plugin_pods(self.client, &place).await;
            let found = self.unless_refused(found, (&resource::PODS, Some(&place.namespace)), need)?;
            pods.extend(found.into_iter().flatten());
        }
        Ok(pods)
    }
}
