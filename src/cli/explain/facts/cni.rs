//! `--cni`: which nodes have the CNI plugin.

use crate::cli::names::is_subdomain;
use crate::decide::Coverage;
use crate::decide::coverage::{self, Plugin};
use crate::decide::placement::Node;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Which nodes have the CNI plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::explain) enum Cni {
    /// All of them.
    All,
    /// None of them.
    None,
    /// These.
    Nodes(Vec<String>),
}

/// Reads `all`, `none`, or names of nodes, separated by commas.
pub(in crate::cli::explain) fn cni(text: &str) -> Result<Cni> {
    match text.trim() {
        "all" => return Ok(Cni::All),
        "none" => return Ok(Cni::None),
        _ => {}
    }
    let names: Vec<_> = text.split(',').map(str::trim).collect();
    for name in &names {
        ensure!(
            is_subdomain(name) && !["all", "none"].contains(name),
            "{name:?} is no name of a node; expected all, none, or names separated by commas"
        );
    }
    Ok(Cni::Nodes(names.into_iter().map(str::to_owned).collect()))
}

impl Cni {
    /// What the flag says by itself. Names stand for plugins that are meant for these nodes, and take the place of those
    /// among `objects`; nodes that are not among them are added, and `assumptions` say so.
    pub(super) fn declare(&self, objects: &mut Vec<Value>, assumptions: &mut Vec<String>) -> Option<Coverage> {
        let names = match self {
            Self::All => return Some(Coverage::Declared),
            Self::None => return Some(Coverage::None),
            Self::Nodes(names) => names,
        };
        objects.retain(|object| Plugin::read(object).is_none());
        let is_node = |object: &&Value| object.get("kind").is_some_and(|kind| kind == "Node");
        let nodes: Vec<_> = objects.iter().filter(is_node).map(Node::read).collect();
        let (there, missing): (Vec<_>, Vec<_>) = names
            .iter()
            .partition(|name| nodes.iter().any(|node| node.name == **name));
        if nodes.is_empty() {
            assumptions.push("no nodes are known: those of --cni are taken for all that there are".to_owned());
        } else if !missing.is_empty() {
            assumptions.push(format!("--cni: no such node is known, it is added: {}", join(&missing)));
        }
        let missing = missing
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        objects.extend(missing);
        let common = common_labels(nodes.iter().filter(|node| there.contains(&&node.name)));
        objects.extend(names.iter().map(|name| plugin(name, &common)));
        None
    }
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The labels that all of `nodes` have: any of them may be what the plugin goes by.
fn common_labels<'n>(mut nodes: impl Iterator<Item = &'n Node>) -> BTreeMap<String, String> {
    let first = nodes.next().map(|node| node.labels.clone()).unwrap_or_default();
    nodes.fold(first, |mut common, node| {
        common.retain(|key, value| node.labels.get(key) == Some(value));
        common
    })
}

/// A plugin that is meant for one node. Its node selector decides nothing, for the node is named. It is in no namespace that
/// there can be, so that none objects to it.
fn plugin(node: &str, selector: &BTreeMap<String, String>) -> Value {
    let (key, value) = coverage::label(true);
    let folders = json!([{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"namespace": "--cni", "name": format!("on-{node}"), "labels": {key: value}},
        "spec": {"template": {"spec": {"nodeName": node, "nodeSelector": selector, "volumes": folders}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_told_apart() {
        assert_eq!(cni("all").unwrap(), Cni::All);
        assert_eq!(cni(" none ").unwrap(), Cni::None);
        let nodes = Cni::Nodes(vec!["a".to_owned(), "ip-10-0-0-1.ec2.internal".to_owned()]);
        assert_eq!(cni("a, ip-10-0-0-1.ec2.internal").unwrap(), nodes);
        for text in [
            "", " ", ",", "a,", "a,,b", "ALL", "a b", "all,a", "a,none", "-a", "a/b", "é",
        ] {
            let error = cni(text).unwrap_err().to_string();
            assert!(error.contains("expected all, none, or names"), "{text:?}: {error}");
        }
    }

    #[test]
    fn labels_that_covered_nodes_share_may_hold_a_pod() {
        let node = |name: &str, pool: &str| {
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}}})
        };
        let mut objects = vec![node("a", "cni"), node("b", "cni"), node("c", "other")];
        let mut assumptions = Vec::new();
        let declared = cni("a,b").unwrap().declare(&mut objects, &mut assumptions);
        assert_eq!((declared, assumptions.as_slice()), (None, [].as_slice()));
        let selector = &objects[3]["spec"]["template"]["spec"]["nodeSelector"];
        assert_eq!(*selector, json!({"pool": "cni"}));
        cni("d").unwrap().declare(&mut objects, &mut assumptions);
        assert_eq!(assumptions, ["--cni: no such node is known, it is added: d"]);
        let plugins = objects.iter().filter_map(Plugin::read).map(|plugin| plugin.name);
        assert_eq!(plugins.collect::<Vec<_>>(), ["--cni/on-d"]);
    }
}
