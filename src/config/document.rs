//! The values document as a tree: laid over others, and brought into the shape that the chart gives it.
//!
//! Linkerd reads a document leniently: keys in any case, scalars of another type where a text belongs. This is lenient in
//! the same places, and where a key is missing.

use super::values::Values;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The document that holds every key with its default.
pub(super) static DEFAULTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(Values::default()).unwrap_or_default());

/// Maps whose keys are of the operator's own choosing: one that is there is taken as it is.
const OPEN: [&str; 3] = ["/proxy/inbound", "/proxy/outbound", "/proxy/tracing/labels"];

/// Lists of environment variables.
const VARIABLES: [&str; 2] = ["/proxy/additionalEnv", "/proxy/experimentalEnv"];

/// The defaults, with nothing in open maps.
static SHAPE: LazyLock<Value> = LazyLock::new(|| {
    let mut shape = DEFAULTS.clone();
    for path in OPEN {
        if let Some(open) = shape.pointer_mut(path) {
            *open = Value::Object(Map::new());
        }
    }
    shape
});

/// Lays `over` over `base`: mappings are merged, everything else is replaced, as Helm merges values files.
pub(super) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Gives keys the chart's spelling and scalars their type, and takes out nulls, which mean the chart's default.
pub(super) fn normalise(document: &mut Value) {
    fold(document, &SHAPE);
    clear(document);
    strip_nulls(document);
    coerce(document, &SHAPE);
    if let Some(Value::Object(labels)) = document.pointer_mut("/proxy/tracing/labels") {
        labels.values_mut().for_each(make_text);
    }
    for path in VARIABLES {
        let variables = document.pointer_mut(path).and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten() {
            for field in ["name", "value"] {
                variable.get_mut(field).into_iter().for_each(make_text);
            }
        }
    }
}

/// The document with the chart's default in the place of every key that is missing.
pub(super) fn completed(document: &Value) -> Value {
    let mut completed = document.clone();
    complete(&mut completed, &SHAPE, &DEFAULTS);
    completed
}

fn complete(value: &mut Value, shape: &Value, defaults: &Value) {
    let (Value::Object(map), Value::Object(shape)) = (value, shape) else {
        return;
    };
    for (key, shape) in shape {
        let default = defaults.get(key).unwrap_or(&Value::Null);
        match map.get_mut(key) {
            Some(value) => complete(value, shape, default),
            None => {
                map.insert(key.clone(), default.clone());
            }
        }
    }
}

/// Where a list stands in the place of a mapping, as a dotted key. The decoder would take it for the mapping's values.
pub(super) fn misplaced_list(document: &Value) -> Option<String> {
    fn find(value: &Value, shape: &Value) -> Option<String> {
        let shape = shape.as_object()?;
        if value.is_array() {
            return Some(String::new());
        }
        value.as_object()?.iter().find_map(|(key, value)| {
            let within = find(value, shape.get(key)?)?;
            Some(format!("{key}.{within}"))
        })
    }
    find(document, &SHAPE).map(|key| key.trim_end_matches('.').to_owned())
}

/// Gives keys that differ from the chart's in case alone its spelling. Of several the last in byte order counts, as it does
/// for Go's decoder, which the document reaches with its keys sorted.
fn fold(value: &mut Value, shape: &Value) {
    let (Value::Object(map), Value::Object(shape)) = (value, shape) else {
        return;
    };
    let strays: Vec<String> = map.keys().filter(|key| !shape.contains_key(*key)).cloned().collect();
    for stray in strays {
        let Some(known) = shape.keys().find(|known| known.eq_ignore_ascii_case(&stray)) else {
            continue;
        };
        let Some(value) = map.remove(&stray) else { continue };
        let (mut base, over) = match map.remove(known) {
            None => (Value::Null, value),
            Some(own) if stray > *known => (own, value),
            Some(own) => (value, own),
        };
        merge(&mut base, over);
        map.insert(known.clone(), base);
    }
    for (key, value) in map {
        if let Some(shape) = shape.get(key) {
            fold(value, shape);
        }
    }
}

/// A null where parameters of the proxy or the timeouts of its control streams belong clears them, as it does for Linkerd:
/// the proxy uses its own. Every other null takes the chart's default, where Linkerd's template would mostly fail.
fn clear(document: &mut Value) {
    let Some(Value::Object(proxy)) = document.get_mut("proxy") else {
        return;
    };
    for direction in ["inbound", "outbound"] {
        if let Some(parameters @ Value::Null) = proxy.get_mut(direction) {
            *parameters = Value::Object(Map::new());
        }
    }
    let control = proxy.get("control");
    if [control, control.and_then(|control| control.get("streams"))].contains(&Some(&Value::Null)) {
        let empty = ["initialTimeout", "idleTimeout", "lifetime"].map(|timeout| (timeout.to_owned(), Value::from("")));
        let streams = Value::Object(empty.into_iter().collect());
        let control = Map::from_iter([("streams".to_owned(), streams)]);
        proxy.insert("control".to_owned(), Value::Object(control));
    }
}

