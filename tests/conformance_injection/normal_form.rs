//! What two answers are compared by: everything but the differences that were decided on.

use outrigger::pod::Quantity;
use serde_json::{Map, Value, json};

/// Where the API server mounts an account's token.
const API_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// `object` without what is not compared: marks of the injector and of the redirection, capabilities and token mounts of
/// injected containers, nulls, empty lists and empty maps. Quantities are written one way.
pub(crate) fn of(object: &Value) -> Value {
    match object {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), field(key, value)));
            Value::Object(injected_container(
                entries.filter(|(key, value)| is_compared(key, value)).collect(),
            ))
        }
        Value::Array(list) => list.iter().map(of).filter(is_filled).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => object.clone(),
    }
}

fn field(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("limits" | "requests", Value::Object(amounts)) => amounts
            .iter()
            .map(|(name, amount)| (name.clone(), quantity(amount)))
            .collect(),
        _ => of(value),
    }
}

/// A quantity as thousandths, rounded up: exact for what the cases hold.
fn quantity(amount: &Value) -> Value {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let thousandths = Quantity::parse(&text.replace('m', "")).and_then(Quantity::ceil);
    match (
        thousandths,
        Quantity::parse(&format!("{text}e3")).and_then(Quantity::ceil),
    ) {
        (Some(thousandths), None) if text.ends_with('m') => thousandths.into(),
        (_, Some(thousandths)) => thousandths.into(),
        _ => text.into(),
    }
}

fn is_compared(key: &str, value: &Value) -> bool {
    let mark = ["linkerd.io/created-by", "linkerd.io/setup-iptables"].contains(&key) || key.starts_with("outrigger");
    // Zeros that typed structures leave out.
    let zero = [
        ("initialDelaySeconds", json!(0)),
        ("hostNetwork", json!(false)),
        ("value", json!("")),
    ]
    .iter()
    .any(|(name, zero)| *name == key && zero == value);
    !mark && !zero && is_filled(value)
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// An injected container without what is compared elsewhere: capabilities, and mounts of the API token.
fn injected_container(mut map: Map<String, Value>) -> Map<String, Value> {
    let injected = map
        .get("name")
        .and_then(Value::as_str)
        .is_some_and(|name| name.starts_with("linkerd-"));
    if !injected || !map.contains_key("image") {
        return map;
    }
    if let Some(context) = map.get_mut("securityContext").and_then(Value::as_object_mut) {
        context.remove("capabilities");
    }
    if let Some(mounts) = map.get_mut("volumeMounts").and_then(Value::as_array_mut) {
        mounts.retain(|mount| mount["mountPath"] != API_TOKEN);
    }
    map.retain(|_, value| is_filled(value));
    map
}

/// The first place where two values differ, for the message of a failed case.
pub(crate) fn difference(ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).find_map(|key| {
            let absent = Value::from("(absent)");
            let found = difference(one.get(key).unwrap_or(&absent), other.get(key).unwrap_or(&absent))?;
            Some(format!("/{key}{found}"))
        }),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            (0..one.len()).find_map(|index| Some(format!("/{index}{}", difference(&one[index], &other[index])?)))
        }
        _ => (ours != theirs).then(|| format!(": ours {ours}, theirs {theirs}")),
    }
}
