//! The patch of objects that get no proxy: the list of their opaque ports, which the control plane reads.

use super::{Metadata, metadata_patch, patch::Patch};
use crate::config::Ranges;
use crate::config::annotation::OPAQUE_PORTS;
use crate::pod::workload::Kind;
use crate::pod::{Pod, structure};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The patch for `object`, a pod or a service; empty where there is nothing to say, or where the metadata is none.
///
/// An annotation of the object's own wins, then the namespace's as it stands, then those of the object's ports that
/// `default` has.
pub fn patch(kind: Kind, object: &Value, namespace: Option<&Map<String, Value>>, default: &Ranges) -> Patch {
    let pod = Pod::new(object);
    if pod.annotation(OPAQUE_PORTS).is_some() || structure::of_metadata(object).is_err() {
        return Patch::default();
    }
    let inherited = namespace
        .and_then(|annotations| annotations.get(OPAQUE_PORTS))
        .and_then(Value::as_str);
    let ports = match (inherited, kind) {
        (Some(ports), _) => ports.to_owned(),
        (None, Kind::Service) => default.of_service(object),
        (None, _) => default.of_pod(&pod),
    };
    if ports.is_empty() {
        return Patch::default();
    }
    let annotations = BTreeMap::from([(OPAQUE_PORTS.to_owned(), ports)]);
    let metadata = Metadata {
        annotations,
        labels: BTreeMap::new(),
    };
    metadata_patch(&metadata, object, "")
}
