//! What the decision asks of a cluster, as plain data.

use crate::policy::Release;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels of a node; texts are shared among all nodes, which have most of them in common.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels; every value is a string.
    pub labels: Map<String, Value>,
    /// Its annotations but for kubectl's copy of the whole object; every value is a string.
    pub annotations: Map<String, Value>,
}

/// What decides whether a pod can land on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value, often empty.
    pub value: Arc<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Arc<str>,
}

/// A DaemonSet that installs a CNI plugin which redirects traffic: ours or Linkerd's.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Of its pod template's `spec`: `nodeSelector`, `affinity`, `tolerations` and `hostNetwork`, as an object, so that
    /// it is judged like a pod. The tolerations that the DaemonSet controller adds are not among them.
    pub pod_spec: Value,
}

/// The cluster at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The API server's release, the emulated one where it emulates; nothing where it was not told.
    pub release: Option<Release>,
    /// The nodes.
    pub nodes: Known<Node>,
    /// The plugins.
    pub plugins: Known<Plugin>,
    /// Why what is known of namespaces may be out of date.
    pub namespaces_stale: Option<Arc<str>>,
    /// Changes whenever `nodes` or `plugins` do, and only then: the key to what was derived from them.
    pub generation: u64,
}

/// What is known of one resource.
#[derive(Clone, Debug)]
pub struct Known<T> {
    /// The objects, by name; nothing until they were listed once.
    pub items: Option<Arc<[Arc<T>]>>,
    /// Why `items` is missing or out of date.
    pub trouble: Option<Arc<str>>,
}
