//! Typed reads over the raw JSON of a pod.
//!
//! A pod is never turned into a typed structure: a field that is newer than our bindings must survive injection, and a
//! policy must see what the API server sees. [`Pod`] is a view, a handful of references into the JSON, so that a
//! *candidate* (the pod as it would be with one redirection) costs no copy of the pod.
//!
//! This room never does I/O, and no read in it can fail: what has the wrong type reads as absent, as it does for a
//! lenient decoder, and the API server refuses it in its own words.

mod image;
pub mod label;
pub mod manifest;
mod quantity;
pub mod structure;
pub mod workload;

pub use image::{Image, image};
pub use quantity::{Quantity, Scale};

use serde_json::{Map, Value};

/// The service account of a pod that names none.
pub const DEFAULT_ACCOUNT: &str = "default";

/// The value that every missing object reads as.
static NULL: Value = Value::Null;

/// A view of a pod, or of a workload's pod template, as JSON.
///
/// The lists are views of their own so that [`Pod::with`] can extend them without copying a container.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    init_containers: Vec<&'a Value>,
    containers: Vec<&'a Value>,
    ephemeral_containers: Vec<&'a Value>,
    volumes: Vec<&'a Value>,
}

/// Containers and volumes that a candidate has beside the application's own.
#[derive(Clone, Debug, Default)]
pub struct Additions<'a> {
    /// Init containers placed before those of the application.
    pub init_first: Vec<&'a Value>,
    /// Init containers placed after those of the application.
    pub init_last: Vec<&'a Value>,
    /// Containers placed before those of the application.
    pub first: Vec<&'a Value>,
    /// Containers placed after those of the application.
    pub last: Vec<&'a Value>,
    /// Volumes, placed after those of the application.
    pub volumes: Vec<&'a Value>,
}

impl<'a> Pod<'a> {
    /// Views `object`, anything with `metadata` and `spec`: a pod or a pod template.
    pub fn new(object: &'a Value) -> Self {
        let spec = object.get("spec").unwrap_or(&NULL);
        Self {
            metadata: object.get("metadata").unwrap_or(&NULL),
            spec,
            init_containers: list(spec, "initContainers").collect(),
            containers: list(spec, "containers").collect(),
            ephemeral_containers: list(spec, "ephemeralContainers").collect(),
            volumes: list(spec, "volumes").collect(),
        }
    }

    /// The same pod with `additions`: a candidate.
    #[must_use]
    pub fn with(&self, additions: &Additions<'a>) -> Self {
        let surround = |first: &[&'a Value], own: &[&'a Value], last: &[&'a Value]| [first, own, last].concat();
        Self {
            init_containers: surround(&additions.init_first, &self.init_containers, &additions.init_last),
            containers: surround(&additions.first, &self.containers, &additions.last),
            ephemeral_containers: self.ephemeral_containers.clone(),
            volumes: surround(&[], &self.volumes, &additions.volumes),
            ..*self
        }
    }

    /// `metadata`, or null.
    pub fn metadata(&self) -> &'a Value {
        self.metadata
    }

