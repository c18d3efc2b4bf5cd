//! Whether the proxy may be a native sidecar: the API server must keep its `restartPolicy`, and the kubelet of every node
//! that the pod can land on must know what it means. An older kubelet takes the proxy for an init container that has to
//! end, and the pod never starts.

use super::Facts;
use super::placement::{Node, Placement};
use crate::config::{Config, Consequence, Problem};
use crate::policy::Release;
use std::fmt;

/// How many nodes are named.
const NAMED: usize = 3;

/// Nodes that a pod can land on and whose kubelet has no native sidecars: one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldKubelets {
    named: Vec<(String, Release)>,
    count: usize,
    nodes: usize,
}

impl OldKubelets {
    /// Those of `nodes` that `placement` admits; nothing where there are none. A kubelet that has not told its release is
    /// taken to be as new as the API server.
    pub fn judge<'n>(placement: &Placement, nodes: impl Iterator<Item = &'n Node>) -> Option<Self> {
        let mut found = Self {
            named: Vec::new(),
            count: 0,
            nodes: 0,
        };
        for node in nodes.filter(|node| !node.is_windows() && placement.admits(node)) {
            found.nodes += 1;
            let Some(release) = node.kubelet.filter(|release| *release < Release::NATIVE_SIDECARS) else {
                continue;
            };
            found.count += 1;
            if found.named.len() < NAMED {
                found.named.push((node.name.clone(), release));
            }
        }
        (found.count > 0).then_some(found)
    }
}

impl fmt::Display for OldKubelets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named, count, nodes } = self;
        write!(
            f,
            "{count} of {nodes} nodes that the pod can land on have no native sidecars: "
        )?;
        for (number, (name, release)) in named.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{name} (kubelet {release})")?;
        }
        match count.saturating_sub(named.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why the proxy cannot be a native sidecar.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lack<'a> {
    /// The API server would drop the proxy's `restartPolicy`.
    Server(Release),
    /// Kubelets would wait for the proxy to end.
    Kubelets(&'a OldKubelets),
}

impl<'a> Lack<'a> {
    /// What stands in the way; nothing where nothing does.
    pub(super) fn of(facts: &Facts<'a>) -> Option<Self> {
        let release = facts.server.release;
        match release < Release::NATIVE_SIDECARS {
            true => Some(Self::Server(release)),
            false => facts.old_kubelets.map(Self::Kubelets),
        }
    }

    /// The annotation of `config` that asks for a native sidecar all the same, and is ignored.
    pub(super) fn ignored(&self, config: &Config) -> Option<Problem> {
        let asked = config
            .set_by("proxy.nativeSidecar")
            .filter(|_| config.lost_native_sidecar)?;
        Some(Problem {
            key: asked.key.clone(),
            fault: format!("{}: {self}", asked.value.as_deref().unwrap_or_default()),
            origin: asked.origin,
            consequence: Consequence::Ignored,
        })
    }
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(release) => write!(f, "Kubernetes {release} has no native sidecars"),
            Self::Kubelets(old) => old.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Pod;
    use serde_json::{Value, json};

    fn node(name: &str, version: &str, labels: &Value) -> Node {
        Node::read(&json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"nodeInfo": {"kubeletVersion": version}},
        }))
    }

    fn old(spec: &Value, nodes: &[Node]) -> Option<String> {
        let placement = Placement::of(&Pod::new(&json!({"spec": spec})));
        OldKubelets::judge(&placement, nodes.iter()).map(|old| old.to_string())
    }

    #[test]
    fn only_nodes_that_the_pod_can_land_on_count() {
        let nodes = [
            node("new", "v1.29.0", &json!({"pool": "new"})),
            node("old", "v1.28.15-gke.1", &json!({"pool": "old"})),
            node("silent", "", &json!({"pool": "new"})),
            node(
                "windows",
                "v1.27.1",
                &json!({"pool": "new", "kubernetes.io/os": "windows"}),
            ),
        ];
        let said = "1 of 3 nodes that the pod can land on have no native sidecars: old (kubelet 1.28)";
        assert_eq!(old(&json!({}), &nodes).as_deref(), Some(said));
        assert_eq!(old(&json!({"nodeSelector": {"pool": "new"}}), &nodes), None);
        assert_eq!(old(&json!({"nodeSelector": {"pool": "none"}}), &nodes), None);
        assert!(old(&json!({"nodeName": "old"}), &nodes).is_some());
    }

    #[test]
    fn the_first_are_named_and_all_are_counted() {
        let nodes: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|name| node(name, "v1.26.9", &json!({})))
            .into();
        let said = "5 of 5 nodes that the pod can land on have no native sidecars: a (kubelet 1.26), b (kubelet 1.26), c \
                    (kubelet 1.26) and 2 more";
        assert_eq!(old(&json!({}), &nodes).as_deref(), Some(said));
    }
}
