//! Pods of the CNI plugin, and the nodes where it has been failing for long.

use super::{Collection, Freshness, Status};
use crate::decide::coverage::{self, FAILING_AFTER, Plugin};
use crate::decide::placement::Node;
use crate::pod::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::Object;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A namespace where a DaemonSet of the plugin is, and whose plugin that is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginPlace {
    /// The namespace.
    pub namespace: String,
    /// Whether the plugin is ours.
    pub ours: bool,
}

/// A pod that keeps the plugin on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPod {
    node: String,
    /// Since when it is not ready; nothing where it is.
    unready_since: Option<Timestamp>,
}

/// What is kept of a pod's `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct PodSpec {
    node_name: String,
}

/// What is kept of its `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct PodStatus {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    r#type: String,
    status: String,
    last_transition_time: Option<Time>,
}

impl PluginPlace {
    /// Where `plugin` has its pods.
    pub fn of(plugin: &Plugin) -> Self {
        Self {
            namespace: plugin.namespace().to_owned(),
            ours: plugin.ours,
        }
    }

    /// Where `pod` is, if it is one of the plugin.
    pub fn of_pod(pod: &Value) -> Option<Self> {
        let metadata = pod.get("metadata")?;
        let labels = metadata.get("labels")?;
        let has = |ours: bool| {
            let (key, value) = coverage::label(ours);
            labels.get(key).is_some_and(|it| it == value)
        };
        Some(Self {
            namespace: text(metadata, "namespace").unwrap_or("default").to_owned(),
            ours: [true, false].into_iter().find(|ours| has(*ours))?,
        })
    }

    /// The label by which its pods are told from others.
    pub fn selector(&self) -> String {
        let (key, value) = coverage::label(self.ours);
        format!("{key}={value}")
    }
}

impl PluginPod {
    /// For how many seconds it has not been ready at `now`.
    fn unready_for(&self, now: Timestamp) -> i64 {
        let seconds = |since: Timestamp| now.as_second().saturating_sub(since.as_second());
        self.unready_since.map_or(0, seconds)
    }
}

