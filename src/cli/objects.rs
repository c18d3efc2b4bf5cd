//! The objects of manifests: documents, and the items of lists, in input order.

use super::input::Input;
use crate::pod::manifest;
use anyhow::{Context, Result};
use serde_json::Value;

/// An object of a manifest.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// The object: any value but null.
    pub(super) value: Value,
    /// Where it stands, for messages: file, and the document's number where there are several.
    pub(super) place: String,
}

/// Every object of `inputs`; documents without a value are passed over.
pub(super) fn read(inputs: &[Input]) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for input in inputs {
        let documents = manifest::read(&input.text).with_context(|| input.name.clone())?;
        let several = documents.len() > 1;
        for (number, document) in (1..).zip(&documents) {
            let place = match several {
                true => format!("{}, document {number}", input.name),
                false => input.name.clone(),
            };
            let found = manifest::items(&document.value).into_iter();
            objects.extend(found.filter(|value| !value.is_null()).map(|value| Object {
                value: value.clone(),
                place: place.clone(),
            }));
        }
    }
    Ok(objects)
}

impl Object {
    /// Where the object stands and what it is called: `app.yaml, document 2: Deployment/web`.
    pub(super) fn title(&self) -> String {
        let text = |pointer: &str| self.value.pointer(pointer).and_then(Value::as_str);
        let Some(kind) = text("/kind") else {
            return self.place.clone();
        };
        let name = text("/metadata/name").or_else(|| text("/metadata/generateName"));
        format!("{}: {kind}/{}", self.place, name.unwrap_or_default())
    }
}
