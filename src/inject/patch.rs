//! JSON patches (RFC 6902), written as JSON while they are built: nothing holds the added values in between.

use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A patch. Injection only ever adds; adding a member that is there replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The list of operations; nothing at all where there is none.
    json: Vec<u8>,
}

/// Bytes of a patch that injects the proxy with the chart's values, rounded up.
const USUAL_SIZE: usize = 12 << 10;

/// Bytes of the longest pointers that injection usually writes: those of annotations.
const ROOMY_POINTER: usize = 128;

impl Patch {
    /// A patch without operations, with room for an injection.
    pub(super) fn roomy() -> Self {
        Self {
            json: Vec::with_capacity(USUAL_SIZE),
        }
    }

    /// Adds `value` at `path`, a JSON pointer (RFC 6901).
    pub fn add(&mut self, path: &str, value: &(impl Serialize + ?Sized)) {
        let separator = if self.json.pop().is_some() { b',' } else { b'[' };
        let end = self.json.len();
        self.json.push(separator);
        // Only a value that has no JSON form fails, such as a map with lists for keys: there is none in this room.
        if self.write(path, value).is_err() {
            self.json.truncate(end);
        }
        if !self.json.is_empty() {
            self.json.push(b']');
        }
    }

    fn write(&mut self, path: &str, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        self.json.extend_from_slice(br#"{"op":"add","path":"#);
        serde_json::to_writer(&mut self.json, path)?;
        self.json.extend_from_slice(br#","value":"#);
        serde_json::to_writer(&mut self.json, value)?;
        self.json.push(b'}');
        Ok(())
    }

    /// Adds `entries` to the map `name` of `parent`, which stands at `path`, making the map where it is missing.
    pub(super) fn add_entries(
        &mut self,
        path: &str,
        (name, parent): (&str, Option<&Value>),
        entries: &BTreeMap<String, String>,
    ) {
        if entries.is_empty() {
            return;
        }
        let present = parent.and_then(|parent| parent.get(name)).is_some_and(Value::is_object);
        if !present {
            self.add(&format!("{path}/{name}"), &Map::new());
        }
        let mut place = String::with_capacity(ROOMY_POINTER);
        place.extend([path, "/", name, "/"]);
        let map = place.len();
        for (key, value) in entries {
            place.truncate(map);
            push_escaped(&mut place, key);
            self.add(&place, value);
        }
    }

    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// `object` after the patch; an error says which operation does not fit it.
    #[cfg(feature = "webhook")]
    pub fn applied_to(&self, object: &Value) -> Result<Value, String> {
        let operations: json_patch::Patch =
            serde_json::from_slice(self.as_json()).map_err(|error| error.to_string())?;
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &operations).map_err(|error| error.to_string())?;
        Ok(patched)
    }

    /// The patch as JSON text.
    pub fn as_json(&self) -> &[u8] {
        if self.is_empty() { b"[]" } else { &self.json }
    }

    /// The same, owned; nothing where the patch changes nothing.
    pub fn into_json(self) -> Option<Vec<u8>> {
        (!self.is_empty()).then_some(self.json)
    }
}

impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let operations: Value = serde_json::from_slice(self.as_json()).map_err(S::Error::custom)?;
        operations.serialize(serializer)
    }
}

/// Appends `key` to a JSON pointer, as one reference token.
fn push_escaped(pointer: &mut String, key: &str) {
    let mut escape = "";
    for part in key.split('~') {
        pointer.push_str(escape);
        let mut escape_within = "";
        for whole in part.split('/') {
            pointer.push_str(escape_within);
            pointer.push_str(whole);
            escape_within = "~1";
        }
        escape = "~0";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_escaped_in_paths() {
        let mut pointer = "/labels/".to_owned();
        push_escaped(&mut pointer, "linkerd.io/a~bä");
        assert_eq!(pointer, "/labels/linkerd.io~1a~0bä");
    }

    #[test]
    fn operations_are_written_as_rfc_6902_has_them() {
        let mut patch = Patch::default();
        assert!(patch.is_empty());
        assert_eq!(patch.as_json(), b"[]");
        patch.add("/a", &1);
        patch.add("/\"b", "\n");
        let expected = json!([{"op": "add", "path": "/a", "value": 1}, {"op": "add", "path": "/\"b", "value": "\n"}]);
        assert_eq!(json!(patch), expected);
        assert_eq!(serde_json::from_slice::<Value>(patch.as_json()).unwrap(), expected);
    }

    #[test]
    fn what_has_no_json_form_leaves_no_trace() {
        let odd = BTreeMap::from([(vec![1], 1)]);
        let mut patch = Patch::default();
        patch.add("/b", &odd);
        assert!(patch.is_empty());
        patch.add("/a", &1);
        patch.add("/b", &odd);
        assert_eq!(json!(patch), json!([{"op": "add", "path": "/a", "value": 1}]));
    }
}
