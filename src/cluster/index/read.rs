//! From objects of the API to what the index keeps of them.

mod policies;

pub(in crate::cluster) use policies::{binding, limits, policy, role};

use super::{PluginPlace, PluginPod, Sources, plugin_pod};
use crate::cluster::facts::Namespace;
use crate::decide::coverage::Plugin;
use crate::decide::placement::{Node, Taint};
use crate::policy::installed::Source;
use crate::policy::probe::{CONFIG_MAP, Report};
use k8s_openapi::api::core::v1;
use kube::api::{NotUsed, Object, ObjectMeta, PartialObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label that every API server since 1.21 puts on a namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// kubectl's copy of the whole object, which would double every namespace.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A manifest that is no object of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name:?}: {source}")]
pub struct ObjectsError {
    kind: &'static str,
    name: String,
    source: serde_path_to_error::Error<serde_json::Error>,
}

/// What is kept of a node's `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct NodeSpec {
    taints: Vec<RawTaint>,
}

/// What is kept of its `status`: nothing that changes with each sign of life.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct NodeStatus {
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeInfo {
    kubelet_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawTaint {
    key: String,
    value: String,
    effect: String,
}

/// What the index keeps of an object: its name there, and nothing else where the object is none of interest.
pub(in crate::cluster) type Kept<T> = (Arc<str>, Option<T>);

pub(in crate::cluster) fn namespace(object: PartialObjectMeta<v1::Namespace>) -> Kept<Namespace> {
    let ObjectMeta {
        name,
        labels,
        annotations,
        ..
    } = object.metadata;
    let name = name.unwrap_or_default();
    let mut annotations = annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let namespace = Namespace {
        labels: strings(labels.unwrap_or_default()),
        annotations: strings(annotations),
        name,
    };
    (namespace.name.as_str().into(), Some(namespace))
}

pub(in crate::cluster) fn node(object: Object<NodeSpec, NodeStatus>) -> Kept<Node> {
    let taints = object.spec.taints.into_iter().map(|taint| Taint {
        key: taint.key,
        value: taint.value,
        effect: taint.effect,
    });
    let node = Node {
        name: object.metadata.name.unwrap_or_default(),
        labels: object.metadata.labels.unwrap_or_default(),
        taints: taints.collect(),
        kubelet: object
            .status
            .and_then(|status| status.node_info.kubelet_version.parse().ok()),
    };
    (node.name.as_str().into(), Some(node))
}

pub(in crate::cluster) fn plugin(object: Object<Value, NotUsed>) -> Kept<Plugin> {
    let ObjectMeta {
        namespace,
        name,
        labels,
        ..
    } = object.metadata;
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let key = format!("{namespace}/{name}").into();
    let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
    let plugin = Plugin::read(&json!({"metadata": metadata, "spec": object.spec}));
    (key, plugin)
}

/// What a probe found out; its ConfigMap is told by its name.
pub(in crate::cluster) fn findings(object: v1::ConfigMap) -> Kept<Report> {
    let name = object.metadata.name.unwrap_or_default();
    let data = object.data.unwrap_or_default();
    let report =
        (name == CONFIG_MAP).then(|| Report::read(data.iter().map(|(key, text)| (key.as_str(), text.as_str()))));
    (name.into(), report)
}

fn strings(map: BTreeMap<String, String>) -> Map<String, Value> {
    map.into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect()
}

/// The objects themselves and those in lists among them.
pub(in crate::cluster) fn flatten<'o>(objects: impl IntoIterator<Item = &'o Value>) -> impl Iterator<Item = &'o Value> {
    objects
        .into_iter()
        .flat_map(|object| match object.get("items").and_then(Value::as_array) {
            Some(items) => items.as_slice(),
            None => std::slice::from_ref(object),
        })
}

/// What was found among manifests.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) namespaces: Vec<(Arc<str>, Namespace)>,
    pub(super) nodes: Vec<(Arc<str>, Node)>,
    pub(super) plugins: Vec<(Arc<str>, Plugin)>,
    pub(super) findings: Vec<(Arc<str>, Report)>,
    pub(super) plugin_pods: Vec<(PluginPlace, Arc<str>, PluginPod)>,
    pub(super) sources: Sources,
}

impl Objects {
    pub(super) fn take(&mut self, object: &Value) -> Result<(), ObjectsError> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            ("v1", "Namespace") => {
                let (key, mut found) = namespace(decode("Namespace", object)?);
                if let Some(found) = &mut found {
                    let label = found.labels.entry(NAMESPACE_NAME);
                    label.or_insert_with(|| found.name.as_str().into());
                }
                self.namespaces.extend(found.map(|found| (key, found)));
            }
            ("v1", "Node") => {
                let (key, found) = node(decode("Node", object)?);
                self.nodes.extend(found.map(|found| (key, found)));
            }
            // Others hold whatever they hold.
            ("v1", "ConfigMap") if object.pointer("/metadata/name").is_some_and(|name| name == CONFIG_MAP) => {
                let (key, found) = findings(decode_bare("ConfigMap", object)?);
                self.findings.extend(found.map(|found| (key, found)));
            }
            ("apps/v1", "DaemonSet") => {
                let (key, found) = plugin(decode("DaemonSet", object)?);
                self.plugins.extend(found.map(|found| (key, found)));
            }
            ("v1", "Pod") => {
                if let Some(place) = PluginPlace::of_pod(object) {
                    let (key, found) = plugin_pod(decode("Pod", object)?);
                    self.plugin_pods.extend(found.map(|found| (place, key, found)));
                }
            }
            _ => {
                if let Some(source) = Source::of(object) {
                    self.sources.take(source, decode(source.kind(), object)?);
                }
            }
        }
        Ok(())
    }
}

fn decode<K: DeserializeOwned>(kind: &'static str, object: &Value) -> Result<K, ObjectsError> {
    // A manifest may leave out what the server always sends.
    let mut whole = json!({"metadata": {}, "spec": {}});
    if let (Some(whole), Some(object)) = (whole.as_object_mut(), object.as_object()) {
        whole.extend(object.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    decode_bare(kind, &whole)
}

/// The same of an object that lacks nothing.
fn decode_bare<K: DeserializeOwned>(kind: &'static str, object: &Value) -> Result<K, ObjectsError> {
    serde_path_to_error::deserialize(object).map_err(|source| ObjectsError {
        kind,
        name: object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        source,
    })
}
