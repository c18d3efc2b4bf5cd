//! Which nodes a pod can land on: node name, node selector, required node affinity, tolerations.
//!
//! Source: the scheduler's `NodeAffinity` and `TaintToleration` filters.

use crate::pod::{Pod, list, text};
use crate::policy::Release;
use serde_json::Value;
use std::collections::BTreeMap;

/// Prefix of the taints that the node controller sets and takes away by a node's condition, and that every DaemonSet
/// tolerates; a decision must not flip with them.
const CONDITION_TAINTS: &str = "node.kubernetes.io/";

/// The taints of a node that is not ready, or of which nothing is heard.
const LOST: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Key of the taint that keeps pods off a new node until the CNI plugin is there.
pub const STARTUP_TAINT: &str = "outrigger.linkerd.io/cni-not-ready";

/// What decides where a pod can land; equal for all pods of a workload, and mostly for all of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    node_name: Option<String>,
    node_selector: BTreeMap<String, String>,
    terms: Option<Vec<Value>>,
    tolerations: Vec<Value>,
}

/// What a placement depends on, of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The release of its kubelet; nothing where it has not told.
    pub kubelet: Option<Release>,
}

/// A taint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty where it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Node {
    /// Reads a `v1` `Node`.
    pub fn read(object: &Value) -> Self {
        let word = |taint: &Value, key: &str| text(taint, key).unwrap_or_default().to_owned();
        let taint = |taint: &Value| Taint {
            key: word(taint, "key"),
            value: word(taint, "value"),
            effect: word(taint, "effect"),
        };
        Self {
            name: object
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            labels: string_map(object.pointer("/metadata/labels")),
            taints: object
                .get("spec")
                .into_iter()
                .flat_map(|spec| list(spec, "taints"))
                .map(taint)
                .collect(),
            kubelet: object
                .pointer("/status/nodeInfo/kubeletVersion")
                .and_then(Value::as_str)
                .and_then(|version| version.parse().ok()),
        }
    }

    /// Whether nothing is heard of the node itself.
    pub fn is_lost(&self) -> bool {
        self.taints.iter().any(|taint| LOST.contains(&taint.key.as_str()))
    }

    /// Whether the node runs Windows.
    pub fn is_windows(&self) -> bool {
        self.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows")
    }
}

/// Everything that a pod's placement is read from: node name, node selector, required node affinity, tolerations.
pub fn source<'a>(pod: &Pod<'a>) -> [Option<&'a Value>; 4] {
    let spec = pod.spec();
    [
        spec.get("nodeName"),
        spec.get("nodeSelector"),
        pod.required_node_affinity(),
        spec.get("tolerations"),
    ]
}

/// Whether a pod's [`source`] has more than `most` values.
pub fn is_longer_than(pod: &Pod<'_>, most: usize) -> bool {
    let mut left = most;
    !source(pod).into_iter().flatten().all(|value| take(value, &mut left))
}

/// Takes the values in `value` from what is `left`; false where there are more.
fn take(value: &Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else {
        return false;
    };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| take(item, left)),
        Value::Object(fields) => fields.values().all(|field| take(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

impl Placement {
    /// Reads a pod's placement; equal [`source`]s make equal placements.
    pub fn of(pod: &Pod<'_>) -> Self {
        let [node_name, node_selector, required, tolerations] = source(pod);
        Self {
            node_name: node_name
                .and_then(Value::as_str)
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            node_selector: string_map(node_selector),
            terms: required
                .filter(|it| it.is_object())
                .map(|it| list(it, "nodeSelectorTerms").cloned().collect()),
            tolerations: tolerations.and_then(Value::as_array).cloned().unwrap_or_default(),
        }
    }

    /// Whether the pod can land on `node`.
    pub fn admits(&self, node: &Node) -> bool {
        if let Some(name) = &self.node_name {
            // Such a pod passes the scheduler by.
            return *name == node.name;
        }
        self.node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value))
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
            && node.taints.iter().all(|taint| self.tolerates(taint))
    }

    /// Whether the start-up taint keeps the pod off `node` for now: [`Placement::admits`] looks beyond it.
    pub fn is_kept_off(&self, node: &Node) -> bool {
        let mut startup = node.taints.iter().filter(|taint| taint.key == STARTUP_TAINT);
        startup.any(|taint| !self.is_tolerated(taint))
    }

    /// Whether the pod already asks for label `key`.
    pub fn selects(&self, key: &str) -> bool {
        self.node_selector.contains_key(key)
    }

    /// The labels that the pod asks for.
    pub fn node_selector(&self) -> &BTreeMap<String, String> {
        &self.node_selector
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let harmless =
            taint.effect == "PreferNoSchedule" || taint.key.starts_with(CONDITION_TAINTS) || taint.key == STARTUP_TAINT;
        harmless || self.is_tolerated(taint)
    }

    /// Whether the pod itself tolerates `taint`.
    fn is_tolerated(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }
}

fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let field = |key: &str| text(toleration, key).unwrap_or_default();
    let effect = field("effect");
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    match (field("key"), field("operator")) {
        // Without a key, `Exists` tolerates everything.
        ("", operator) => operator == "Exists",
        (key, "Exists") => key == taint.key,
        (key, _) => key == taint.key && field("value") == taint.value,
    }
}

/// A term without expressions matches nothing; all its expressions must hold.
fn term_matches(term: &Value, node: &Node) -> bool {
    let mut expressions = list(term, "matchExpressions").map(|it| (it, false));
    let fields = list(term, "matchFields").map(|it| (it, true));
    let all: Vec<_> = expressions.by_ref().chain(fields).collect();
    !all.is_empty()
        && all
            .into_iter()
            .all(|(expression, field)| expression_matches(expression, field, node))
}

fn expression_matches(expression: &Value, is_field: bool, node: &Node) -> bool {
    let key = text(expression, "key").unwrap_or_default();
    let value = match is_field {
        true => (key == "metadata.name").then_some(node.name.as_str()),
        false => node.labels.get(key).map(String::as_str),
    };
    let listed = |value: &str| list(expression, "values").any(|it| it.as_str() == Some(value));
    let bound = || {
        list(expression, "values")
            .next()
            .and_then(Value::as_str)
            .and_then(|it| it.parse::<i64>().ok())
    };
    let number = || value.and_then(|it| it.parse::<i64>().ok());
    match text(expression, "operator").unwrap_or_default() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(number, bound)| number > bound),
        "Lt" => number().zip(bound()).is_some_and(|(number, bound)| number < bound),
        _ => false,
    }
}

fn string_map(value: Option<&Value>) -> BTreeMap<String, String> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(labels: &Value, taints: &Value) -> Node {
        Node::read(&json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}}))
    }

    fn admits(spec: &Value, node: &Node) -> bool {
        Placement::of(&Pod::new(&json!({"spec": spec}))).admits(node)
    }

    #[test]
    fn every_value_makes_a_placement_longer() {
        let pod = json!({"spec": {
            "nodeName": "n1",
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "a"}, {"operator": "Exists"}],
            "containers": [{"name": "a"}],
        }});
        let pod = Pod::new(&pod);
        assert!(!is_longer_than(&pod, 8) && is_longer_than(&pod, 7));
    }

    #[test]
    fn selectors_and_affinity_are_both_needed() {
        let n = node(&json!({"zone": "a", "gen": "7"}), &json!([]));
        assert!(admits(&json!({}), &n));
        assert!(admits(&json!({"nodeSelector": {"zone": "a"}}), &n));
        assert!(!admits(&json!({"nodeSelector": {"zone": "b"}}), &n));
        let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let expression =
            |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        for (term, matches) in [
            (
                json!({"matchExpressions": [expression("zone", "In", json!(["b", "a"]))]}),
                true,
            ),
            (
                json!({"matchExpressions": [expression("zone", "NotIn", json!(["a"]))]}),
                false,
            ),
            (
                json!({"matchExpressions": [expression("gpu", "DoesNotExist", json!([]))]}),
                true,
            ),
            (
                json!({"matchExpressions": [expression("gen", "Gt", json!(["6"]))]}),
                true,
            ),
            (
                json!({"matchExpressions": [expression("gen", "Lt", json!(["7"]))]}),
                false,
            ),
            (
                json!({"matchFields": [expression("metadata.name", "In", json!(["n1"]))]}),
                true,
            ),
            (json!({}), false),
        ] {
            assert_eq!(admits(&affinity(json!([term])), &n), matches, "{term}");
        }
    }

    #[test]
    fn taints_keep_pods_away_unless_tolerated() {
        let n = node(
            &json!({}),
            &json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        );
        assert!(!admits(&json!({}), &n));
        assert!(admits(
            &json!({"tolerations": [{"key": "team", "operator": "Exists"}]}),
            &n
        ));
        assert!(admits(
            &json!({"tolerations": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}),
            &n
        ));
        assert!(!admits(&json!({"tolerations": [{"key": "team", "value": "y"}]}), &n));
        assert!(admits(&json!({"nodeName": "n1"}), &n));
        let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        assert!(admits(&json!({}), &node(&json!({}), &not_ready)));
    }
}