/// A pod that is on no node yet is of no interest.
pub(in crate::cluster) fn plugin_pod(object: Object<PodSpec, PodStatus>) -> super::Kept<PluginPod> {
    let name = object.metadata.name.as_deref().unwrap_or_default().into();
    let node = object.spec.node_name;
    let conditions = object.status.unwrap_or_default().conditions;
    let ready = conditions.into_iter().find(|condition| condition.r#type == "Ready");
    let created = object.metadata.creation_timestamp.map(|created| created.0);
    let unready_since = match ready {
        Some(ready) if ready.status == "True" => None,
        // What does not say since when is taken to have just begun.
        Some(ready) => ready
            .last_transition_time
            .map(|since| since.0)
            .or(created)
            .or(Some(Timestamp::MAX)),
        None => created.or(Some(Timestamp::MAX)),
    };
    let pod = PluginPod { node, unready_since };
    (name, Some(pod).filter(|pod| !pod.node.is_empty()))
}

/// Pods of the plugin by place, each place with a watch of its own.
#[derive(Debug, Default)]
pub struct PluginPods {
    places: BTreeMap<PluginPlace, Place>,
}

/// The pods at one place.
#[derive(Debug, Default)]
struct Place {
    pods: Collection<PluginPod>,
    /// When they were up to date last: nobody knows what has become of them since.
    as_of: Option<Timestamp>,
}

impl PluginPods {
    /// The pods at `place`.
    pub fn at(&mut self, place: &PluginPlace) -> &mut Collection<PluginPod> {
        &mut self.places.entry(place.clone()).or_default().pods
    }

    /// Whether those at `place` were listed, or could not be.
    pub(super) fn are_heard(&self, place: &PluginPlace) -> bool {
        let place = self.places.get(place);
        place.is_some_and(|place| place.pods.freshness() != Freshness::Pending)
    }

    /// Forgets every place but `places`.
    pub(super) fn retain(&mut self, places: &BTreeSet<PluginPlace>) {
        self.places.retain(|place, _| places.contains(place));
    }

    /// The nodes where the plugin has been failing for long at `now`: its pods are there, and none was ready in that time.
    ///
    /// A node that is lost itself says nothing about the plugin, and gets no pods either.
    ///
    /// Where the watch of its pods has failed, the time stands still: one that was about to get ready then has got ready since.
    pub(super) fn failing(&mut self, nodes: &Collection<Node>, now: Timestamp) -> Vec<(Arc<str>, ())> {
        let mut unready: BTreeMap<&str, i64> = BTreeMap::new();
        for Place { pods, as_of } in self.places.values_mut() {
            if pods.freshness() == Freshness::Current {
                *as_of = Some(now);
            }
            for pod in pods.iter() {
                let seconds = as_of.map_or(0, |as_of| pod.unready_for(as_of));
                // One that is ready does for all.
                let least = unready.entry(&pod.node).or_insert(seconds);
                *least = seconds.min(*least);
            }
        }
        let long = i64::try_from(FAILING_AFTER.as_secs()).unwrap_or(i64::MAX);
        let is_there = |node: &str| nodes.get(node).is_none_or(|node| !node.is_lost());
        unready
            .into_iter()
            .filter(|(node, seconds)| *seconds >= long && is_there(node))
            .map(|(node, _)| (node.into(), ()))
            .collect()
    }

    /// The state of all watches together; nothing where there is none.
    pub(super) fn status(&self) -> Option<Status> {
        let all = self.places.values().map(|place| place.pods.status("pods"));
        all.reduce(|one, other| Status {
            resource: one.resource,
            objects: one.objects + other.objects,
            freshness: match one.freshness {
                Freshness::Current => other.freshness,
                Freshness::Pending | Freshness::Unavailable | Freshness::Stale => one.freshness,
            },
            failures: one.failures + other.failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 2026-01-01T12:00:00Z, when all of these are looked at.
    const NOW: &str = "2026-01-01T12:00:00Z";

    fn pod(name: &str, node: &str, status: &Value) -> (Arc<str>, Option<PluginPod>) {
        let metadata = json!({"name": name, "creationTimestamp": "2026-01-01T11:58:00Z"});
        let object = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": status});
        plugin_pod(serde_json::from_value(object).unwrap())
    }

    fn ready(status: &str, since: &str) -> Value {
        let since = format!("2026-01-01T{since}Z");
        json!({"conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": status, "lastTransitionTime": since},
        ]})
    }

    /// The nodes where these pods of our plugin have been failing.
    fn failing(pods: &[(&str, &str, Value)], nodes: &[Value]) -> Vec<String> {
        let (mut all, place) = (PluginPods::default(), place(true));
        for (name, node, status) in pods {
            if let (name, Some(pod)) = pod(name, node, status) {
                all.at(&place).apply(name, pod);
            }
        }
        all.at(&place).seal();
        let mut known = Collection::default();
        for node in nodes.iter().map(Node::read) {
            known.apply(node.name.as_str().into(), node);
        }
        let found = all.failing(&known, NOW.parse().unwrap());
        found.into_iter().map(|(node, ())| node.to_string()).collect()
    }

    fn place(ours: bool) -> PluginPlace {
        PluginPlace {
            namespace: "linkerd-cni".to_owned(),
            ours,
        }
    }

    #[test]
    fn a_plugin_fails_once_its_pod_was_not_ready_for_five_minutes() {
        let pods = [
            ("a", "long", ready("False", "11:55:00")),
            ("b", "short", ready("False", "11:55:01")),
            ("c", "ready", ready("True", "11:00:00")),
            ("d", "unknown", ready("Unknown", "09:00:00")),
            // Made two minutes ago, and the kubelet has said nothing of it yet.
            ("e", "silent", json!({})),
            ("f", "", json!({})),
        ];
        assert_eq!(failing(&pods, &[]), ["long", "unknown"]);
    }

    #[test]
    fn while_nobody_hears_of_a_pod_its_time_stands_still() {
        let (mut all, place, nodes) = (PluginPods::default(), place(true), Collection::default());
        let (name, unready) = pod("a", "n", &ready("False", "11:58:00"));
        all.at(&place).reset(vec![(name, unready.unwrap())]);
        let at = |all: &mut PluginPods, time: &str| {
            let now = format!("2026-01-01T{time}Z");
            all.failing(&nodes, now.parse().unwrap()).len()
        };
        assert_eq!(at(&mut all, "12:00:00"), 0);
        all.at(&place).fail("the API server does not answer".into());
        assert_eq!(at(&mut all, "12:30:00"), 0);
        let (name, unready) = pod("a", "n", &ready("False", "11:58:00"));
        all.at(&place).reset(vec![(name, unready.unwrap())]);
        assert_eq!(at(&mut all, "12:31:00"), 1);
        // What was failing before goes on to.
        all.at(&place).fail("the API server does not answer".into());
        assert_eq!(at(&mut all, "12:32:00"), 1);
    }

    #[test]
    fn of_several_pods_on_a_node_the_best_counts() {
        let pods = [
            ("old", "rolled-out", ready("False", "10:00:00")),
            ("new", "rolled-out", ready("False", "11:59:00")),
            ("ours", "both", ready("True", "11:59:00")),
            ("theirs", "both", ready("False", "10:00:00")),
            ("one", "neither", ready("False", "10:00:00")),
            ("other", "neither", ready("False", "11:00:00")),
        ];
        assert_eq!(failing(&pods, &[]), ["neither"]);
    }

    #[test]
    fn a_lost_node_says_nothing_about_the_plugin() {
        let pods = ["a", "b", "c"].map(|node| (node, node, ready("False", "10:00:00")));
        let tainted = |name: &str, key: &str| json!({"metadata": {"name": name}, "spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
        let nodes = [
            tainted("a", "node.kubernetes.io/unreachable"),
            tainted("b", "node.kubernetes.io/not-ready"),
            tainted("c", "node.kubernetes.io/memory-pressure"),
        ];
        assert_eq!(failing(&pods, &nodes), ["c"]);
    }

    #[test]
    fn pods_are_told_apart_by_label_and_namespace() {
        let of = |labels: Value| {
            PluginPlace::of_pod(&json!({"metadata": {"namespace": "linkerd-cni", "name": "x", "labels": labels}}))
        };
        assert_eq!(
            of(json!({"app.kubernetes.io/name": "outrigger-cni"})),
            Some(place(true))
        );
        assert_eq!(of(json!({"k8s-app": "linkerd-cni"})), Some(place(false)));
        assert_eq!(of(json!({"k8s-app": "kube-proxy"})), None);
        assert_eq!(place(false).selector(), "k8s-app=linkerd-cni");
    }
}