fn strip_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(strip_nulls);
    }
}

/// Rewrites scalars as the type that `shape` has in their place: `version: 2.14` is a text, `uid: "2102"` a number.
/// What cannot be rewritten stays, for the decoder to refuse.
fn coerce(value: &mut Value, shape: &Value) {
    match (&mut *value, shape) {
        (Value::Object(map), Value::Object(shape)) => {
            for (key, value) in map {
                if let Some(shape) = shape.get(key) {
                    coerce(value, shape);
                }
            }
        }
        (_, Value::String(_)) => make_text(value),
        (Value::String(text), Value::Number(_) | Value::Bool(_)) => {
            if let Ok(scalar @ (Value::Number(_) | Value::Bool(_))) = serde_json::from_str(text) {
                *value = scalar;
            }
        }
        _ => {}
    }
}

/// A number or a boolean as it is written.
fn make_text(value: &mut Value) {
    if let Value::Number(_) | Value::Bool(_) = value {
        *value = Value::String(value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn normal(mut document: Value) -> Value {
        normalise(&mut document);
        document
    }

    #[test]
    fn scalars_become_texts_wherever_texts_belong() {
        let variables =
            json!([{"name": 1, "value": true}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": 1}}}, 5]);
        let proxy = json!({"tracing": {"labels": {"a": 1, "b": "x"}}, "additionalEnv": variables, "logLevel": 1.5});
        let variables =
            json!([{"name": "1", "value": "true"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": 1}}}, 5]);
        let expected =
            json!({"tracing": {"labels": {"a": "1", "b": "x"}}, "additionalEnv": variables, "logLevel": "1.5"});
        assert_eq!(normal(json!({"proxy": proxy})), json!({"proxy": expected}));
    }

    #[test]
    fn keys_count_in_any_case_and_the_last_in_byte_order_wins() {
        for (document, expected) in [
            (json!({"PROXY": {"UID": 1}}), json!({"proxy": {"uid": 1}})),
            (
                json!({"proxy": {"logLevel": "a", "loglevel": "b"}}),
                json!({"proxy": {"logLevel": "b"}}),
            ),
            (
                json!({"proxy": {"logLevel": "a", "LogLevel": "b"}}),
                json!({"proxy": {"logLevel": "a"}}),
            ),
            (
                json!({"Proxy": {"uid": 1, "gid": 1}, "proxy": {"uid": 2}}),
                json!({"proxy": {"uid": 2, "gid": 1}}),
            ),
        ] {
            assert_eq!(normal(document.clone()), expected, "{document}");
        }
        let own = json!({"proxy": {"inbound": {"Server": {}}, "securityContext": {"RunAsUser": 1}}, "Other": 1});
        assert_eq!(normal(own.clone()), own);
    }

    #[test]
    fn a_null_clears_what_the_proxy_has_defaults_of_its_own_for() {
        let proxy = json!({"inbound": null, "control": {"streams": null}, "uid": null, "outbound": {"a": null}});
        let streams = json!({"initialTimeout": "", "idleTimeout": "", "lifetime": ""});
        let expected = json!({"inbound": {}, "control": {"streams": streams}, "outbound": {}});
        assert_eq!(normal(json!({"proxy": proxy})), json!({"proxy": expected}));
    }

    #[test]
    fn what_is_missing_within_a_section_is_the_sections_default() {
        let proxy = json!({"image": {"version": "v2"}, "livenessProbe": {"timeoutSeconds": 5}, "inbound": {"a": {}}});
        let completed = completed(&json!({"proxy": proxy, "debugContainer": {"image": {"version": "d"}}}));
        for (path, expected) in [
            (
                "/proxy/image",
                json!({"name": "cr.l5d.io/linkerd/proxy", "version": "v2", "pullPolicy": ""}),
            ),
            (
                "/proxy/livenessProbe",
                json!({"initialDelaySeconds": 10, "timeoutSeconds": 5}),
            ),
            ("/proxy/inbound", json!({"a": {}})),
            ("/debugContainer/image/name", json!("cr.l5d.io/linkerd/debug")),
        ] {
            assert_eq!(completed.pointer(path), Some(&expected), "{path}");
        }
        assert_eq!(super::completed(&json!({})), *DEFAULTS);
    }

    #[test]
    fn a_list_is_no_mapping() {
        for (document, key) in [
            (json!({"proxy": []}), Some("proxy")),
            (json!({"proxy": {"ports": [1]}}), Some("proxy.ports")),
            (json!({"proxy": {"additionalEnv": [], "inbound": {"a": []}}}), None),
        ] {
            assert_eq!(misplaced_list(&document).as_deref(), key, "{document}");
        }
    }
}
