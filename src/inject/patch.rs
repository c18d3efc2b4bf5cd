//! JSON patches (RFC 6902), built directly.

use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One operation of a patch. Injection only ever adds; adding a member that is there replaces it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Adds `value` at `path`.
    Add {
        /// A JSON pointer (RFC 6901).
        path: String,
        /// What is added.
        value: Value,
    },
}

impl Operation {
    /// Adds `value` at `path`.
    pub fn add(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::Add {
            path: path.into(),
            value: value.into(),
        }
    }
}

/// `key` as one reference token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Adds `entries` to the map `name` of `metadata`, which stands at `path`, making the map where it is missing.
pub(super) fn add_entries(
    patch: &mut Vec<Operation>,
    path: &str,
    (name, metadata): (&str, Option<&Value>),
    entries: BTreeMap<String, String>,
) {
    if entries.is_empty() {
        return;
    }
    let present = metadata
        .and_then(|metadata| metadata.get(name))
        .is_some_and(Value::is_object);
    if !present {
        patch.push(Operation::add(format!("{path}/{name}"), json!({})));
    }
    patch.extend(
        entries
            .into_iter()
            .map(|(key, value)| Operation::add(format!("{path}/{name}/{}", escape(&key)), value)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_in_paths() {
        assert_eq!(escape("linkerd.io/a~b"), "linkerd.io~1a~0b");
    }

    #[test]
    fn operations_are_written_as_rfc_6902_has_them() {
        let operation = serde_json::to_value(Operation::add("/a", 1)).unwrap();
        assert_eq!(operation, json!({"op": "add", "path": "/a", "value": 1}));
    }
}
