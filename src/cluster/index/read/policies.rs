//! What the index keeps of the objects that policies are compiled from: as little as will do, for a cluster can have
//! thousands of bindings.

use super::{Kept, LAST_APPLIED};
use crate::policy::installed::Source;
use crate::policy::limits::Limits;
use crate::policy::{Binding, Role};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// A policy is kept as it is, without what others wrote about it.
pub(in crate::cluster) fn policy(source: Source, object: DynamicObject) -> Kept<Value> {
    let name = object.metadata.name.as_deref().unwrap_or_default().into();
    (name, Some(document(source, object)))
}

/// Only those roles are kept that are about the use of policies.
pub(in crate::cluster) fn role(source: Source, object: DynamicObject) -> Kept<Role> {
    (key(&object), Role::read(&document(source, object)))
}

/// What a role that is bound lets one do is not known here: it may be written later.
pub(in crate::cluster) fn binding(source: Source, object: DynamicObject) -> Kept<Binding> {
    (key(&object), Binding::read(&document(source, object)))
}

/// Limits are compiled at once.
pub(in crate::cluster) fn limits(source: Source, object: DynamicObject) -> Kept<Limits> {
    (key(&object), Some(Limits::compile([&document(source, object)])))
}

/// `NAMESPACE/NAME`
fn key(object: &DynamicObject) -> Arc<str> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    let name = object.metadata.name.as_deref().unwrap_or_default();
    format!("{namespace}/{name}").into()
}

/// The object as a policy reads it. In a list, objects do not say their kind.
fn document(source: Source, object: DynamicObject) -> Value {
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let mut document = object.data;
    if let Some(fields) = document.as_object_mut() {
        let metadata = json!({
            "name": object.metadata.name,
            "namespace": object.metadata.namespace,
            "annotations": annotations,
        });
        fields.insert("apiVersion".to_owned(), source.api_version().into());
        fields.insert("kind".to_owned(), source.kind().into());
        fields.insert("metadata".to_owned(), metadata);
    }
    document
}
