//! From objects of the API to what the index keeps of them.

use crate::cluster::facts::{Namespace, Node, Plugin, Taint};
use k8s_openapi::api::core::v1;
use kube::api::{NotUsed, Object, ObjectMeta, PartialObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The label by which a DaemonSet is known to install a plugin that redirects traffic.
pub const PLUGIN_LABEL: &str = "k8s-app";

/// The values of [`PLUGIN_LABEL`]: Linkerd's plugin and ours.
pub const PLUGIN_NAMES: [&str; 2] = ["linkerd-cni", "outrigger-cni"];

/// The label that every API server since 1.21 puts on a namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// kubectl's copy of the whole object, which would double every namespace.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How many unused texts the interner may hold before it looks for them.
const UNUSED_TEXTS: usize = 1024;

/// What of a pod's `spec` decides where it lands.
const PLACEMENT: [&str; 4] = ["nodeSelector", "affinity", "tolerations", "hostNetwork"];

/// A manifest that is no object of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name:?}: {source}")]
pub struct ObjectsError {
    kind: &'static str,
    name: String,
    source: serde_json::Error,
}

/// Texts that are stored once, however many objects have them.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    /// How many texts were in use when that was last looked at.
    used: usize,
}

impl Interner {
    /// How many texts are stored.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The shared copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        if self.texts.len() > 2 * self.used + UNUSED_TEXTS {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.used = self.texts.len();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        shared
    }
}

/// What is kept of a node's `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct NodeSpec {
    taints: Vec<RawTaint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawTaint {
    key: String,
    value: String,
    effect: String,
}

pub(in crate::cluster) fn namespace(
    _: &mut Interner,
    object: PartialObjectMeta<v1::Namespace>,
) -> (Arc<str>, Namespace) {
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
    (namespace.name.as_str().into(), namespace)
}

pub(in crate::cluster) fn node(texts: &mut Interner, object: Object<NodeSpec, NotUsed>) -> (Arc<str>, Node) {
    let name: Arc<str> = object.metadata.name.unwrap_or_default().into();
    let labels = object.metadata.labels.unwrap_or_default();
    let labels = labels
        .iter()
        .map(|(key, value)| (texts.share(key), texts.share(value)))
        .collect();
    let taints = object.spec.taints.iter().map(|taint| Taint {
        key: texts.share(&taint.key),
        value: texts.share(&taint.value),
        effect: texts.share(&taint.effect),
    });
    let taints = taints.collect();
    let node = Node {
        name: Arc::clone(&name),
        labels,
        taints,
    };
    (name, node)
}

pub(in crate::cluster) fn plugin(_: &mut Interner, object: Object<Value, NotUsed>) -> (Arc<str>, Plugin) {
    let spec = object.spec.pointer("/template/spec").and_then(Value::as_object);
    let kept = |key: &str| Some((key.to_owned(), spec?.get(key)?.clone()));
    let plugin = Plugin {
        namespace: object.metadata.namespace.unwrap_or_default(),
        name: object.metadata.name.unwrap_or_default(),
        labels: object.metadata.labels.unwrap_or_default(),
        pod_spec: Value::Object(PLACEMENT.into_iter().filter_map(kept).collect()),
    };
    (format!("{}/{}", plugin.namespace, plugin.name).into(), plugin)
}

fn strings(map: BTreeMap<String, String>) -> Map<String, Value> {
    map.into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect()
}

/// The objects themselves and those in lists among them.
pub(in crate::cluster) fn flatten(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects
        .iter()
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
}

impl Objects {
    pub(super) fn take(&mut self, texts: &mut Interner, object: &Value) -> Result<(), ObjectsError> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            ("v1", "Namespace") => {
                let (name, mut namespace) = namespace(texts, decode("Namespace", object)?);
                let label = namespace.labels.entry(NAMESPACE_NAME);
                label.or_insert_with(|| namespace.name.as_str().into());
                self.namespaces.push((name, namespace));
            }
            ("v1", "Node") => self.nodes.push(node(texts, decode("Node", object)?)),
            ("apps/v1", "DaemonSet") => {
                let (name, plugin) = plugin(texts, decode("DaemonSet", object)?);
                if plugin
                    .labels
                    .get(PLUGIN_LABEL)
                    .is_some_and(|label| PLUGIN_NAMES.contains(&label.as_str()))
                {
                    self.plugins.push((name, plugin));
                }
            }
            _ => {}
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
    serde_json::from_value(whole).map_err(|source| ObjectsError {
        kind,
        name: object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        source,
    })
}
