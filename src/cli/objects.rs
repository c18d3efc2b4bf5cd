//! The objects of manifests: documents, and the items of lists, in input order.

use super::input::Input;
use crate::pod::manifest;
use anyhow::{Context, Result};
use serde_json::Value;

/// Every object of `inputs`; documents without a value are passed over.
pub(super) fn read(inputs: &[Input]) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for input in inputs {
        let documents = manifest::read(&input.text).with_context(|| input.name.clone())?;
        for document in documents {
            flatten(document.value, &mut objects);
        }
    }
    Ok(objects)
}

/// A `v1` `List` stands for its items.
fn flatten(value: Value, objects: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Object(mut object) if object.get("kind").and_then(Value::as_str) == Some("List") => {
            if let Some(Value::Array(items)) = object.remove("items") {
                items.into_iter().for_each(|item| flatten(item, objects));
            }
        }
        other => objects.push(other),
    }
}
