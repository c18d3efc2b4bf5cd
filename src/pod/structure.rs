//! Whether an object has the types that the API gives its fields, as far as injection reads or writes them.
//!
//! An API server never lets another object through, but manifests hold what people write: `4191` for `"4191"`, a map for a
//! list. Such a field must not read as absent there, nor be overwritten. Source: the Go types of `k8s.io/api/core/v1`,
//! which take null for an absent field everywhere.

use super::NULL;
use super::workload::Kind;
use serde_json::Value;
use std::fmt;

/// A field that the API server would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is {found}, expected {expected}")]
pub struct Malformed {
    /// The field, from the object on: `spec.containers[0].ports`.
    pub path: String,
    /// What is there, in words.
    pub found: String,
    /// What would be right.
    pub expected: &'static str,
}

/// What a field may hold beside null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Boolean,
    Text,
    Map,
    /// A map whose values are texts.
    Texts,
    List,
    /// A list of maps.
    Maps,
}

/// The types of an object's fields; nothing for a field that is of no interest.
type Fields = fn(&str) -> Option<Type>;

const METADATA: Fields = |field| match field {
    "name" | "generateName" | "namespace" => Some(Type::Text),
    "annotations" | "labels" => Some(Type::Texts),
    "ownerReferences" => Some(Type::Maps),
    _ => None,
};

const SPEC: Fields = |field| match field {
    "initContainers" | "containers" | "ephemeralContainers" | "volumes" | "tolerations" => Some(Type::Maps),
    "nodeSelector" => Some(Type::Texts),
    "affinity" | "os" | "securityContext" => Some(Type::Map),
    "automountServiceAccountToken" | "hostIPC" | "hostNetwork" | "hostPID" | "hostUsers" => Some(Type::Boolean),
    "nodeName" | "priorityClassName" | "restartPolicy" | "runtimeClassName" | "schedulerName"
    | "serviceAccountName" => Some(Type::Text),
    _ => None,
};

const CONTAINER: Fields = |field| match field {
    "name" | "image" | "restartPolicy" => Some(Type::Text),
    "args" | "command" => Some(Type::List),
    "env" | "ports" | "volumeMounts" => Some(Type::Maps),
    "lifecycle" | "livenessProbe" | "readinessProbe" | "resources" | "securityContext" => Some(Type::Map),
    _ => None,
};

/// The first field of `object`, any object of a manifest, that keeps it from being what it says.
pub fn of_object(object: &Value) -> Result<(), Malformed> {
    if !object.is_object() {
        let expected = "a map with apiVersion and kind";
        return Err(malformed("the object".to_owned(), object, expected));
    }
    for key in ["apiVersion", "kind"] {
        let value = object.get(key).unwrap_or(&NULL);
        if !value.is_string() {
            return Err(malformed(key.to_owned(), value, Type::Text.name()));
        }
    }
    let items = object.get("items").unwrap_or(&NULL);
    if object.get("kind").is_some_and(|kind| kind == "List") && Type::List.fault(items).is_some() {
        return Err(malformed("items".to_owned(), items, Type::List.name()));
    }
    match Kind::of(object) {
        Some(kind) => of_workload(kind, object).map(|_| ()),
        None => Ok(()),
    }
}

/// The pod template of `object`, which is of `kind`; nothing for kinds that have none. Fails on the first field of object
/// or template that the API server would not take.
pub fn of_workload(kind: Kind, object: &Value) -> Result<Option<&Value>, Malformed> {
    of_metadata(object)?;
    let Some(pointer) = kind.template_pointer() else {
        return Ok(None);
    };
    let path = pointer.trim_start_matches('/').replace('/', ".");
    let template = object.pointer(pointer).unwrap_or(&NULL);
    if !template.is_object() {
        return Err(malformed(path, template, "a map with the pods' metadata and spec"));
    }
    of_pod(template).map_err(|fault| match path.is_empty() {
        true => fault,
        false => Malformed {
            path: format!("{path}.{}", fault.path),
            ..fault
        },
    })?;
    Ok(Some(template))
}

/// The first field of `pod`, a pod or a pod template, that the API server would not take.
pub fn of_pod(pod: &Value) -> Result<(), Malformed> {
    of_metadata(pod)?;
    let spec = pod.get("spec").unwrap_or(&NULL);
    if !spec.is_object() {
        return Err(malformed("spec".to_owned(), spec, "a map with a list of containers"));
    }
    fields(spec, format_args!("spec"), SPEC)?;
    let containers = spec.get("containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        let found = spec.get("containers").unwrap_or(&NULL);
        return Err(malformed(
            "spec.containers".to_owned(),
            found,
            "a list of at least one container",
        ));
    }
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in super::list(spec, key).enumerate() {
            fields(container, format_args!("spec.{key}[{index}]"), CONTAINER)?;
        }
    }
    Ok(())
}

/// The same for the metadata of any object.
pub fn of_metadata(object: &Value) -> Result<(), Malformed> {
    if !object.is_object() {
        return Err(malformed("the object".to_owned(), object, Type::Map.name()));
    }
    let metadata = object.get("metadata").unwrap_or(&NULL);
    if Type::Map.fault(metadata).is_some() {
        return Err(malformed("metadata".to_owned(), metadata, Type::Map.name()));
    }
    fields(metadata, format_args!("metadata"), METADATA)
}

fn fields(object: &Value, path: fmt::Arguments<'_>, types: Fields) -> Result<(), Malformed> {
    for (key, value) in object.as_object().into_iter().flatten() {
        let Some(expected) = types(key) else { continue };
        if let Some((within, found)) = expected.fault(value) {
            return Err(malformed(
                format!("{path}.{key}{within}"),
                found,
                expected.name_of(found),
            ));
        }
    }
    Ok(())
}

