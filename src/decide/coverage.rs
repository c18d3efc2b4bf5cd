//! Where the CNI plugin is, among the nodes that a pod can land on.
//!
//! A node counts as covered when a DaemonSet of the plugin is *meant* for it: a roll-out or a new node must not flip
//! decisions, and the start-up taint keeps pods away until the plugin is really there.

use super::placement::{Node, Placement};
use crate::pod::Pod;
use serde_json::Value;
use std::fmt;

/// The answer for one placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The configuration says that every node has the plugin (`cniEnabled`).
    Declared,
    /// Every node that the pod can land on has it.
    All {
        /// How many nodes that are.
        nodes: usize,
    },
    /// The pod can land on no node of today: a new one will be covered as the others are.
    NoNodes,
    /// Some nodes have it.
    Some {
        /// How many have it.
        covered: usize,
        /// How many the pod can land on.
        nodes: usize,
        /// One that has it not.
        uncovered: String,
        /// A label of covered nodes only, to hold the pod to them.
        selector: Option<(String, String)>,
    },
    /// No node that the pod can land on has it.
    None,
    /// Nodes or plugins cannot be read.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared => f.write_str("the configuration says that every node has the CNI plugin"),
            Self::All { nodes } => write!(
                f,
                "the CNI plugin is meant for all {nodes} nodes that the pod can land on"
            ),
            Self::NoNodes => {
                f.write_str("the pod can land on no node of today; the CNI plugin is taken to be on a new one")
            }
            Self::Some {
                covered,
                nodes,
                uncovered,
                ..
            } => write!(
                f,
                "the CNI plugin is meant for {covered} of {nodes} nodes that the pod can land on, not for {uncovered}"
            ),
            Self::Unknown { why } => write!(f, "where the CNI plugin is cannot be known: {why}"),
            Self::None => f.write_str("no CNI plugin is meant for any node that the pod can land on"),
        }
    }
}

/// A DaemonSet that puts the CNI plugin on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// `namespace/name`
    pub name: String,
    /// Whether it is ours; Linkerd's ignores `linkerd.io/setup-iptables: "false"`.
    pub ours: bool,
    placement: Placement,
}

impl Plugin {
    /// Reads an `apps/v1` `DaemonSet`; nothing where it is not one of the CNI plugin.
    pub fn read(object: &Value) -> Option<Self> {
        let template = object.pointer("/spec/template")?;
        let metadata = object.get("metadata")?;
        let label = |key: &str| {
            let of = |object: &Value| {
                object
                    .pointer("/metadata/labels")?
                    .get(key)?
                    .as_str()
                    .map(str::to_owned)
            };
            of(object).or_else(|| of(template))
        };
        let ours = label("app.kubernetes.io/name").is_some_and(|name| name == "outrigger-cni");
        let linkerds = label("k8s-app").is_some_and(|name| name == "linkerd-cni");
        let field = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}/{}", field("namespace"), field("name"));
        (ours || linkerds).then(|| Self {
            name,
            ours,
            placement: Placement::of(&Pod::new(template)),
        })
    }

    fn covers(&self, node: &Node) -> bool {
        self.placement.admits(node)
    }
}

/// Judges one placement against every Linux node.
pub fn judge<'n>(placement: &Placement, nodes: impl Iterator<Item = &'n Node>, plugins: &[Plugin]) -> Coverage {
    let reachable: Vec<_> = nodes
        .filter(|node| !node.is_windows() && placement.admits(node))
        .collect();
    if plugins.is_empty() {
        return Coverage::None;
    }
    let covered = |node: &Node| plugins.iter().any(|plugin| plugin.covers(node));
    let (with, without): (Vec<&Node>, Vec<&Node>) = reachable.into_iter().partition(|node| covered(node));
    match (with.as_slice(), without.as_slice()) {
        ([], []) => Coverage::NoNodes,
        ([], _) => Coverage::None,
        (with, []) => Coverage::All { nodes: with.len() },
        (with, [uncovered, ..]) => Coverage::Some {
            covered: with.len(),
            nodes: with.len() + without.len(),
            uncovered: uncovered.name.clone(),
            selector: selector(placement, with, &without, plugins),
        },
    }
}

/// A label that a plugin's own selector asks for, and that no uncovered node has.
fn selector(placement: &Placement, with: &[&Node], without: &[&Node], plugins: &[Plugin]) -> Option<(String, String)> {
    let has = |node: &Node, key: &String, value: &String| node.labels.get(key) == Some(value);
    let labels = plugins.iter().flat_map(|plugin| plugin.placement.node_selector());
    let (key, value) = labels.filter(|(key, _)| !placement.selects(key)).find(|(key, value)| {
        with.iter().any(|node| has(node, key, value)) && !without.iter().any(|node| has(node, key, value))
    })?;
    Some((key.clone(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, labels: &Value) -> Node {
        Node::read(&json!({"metadata": {"name": name, "labels": labels}}))
    }

    fn plugin(spec: &Value) -> Plugin {
        let daemon_set = json!({
            "metadata": {"namespace": "linkerd-cni", "name": "linkerd-cni", "labels": {"k8s-app": "linkerd-cni"}},
            "spec": {"template": {"spec": spec}},
        });
        Plugin::read(&daemon_set).unwrap()
    }

    fn coverage(pod: &Value, nodes: &[Node], plugins: &[Plugin]) -> Coverage {
        judge(&Placement::of(&Pod::new(&json!({"spec": pod}))), nodes.iter(), plugins)
    }

    #[test]
    fn only_nodes_that_the_pod_can_land_on_count() {
        let nodes = [
            node("a", &json!({"cni": "yes"})),
            node("b", &json!({})),
            node("w", &json!({"kubernetes.io/os": "windows"})),
        ];
        let plugins = [plugin(&json!({"nodeSelector": {"cni": "yes"}}))];
        let some = Coverage::Some {
            covered: 1,
            nodes: 2,
            uncovered: "b".to_owned(),
            selector: Some(("cni".to_owned(), "yes".to_owned())),
        };
        assert_eq!(coverage(&json!({}), &nodes, &plugins), some);
        assert_eq!(
            coverage(&json!({"nodeSelector": {"cni": "yes"}}), &nodes, &plugins),
            Coverage::All { nodes: 1 }
        );
        assert_eq!(coverage(&json!({"nodeName": "b"}), &nodes, &plugins), Coverage::None);
        assert_eq!(
            coverage(&json!({"nodeSelector": {"gpu": "1"}}), &nodes, &plugins),
            Coverage::NoNodes
        );
        assert_eq!(coverage(&json!({}), &nodes, &[]), Coverage::None);
    }

    #[test]
    fn without_a_label_of_covered_nodes_there_is_no_selector() {
        let taint = json!({"metadata": {"name": "b"}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
        let nodes = [node("a", &json!({})), Node::read(&taint)];
        let pod = json!({"tolerations": [{"operator": "Exists"}]});
        let Coverage::Some { selector, .. } = coverage(&pod, &nodes, &[plugin(&json!({}))]) else {
            panic!()
        };
        assert_eq!(selector, None);
    }

    #[test]
    fn other_daemon_sets_are_no_plugins() {
        let other = json!({"metadata": {"name": "x"}, "spec": {"template": {"spec": {}}}});
        assert_eq!(Plugin::read(&other), None);
    }
}
