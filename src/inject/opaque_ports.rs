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
/// An annotation of the object's own wins, then the namespace's as it stands, an empty one included: it says that no port
/// is opaque, not even by default. Then come those of the object's ports that `default` has.
pub fn patch(kind: Kind, object: &Value, namespace: Option<&Map<String, Value>>, default: &Ranges) -> Patch {
    let pod = Pod::new(object);
    if pod.annotation(OPAQUE_PORTS).is_some() || structure::of_metadata(object).is_err() {
        return Patch::default();
    }
    let inherited = namespace
        .and_then(|annotations| annotations.get(OPAQUE_PORTS))
        .and_then(Value::as_str);
    let computed = || match kind == Kind::Service {
        true => default.of_service(object),
        false => default.of_pod(&pod),
    };
    let ports = inherited.map_or_else(computed, str::to_owned);
    if inherited.is_none() && ports.is_empty() {
        return Patch::default();
    }
    let annotations = BTreeMap::from([(OPAQUE_PORTS.to_owned(), ports)]);
    let metadata = Metadata {
        annotations,
        labels: BTreeMap::new(),
    };
    metadata_patch(&metadata, object, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_annotation_says_stands_and_ports_are_looked_at_without_one() {
        let default = Ranges::parse("3306");
        let service = |annotations: Value, port: u16| json!({"metadata": {"annotations": annotations}, "spec": {"ports": [{"port": port}]}});
        for (own, port, namespace, expected) in [
            (json!({}), 3306, json!({}), Some("3306")),
            (json!({}), 80, json!({}), None),
            (json!({}), 3306, json!({OPAQUE_PORTS: ""}), Some("")),
            (json!({}), 80, json!({OPAQUE_PORTS: " 1+2"}), Some(" 1+2")),
            (json!({OPAQUE_PORTS: ""}), 3306, json!({OPAQUE_PORTS: "80"}), None),
        ] {
            let patch = json!(patch(
                Kind::Service,
                &service(own.clone(), port),
                namespace.as_object(),
                &default
            ));
            let added = patch
                .as_array()
                .and_then(|operations| operations.last()?["value"].as_str());
            assert_eq!(added, expected, "{own} {port} {namespace}");
        }
    }
}