fn malformed(path: String, found: &Value, expected: &'static str) -> Malformed {
    let found = describe(found);
    Malformed { path, found, expected }
}

impl Type {
    /// The value, or that within it, which has another type, with its place.
    fn fault(self, value: &Value) -> Option<(String, &Value)> {
        let whole = || Some((String::new(), value));
        match (self, value) {
            (_, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Text, Value::String(_))
            | (Self::Map, Value::Object(_))
            | (Self::List, Value::Array(_)) => None,
            (Self::Texts, Value::Object(map)) => map
                .iter()
                .find(|(_, value)| !value.is_string() && !value.is_null())
                .map(|(key, value)| (format!("[{key}]"), value)),
            (Self::Maps, Value::Array(list)) => {
                let mut items = list.iter().enumerate();
                let (index, item) = items.find(|(_, item)| !item.is_object())?;
                Some((format!("[{index}]"), item))
            }
            _ => whole(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Text => "a text",
            Self::Map | Self::Texts => "a map",
            Self::List | Self::Maps => "a list",
        }
    }

    /// What would be right in the place of `found`, which may be within the value.
    fn name_of(self, found: &Value) -> &'static str {
        match (self, found) {
            (Self::Text | Self::Texts, Value::Bool(_) | Value::Number(_)) => "a text: put it in quotes",
            (Self::Texts, _) => "a map of texts",
            (Self::Maps, _) => "a list of maps",
            _ => self.name(),
        }
    }
}

/// How much of a text is worth quoting.
const QUOTED: usize = 40;

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "missing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() <= QUOTED => format!("{text:?}"),
        Value::String(_) => "a long text".to_owned(),
        Value::Array(list) if list.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(pod: &Value) -> String {
        of_pod(pod).unwrap_err().to_string()
    }

    #[test]
    fn every_wrong_type_is_named_with_its_place() {
        let with = |key: &str, value: Value| json!({"spec": {"containers": [{}], key: value}});
        for (pod, expected) in [
            (json!([]), "the object is an empty list, expected a map"),
            (json!({"metadata": []}), "metadata is an empty list, expected a map"),
            (
                json!({"metadata": {"annotations": {"a/b": 4191}}}),
                "metadata.annotations[a/b] is 4191, expected a text: put it in quotes",
            ),
            (
                json!({"metadata": {"labels": ["a"]}}),
                "metadata.labels is a list, expected a map of texts",
            ),
            (
                json!({"metadata": {"name": true}}),
                "metadata.name is true, expected a text: put it in quotes",
            ),
            (json!({}), "spec is missing, expected a map with a list of containers"),
            (
                json!({"spec": [1]}),
                "spec is a list, expected a map with a list of containers",
            ),
            (
                json!({"spec": {"containers": []}}),
                "spec.containers is an empty list, expected a list of at least one container",
            ),
            (
                json!({"spec": {"containers": [{"ports": [{}, 8080]}]}}),
                "spec.containers[0].ports[1] is 8080, expected a list of maps",
            ),
            (
                with("hostNetwork", "true".into()),
                "spec.hostNetwork is \"true\", expected true or false",
            ),
            (
                with("initContainers", json!({})),
                "spec.initContainers is a map, expected a list of maps",
            ),
            (
                with("containers", json!([null])),
                "spec.containers[0] is missing, expected a list of maps",
            ),
        ] {
            assert_eq!(fault(&pod), expected);
        }
    }

    #[test]
    fn a_template_is_named_with_its_place() {
        let fault = |object: &Value| of_workload(Kind::Deployment, object).unwrap_err().to_string();
        let object = json!({"spec": {"template": {"spec": {"containers": {}}}}});
        assert_eq!(
            fault(&object),
            "spec.template.spec.containers is a map, expected a list of maps"
        );
        for object in [json!({}), json!({"spec": []}), json!({"spec": {"template": null}})] {
            assert!(fault(&object).starts_with("spec.template"), "{}", fault(&object));
        }
        assert_eq!(
            fault(&json!({"metadata": {"labels": {"a": 1}}})),
            "metadata.labels[a] is 1, expected a text: put it in quotes"
        );
        assert_eq!(of_workload(Kind::Service, &json!({"spec": 1})), Ok(None));
    }

    #[test]
    fn an_object_says_what_it_is() {
        let fault = |object: &Value| of_object(object).unwrap_err().to_string();
        assert_eq!(
            fault(&json!("text")),
            "the object is \"text\", expected a map with apiVersion and kind"
        );
        assert_eq!(fault(&json!({"kind": "Pod"})), "apiVersion is missing, expected a text");
        assert_eq!(
            fault(&json!({"apiVersion": "v1", "kind": ["Pod"]})),
            "kind is a list, expected a text"
        );
        assert_eq!(
            fault(&json!({"apiVersion": "v1", "kind": "List", "items": {}})),
            "items is a map, expected a list"
        );
        assert!(fault(&json!({"apiVersion": "v1", "kind": "Pod"})).starts_with("spec is missing"));
        of_object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": 1})).unwrap();
        of_object(&json!({"apiVersion": "v1", "kind": "List"})).unwrap();
    }

    #[test]
    fn null_and_unknown_fields_are_taken() {
        let pod = json!({
            "metadata": {"annotations": null, "labels": {"a": null}, "new": 1},
            "spec": {"containers": [{"name": "a", "ports": null, "new": []}], "volumes": null, "new": 1},
        });
        of_pod(&pod).unwrap();
        of_metadata(&json!({"metadata": null})).unwrap();
        of_metadata(&json!({})).unwrap();
    }
}
