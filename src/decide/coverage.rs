//! Where the CNI plugin is, among the nodes that a pod can land on.
//!
//! A node counts as covered when a DaemonSet of the plugin is *meant* for it: a roll-out or a new node must not flip
//! decisions, and the start-up taint keeps pods away until the plugin is really there.

use super::placement::{Node, Placement};
use std::fmt;
use std::time::Duration;

mod plugin;

pub use plugin::{Plugin, label};

/// How long the plugin has to fail on a node until the node counts as having none: longer than a roll-out of the plugin takes
/// there, or a restart of the node.
pub const FAILING_AFTER: Duration = Duration::from_secs(5 * 60);

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
    /// It is meant for nodes that the pod can land on, and has been failing there.
    Failing {
        /// On how many.
        failing: usize,
        /// For how many it is meant: no others are left where it is failing on some of them only.
        nodes: usize,
        /// One where it is failing.
        node: String,
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
            Self::Failing { failing, nodes, node } => write!(
                f,
                "the CNI plugin has been failing for {} minutes on {failing} of {nodes} nodes that it is meant for and the pod can \
                 land on, {node} among them",
                FAILING_AFTER.as_secs() / 60
            ),
            Self::Unknown { why } => write!(f, "where the CNI plugin is cannot be known: {why}"),
            Self::None => f.write_str("no CNI plugin is meant for any node that the pod can land on"),
        }
    }
}

/// Judges one placement against every Linux node; `failing` says of a node, by name, whether the plugin has been failing
/// there for long.
pub fn judge<'n>(
    placement: &Placement,
    nodes: impl Iterator<Item = &'n Node>,
    plugins: &[Plugin],
    failing: impl Fn(&str) -> bool,
) -> Coverage {
    let reachable: Vec<_> = nodes
        .filter(|node| !node.is_windows() && placement.admits(node))
        .collect();
    if plugins.is_empty() {
        return Coverage::None;
    }
    let covered = |node: &Node| plugins.iter().any(|plugin| plugin.covers(node));
    let (with, without): (Vec<&Node>, Vec<&Node>) = reachable.into_iter().partition(|node| covered(node));
    // A new node on which the plugin is not ready yet keeps its start-up taint, and the pod away.
    let mut broken = with
        .iter()
        .filter(|node| failing(&node.name) && !placement.is_kept_off(node));
    if let Some(first) = broken.next() {
        let failing = 1 + broken.count();
        // Where the pod is held to nodes for which the plugin is meant, some may fail there as elsewhere.
        if without.is_empty() || failing == with.len() {
            return Coverage::Failing {
                failing,
                nodes: with.len(),
                node: first.name.clone(),
            };
        }
    }
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
    let labels = plugins.iter().flat_map(Plugin::node_selector);
    let (key, value) = labels.filter(|(key, _)| !placement.selects(key)).find(|(key, value)| {
        with.iter().any(|node| has(node, key, value)) && !without.iter().any(|node| has(node, key, value))
    })?;
    Some((key.clone(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Pod;
    use serde_json::{Value, json};

    fn node(name: &str, labels: &Value) -> Node {
        Node::read(&json!({"metadata": {"name": name, "labels": labels}}))
    }

    fn plugin(spec: &Value) -> Plugin {
        let mut daemon_set = json!({
            "metadata": {"namespace": "linkerd-cni", "name": "linkerd-cni", "labels": {"k8s-app": "linkerd-cni"}},
            "spec": {"template": {"spec": {"volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}},
        });
        let fields = spec.as_object().unwrap().clone();
        daemon_set["spec"]["template"]["spec"]
            .as_object_mut()
            .unwrap()
            .extend(fields);
        Plugin::read(&daemon_set).unwrap()
    }

    fn coverage(pod: &Value, nodes: &[Node], plugins: &[Plugin]) -> Coverage {
        failing(pod, nodes, plugins, &[])
    }

    /// The same where the plugin has been failing on the nodes that are named.
    fn failing(pod: &Value, nodes: &[Node], plugins: &[Plugin], names: &[&str]) -> Coverage {
        let placement = Placement::of(&Pod::new(&json!({"spec": pod})));
        judge(&placement, nodes.iter(), plugins, |name| names.contains(&name))
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
    fn where_the_plugin_is_failing_it_is_not() {
        let cni = |name| node(name, &json!({"cni": "yes"}));
        let (all, plugins) = ([cni("a"), cni("b")], [plugin(&json!({"nodeSelector": {"cni": "yes"}}))]);
        let on = |failing, nodes| Coverage::Failing {
            failing,
            nodes,
            node: "a".to_owned(),
        };
        assert_eq!(failing(&json!({}), &all, &plugins, &["a"]), on(1, 2));
        assert_eq!(failing(&json!({}), &all, &plugins, &["a", "b"]), on(2, 2));
        assert_eq!(
            failing(&json!({"nodeName": "b"}), &all, &plugins, &["a"]),
            Coverage::All { nodes: 1 }
        );
        // A node that is new keeps the pods away until the plugin is there; whoever tolerates that is not kept away.
        let taint = json!([{"key": "outrigger.linkerd.io/cni-not-ready", "effect": "NoSchedule"}]);
        let mut new = cni("c");
        new.taints = Node::read(&json!({"spec": {"taints": taint}})).taints;
        let with_new = [cni("b"), new];
        assert_eq!(
            failing(&json!({}), &with_new, &plugins, &["c"]),
            Coverage::All { nodes: 2 }
        );
        let everywhere = json!({"tolerations": [{"operator": "Exists"}]});
        assert!(matches!(
            failing(&everywhere, &with_new, &plugins, &["c"]),
            Coverage::Failing { failing: 1, .. }
        ));
        // Beside a node for which it is not meant, it is on some nodes for as long as it works on one.
        let some = [cni("a"), cni("b"), node("c", &json!({}))];
        let Coverage::Some { selector, .. } = failing(&json!({}), &some, &plugins, &["a"]) else {
            panic!()
        };
        assert_eq!(selector, Some(("cni".to_owned(), "yes".to_owned())));
        assert_eq!(failing(&json!({}), &some, &plugins, &["a", "b"]), on(2, 2));
        assert_eq!(
            on(1, 2).to_string(),
            "the CNI plugin has been failing for 5 minutes on 1 of 2 nodes that it is meant for and the pod can land on, a \
             among them"
        );
    }
}
