//! Values documents from the layers that the cases give.

use outrigger::config::Installation;
use outrigger::config::values::Values;
use outrigger::inject::Prepared;
use serde_json::{Map, Value};

/// The chart's defaults, as Linkerd's tests have them.
pub(crate) fn defaults() -> Value {
    let mut defaults = serde_json::to_value(Values::default()).unwrap();
    defaults["linkerdVersion"] = "dev-undefined".into();
    defaults["debugContainer"]["image"]["version"] = "dev-undefined".into();
    defaults
}

/// Replaces the node at each dotted path.
pub(crate) fn replace(document: &mut Value, layer: &Map<String, Value>) {
    for (path, value) in layer {
        let mut node = &mut *document;
        for part in path.split('.') {
            node = &mut node[part];
        }
        *node = value.clone();
    }
}

/// Lays `over` over `document`: maps are merged, the rest is replaced.
pub(crate) fn merge(document: &mut Value, over: &Value) {
    match (document, over) {
        (Value::Object(map), Value::Object(over)) => {
            for (key, value) in over {
                merge(map.entry(key).or_insert(Value::Null), value);
            }
        }
        (document, over) => *document = over.clone(),
    }
}

/// Removes the node at each dotted path.
pub(crate) fn remove(document: &mut Value, paths: &[Value]) {
    for path in paths {
        let path = path.as_str().unwrap();
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut node = Some(&mut *document);
        for part in parents.split('.').filter(|part| !part.is_empty()) {
            node = node.and_then(|node| node.get_mut(part));
        }
        if let Some(map) = node.and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
}

/// An installation with `document` for its values.
pub(crate) fn installation(document: Value, anchors: Option<&str>) -> Prepared {
    Installation::from_document(document, anchors, "linkerd")
        .unwrap()
        .into()
}
