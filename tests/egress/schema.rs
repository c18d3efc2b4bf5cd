//! The schema of the resources and the types of the program are the same.

use outrigger::egress::spec::Spec;
use serde_json::{Map, Value, json};

use crate::definitions;

/// A spec with every field.
fn everything() -> Value {
    json!({
        "workloads": {
            "serviceAccounts": ["web"],
            "podSelector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}],
            },
        },
        "hosts": ["a.example"],
        "addresses": ["192.0.2.1"],
        "ports": [{"port": 443, "protocol": "HTTP"}],
        "allowlist": "Enabled",
        "tls": {"mode": "Enforced", "origination": {"port": 8443, "caCertificates": {"configMap": "ca", "key": "tls.crt"}}},
        "telemetry": "Disabled",
        "traceHeaders": "W3C",
        "mode": "Observe",
        "placement": "Gateway",
    })
}

/// Each field of `schema`, as a JSON pointer into a spec, with what describes it.
fn fields(schema: &Value, pointer: &str, found: &mut Vec<(String, Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let pointer = format!("{pointer}/{name}");
        found.push((pointer.clone(), property.clone()));
        fields(property, &pointer, found);
        if property["items"].is_object() {
            let item = format!("{pointer}/0");
            found.push((item.clone(), property["items"].clone()));
            fields(&property["items"], &item, found);
        }
    }
}

/// The names of all fields of `value`, as JSON pointers.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let empty = Map::new();
    let children = value
        .as_object()
        .unwrap_or(&empty)
        .iter()
        .map(|(name, child)| (name.clone(), child));
    let items = value.as_array().into_iter().flatten().enumerate();
    for (name, child) in children.chain(items.map(|(index, child)| (index.to_string(), child))) {
        let pointer = format!("{pointer}/{name}");
        pointers(child, &pointer, found);
        found.push(pointer);
    }
}

#[test]
fn types_and_schema_have_the_same_fields_and_values() {
    let definitions = definitions();
    let version = |definition: &Value| definition["spec"]["versions"][0].clone();
    assert_eq!(
        version(&definitions[0]),
        version(&definitions[1]),
        "the two differ in scope alone"
    );
    let schema = version(&definitions[0])["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    let example = everything();
    let spec: Spec = serde_json::from_value(example.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(&spec).unwrap(),
        example,
        "the types have every field of the example"
    );
    let mut described = Vec::new();
    fields(&schema, "", &mut described);
    let mut written = Vec::new();
    pointers(&example, "", &mut written);
    for pointer in &written {
        // Labels are any.
        let is_described = described.iter().any(|(known, _)| known == pointer) || pointer.contains("/matchLabels/");
        assert!(is_described, "the schema lacks {pointer}");
    }
    let mut values = 0;
    for (pointer, property) in &described {
        assert!(example.pointer(pointer).is_some(), "the types lack {pointer}");
        for value in property["enum"].as_array().into_iter().flatten() {
            let mut other = example.clone();
            *other.pointer_mut(pointer).unwrap() = value.clone();
            let spec: Spec =
                serde_json::from_value(other.clone()).unwrap_or_else(|error| panic!("{pointer} {value}: {error}"));
            assert_eq!(serde_json::to_value(&spec).unwrap(), other);
            values += 1;
        }
        if property["enum"].is_array() {
            let mut other = example.clone();
            *other.pointer_mut(pointer).unwrap() = "Nonsense".into();
            assert!(serde_json::from_value::<Spec>(other).is_err(), "{pointer}");
        }
    }
    assert!(values > 20, "{values}");
}

#[test]
fn types_and_schema_have_the_same_defaults() {
    let schema = definitions()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    let written = serde_json::to_value(Spec::default()).unwrap();
    let defaults = schema["properties"].as_object().unwrap().iter();
    let defaults: Map<_, _> = defaults
        .filter(|(_, property)| !property["default"].is_null())
        .map(|(name, property)| (name.clone(), property["default"].clone()))
        .collect();
    assert_eq!(written, Value::Object(defaults));
    let spec: Spec = serde_json::from_value(json!({
        "ports": [{"port": 1}], "tls": {"origination": {"caCertificates": {"configMap": "ca"}}},
    }))
    .unwrap();
    let written = serde_json::to_value(spec).unwrap();
    let default = |pointer: &str| schema.pointer(pointer).unwrap()["default"].clone();
    assert_eq!(
        written["ports"][0]["protocol"],
        default("/properties/ports/items/properties/protocol")
    );
    let origination = "/properties/tls/properties/origination/properties";
    assert_eq!(
        written["tls"]["origination"]["port"],
        default(&format!("{origination}/port"))
    );
    let key = default(&format!("{origination}/caCertificates/properties/key"));
    assert_eq!(written["tls"]["origination"]["caCertificates"]["key"], key);
}
