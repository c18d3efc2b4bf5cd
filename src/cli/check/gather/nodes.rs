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
        let nodes = self
            .list(&resource::NODES, None, NODES, |node| Some(in_short(node)))
            .await?;
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

/// A node with what is looked at alone. There may be thousands, and the images that each lists are most of it.
fn in_short(mut node: Value) -> Value {
    for (part, kept) in [
        ("metadata", &["name", "labels"][..]),
        ("spec", &["taints"]),
        ("status", &["nodeInfo"]),
    ] {
        if let Some(fields) = node.get_mut(part).and_then(Value::as_object_mut) {
            fields.retain(|key, _| kept.contains(&key.as_str()));
        }
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_node_that_is_kept_which_is_looked_at() {
        let node = |more: bool| {
            let mut node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"pool": "mesh"}},
                "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
                "status": {"nodeInfo": {"kubeletVersion": "v1.36.1"}},
            });
            if more {
                node["metadata"]["annotations"] = json!({"a": "b"});
                node["spec"]["podCIDR"] = "10.0.0.0/24".into();
                node["status"]["images"] = json!([{"names": ["web"]}]);
            }
            node
        };
        assert_eq!(in_short(node(true)), node(false));
        assert_eq!(
            in_short(json!({"metadata": {"name": "n1"}})),
            json!({"metadata": {"name": "n1"}})
        );
    }
}
