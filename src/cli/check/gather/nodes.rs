//! Nodes, and what puts the CNI plugin on them.

use super::Gatherer;
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
    pub(super) async fn nodes(&mut self) -> Result<Fleet> {
        const UNKNOWN: &str = "which nodes the CNI plugin covers, and their kubelets";
        let nodes = self
            .list(&resource::NODES, None, UNKNOWN, |node| Some(tidied(node)))
            .await?;
        let daemon_sets = self.of(&resource::DAEMON_SETS, None).await?;
        let plugin_pods = self.plugin_pods(daemon_sets.as_deref().unwrap_or_default()).await?;
        Ok(Fleet {
            nodes,
            daemon_sets,
            plugin_pods,
        })
    }

    /// The pods of the plugins among `daemon_sets`, which tell where it has been failing.
    async fn plugin_pods(&mut self, daemon_sets: &[Value]) -> Result<Vec<Value>> {
        let mut pods = Vec::new();
        for place in live::plugin_places(daemon_sets) {
            let found = live::plugin_pods(self.client, &place).await;
            let unknown = "whether the CNI plugin is failing on its nodes";
            pods.extend(
                self.unless_refused(found, &resource::PODS, unknown)?
                    .into_iter()
                    .flatten(),
            );
        }
        Ok(pods)
    }
}
