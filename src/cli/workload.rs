//! Manifests that make pods, and where they are.

use super::objects::Object;
use crate::cluster::{self, Cluster};
use crate::inject::Owner;
use crate::pod::Pod;
use crate::pod::workload::Kind;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A manifest that makes pods, or is one.
pub(super) struct Workload<'o> {
    /// The pod, or the template that pods are made from.
    pub(super) template: &'o Value,
    /// What its pods belong to.
    pub(super) owner: Option<Owner>,
    /// The user who creates its pods; nothing for a pod of nobody's, which its author does.
    pub(super) creator: Option<&'static str>,
}

impl<'o> Workload<'o> {
    /// Reads `object` of `namespace`; nothing where it makes no pods. Owners are looked up in `cluster`.
    pub(super) fn read(object: &'o Value, namespace: &str, cluster: &Cluster) -> Option<Self> {
        let kind = Kind::of(object)?;
        let template = object.pointer(kind.template_pointer()?)?;
        // What pods of this workload will say of themselves; of a generated name only the start is known.
        let stem = Pod::new(object).name().unwrap_or_default().trim_end_matches(['-', '.']);
        let reference = json!({"apiVersion": object.get("apiVersion"), "kind": kind.name(), "name": stem});
        let of_workload = json!({"metadata": {"ownerReferences": [reference]}});
        let child = if kind == Kind::Pod { object } else { &of_workload };
        let owner = cluster.known_owner(namespace, child).map(|owner| Owner {
            kind: owner.known_kind(),
            name: owner.name,
        });
        let controller = cluster::Owner::of(child).and_then(|owner| owner.known_kind());
        Some(Self {
            template,
            owner,
            creator: controller.and_then(Kind::creator),
        })
    }
}

/// `Kind/name` of an object of a known kind; its `generateName` where it has no name.
pub(super) fn title(kind: Kind, object: &Value) -> String {
    format!("{}/{}", kind.name(), Pod::new(object).name().unwrap_or_default())
}

/// The namespace of `object`, which is `default` where it names none.
pub(super) fn namespace_of<'a>(object: &'a Value, default: &'a str) -> &'a str {
    let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
    own.filter(|name| !name.is_empty()).unwrap_or(default)
}

/// The Namespaces of the manifests, by name.
pub(super) fn namespaces(objects: &[Object]) -> BTreeMap<&str, &Value> {
    let objects = objects.iter().map(|object| &object.value);
    objects
        .filter(|object| Kind::of(object) == Some(Kind::Namespace))
        .filter_map(|object| Some((object.pointer("/metadata/name")?.as_str()?, object)))
        .collect()
}

/// The Namespace of the manifests, where they have exactly one.
pub(super) fn only_namespace(objects: &[Object]) -> Option<&str> {
    let namespaces = namespaces(objects);
    let mut names = namespaces.into_keys();
    names.next().filter(|_| names.next().is_none())
}

/// Checks that each object can be one of a cluster; an error names its place.
pub(super) fn check_each(objects: &[Object]) -> Result<()> {
    objects.iter().try_for_each(|object| {
        let alone = Cluster::of_manifests(std::slice::from_ref(&object.value), None);
        alone.map(drop).with_context(|| object.place.clone())
    })
}
