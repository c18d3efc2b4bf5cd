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
        let found = documents.iter().flat_map(|document| manifest::items(&document.value));
        objects.extend(found.filter(|object| !object.is_null()).cloned());
    }
    Ok(objects)
}
