//! The objects of manifests: documents, and the items of lists, in input order.

use super::input::Input;
use super::{Failure, note};
use crate::pod::{manifest, structure};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::borrow::Cow;

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
            let found = manifest::items(&document.value).into_iter().map(Cow::into_owned);
            objects.extend(found.filter(|value| !value.is_null()).map(|value| Object {
                value,
                place: place.clone(),
            }));
        }
    }
    Ok(objects)
}

/// Every object of `inputs` that an API server would take in.
///
/// Fails with all that it would not; what says nothing of itself, such as the values of a chart, is noted and passed over.
pub(super) fn read_valid(inputs: &[Input]) -> Result<Vec<Object>> {
    let mut faults = Vec::new();
    let mut objects = read(inputs)?;
    objects.retain(
        |object| match (object.is_kindless(), structure::of_object(&object.value)) {
            (true, _) => {
                note(&format!("{}: no apiVersion and kind: passed over\n", object.place));
                false
            }
            (false, checked) => {
                faults.extend(
                    checked
                        .err()
                        .map(|fault| format!("Error: {}: {fault}\n", object.title())),
                );
                true
            }
        },
    );
    if !faults.is_empty() {
        return Err(Failure(faults.concat()).into());
    }
    if objects.is_empty() {
        let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
        bail!("no objects in {}", names.join(", "));
    }
    Ok(objects)
}

impl Object {
    /// Where the object stands and what it is called: `app.yaml, document 2: Deployment/web`.
    fn title(&self) -> String {
        let text = |pointer: &str| self.value.pointer(pointer).and_then(Value::as_str);
        let Some(kind) = text("/kind") else {
            return self.place.clone();
        };
        let name = text("/metadata/name").or_else(|| text("/metadata/generateName"));
        match name {
            Some(name) => format!("{}: {kind}/{name}", self.place),
            None => format!("{}: {kind}", self.place),
        }
    }

    fn is_kindless(&self) -> bool {
        self.value.is_object() && self.value.get("kind").is_none() && self.value.get("apiVersion").is_none()
    }
}