    /// `spec`, or null. Its container and volume lists are those of the pod as it came, even in a candidate: use
    /// [`Pod::containers`] and its siblings.
    pub fn spec(&self) -> &'a Value {
        self.spec
    }

    /// `metadata.name`, else `metadata.generateName`, else nothing; empty counts as missing.
    pub fn name(&self) -> Option<&'a str> {
        ["name", "generateName"]
            .into_iter()
            .find_map(|key| text(self.metadata, key).filter(|name| !name.is_empty()))
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> Option<&'a Map<String, Value>> {
        self.metadata.get("annotations").and_then(Value::as_object)
    }

    /// The value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations()
            .and_then(|annotations| annotations.get(key))
            .and_then(Value::as_str)
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> Option<&'a Map<String, Value>> {
        self.metadata.get("labels").and_then(Value::as_object)
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels().and_then(|labels| labels.get(key)).and_then(Value::as_str)
    }

    /// Init containers, native sidecars among them, in order.
    pub fn init_containers(&self) -> &[&'a Value] {
        &self.init_containers
    }

    /// Application containers, in order.
    pub fn containers(&self) -> &[&'a Value] {
        &self.containers
    }

    /// Ephemeral containers, in order.
    pub fn ephemeral_containers(&self) -> &[&'a Value] {
        &self.ephemeral_containers
    }

    /// Init, then application, then ephemeral containers: the order in which Pod Security visits them.
    pub fn all_containers(&self) -> impl Iterator<Item = &'a Value> {
        [&self.init_containers, &self.containers, &self.ephemeral_containers]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Volumes, in order.
    pub fn volumes(&self) -> &[&'a Value] {
        &self.volumes
    }

    /// `spec.hostNetwork`.
    pub fn host_network(&self) -> bool {
        boolean(self.spec, "hostNetwork") == Some(true)
    }

    /// `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`. (A JSON pointer would have each of its
    /// parts copied, for every pod.)
    pub fn required_node_affinity(&self) -> Option<&'a Value> {
        let of_nodes = self.spec.get("affinity")?.get("nodeAffinity")?;
        of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    }

    /// The user that a container of the pod asks for, itself or through the pod.
    pub fn user_of(&self, container: &Value) -> Option<i64> {
        let contexts = [object(container, "securityContext"), self.security_context()];
        contexts
            .into_iter()
            .flatten()
            .find_map(|context| integer(context, "runAsUser"))
    }

    /// The service account that it runs as, by its present field or the one of old; nothing where both are empty: the API
    /// server fills in [`DEFAULT_ACCOUNT`].
    pub fn service_account(&self) -> Option<&'a str> {
        ["serviceAccountName", "serviceAccount"]
            .into_iter()
            .find_map(|key| text(self.spec, key).filter(|name| !name.is_empty()))
    }

    /// `spec.securityContext`, where it is an object.
    pub fn security_context(&self) -> Option<&'a Value> {
        object(self.spec, "securityContext")
    }
}

/// The string `object[key]`.
pub fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// The boolean `object[key]`.
pub fn boolean(object: &Value, key: &str) -> Option<bool> {
    object.get(key).and_then(Value::as_bool)
}

/// The integer `object[key]`.
pub fn integer(object: &Value, key: &str) -> Option<i64> {
    object.get(key).and_then(Value::as_i64)
}

/// `object[key]` where it is an object, so that null and other types read as absent.
pub fn object<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| value.is_object())
}

/// The items of the list `object[key]`; nothing where there is no list.
pub fn list<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The `name` of a container or volume, empty where it has none.
pub fn container_name(container: &Value) -> &str {
    text(container, "name").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_read_as_absent() {
        let pod = json!({"metadata": {"name": 7, "annotations": []}, "spec": {"containers": {}, "hostNetwork": "yes"}});
        let pod = Pod::new(&pod);
        assert_eq!(pod.name(), None);
        assert_eq!(pod.annotation("a"), None);
        assert!(pod.containers().is_empty());
        assert!(!pod.host_network());
        assert_eq!(Pod::new(&Value::Null).all_containers().count(), 0);
    }

    #[test]
    fn a_candidate_surrounds_the_containers_of_the_application() {
        let pod = json!({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}});
        let (first, last) = (json!({"name": "first"}), json!({"name": "last"}));
        let additions = Additions {
            init_first: vec![&first],
            init_last: vec![&last],
            last: vec![&last],
            ..Additions::default()
        };
        let candidate = Pod::new(&pod).with(&additions);
        let names: Vec<_> = candidate.all_containers().map(container_name).collect();
        assert_eq!(names, ["first", "i", "last", "c", "last"]);
    }

    #[test]
    fn a_container_runs_as_its_own_user_or_as_the_pods() {
        let pod = json!({"spec": {"securityContext": {"runAsUser": 1}}});
        let user = |container: Value| Pod::new(&pod).user_of(&container);
        assert_eq!(user(json!({"securityContext": {"runAsUser": 2}})), Some(2));
        assert_eq!(user(json!({"securityContext": {}})), Some(1));
        assert_eq!(Pod::new(&json!({})).user_of(&json!({})), None);
    }

    #[test]
    fn a_generated_name_stands_in_for_a_missing_one() {
        let pod = json!({"metadata": {"name": "", "generateName": "web-"}});
        assert_eq!(Pod::new(&pod).name(), Some("web-"));
    }
}
