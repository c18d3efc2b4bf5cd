//! Further environment variables of the proxy, from the values document and two layers of annotations.

use serde_json::Value;
use std::collections::HashMap;

/// Bytes of the longest text that is read: more than that the API server takes in no annotation
/// (`TotalAnnotationSizeLimitB` of Kubernetes), but webhooks come before it looks.
const LONGEST: usize = 256 << 10;

/// Objects of the largest text that is read: each takes hundreds of bytes, and a variable is three at most.
const OBJECTS: usize = 4096;

/// Reads a JSON list of `EnvVar` objects; where it is none, says what is wrong and where, but never what stands there:
/// it may be a secret.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let fault = |why: String| format!("the value is not a JSON list of environment variables ({why})");
    if text.len() > LONGEST || text.bytes().filter(|byte| *byte == b'{').count() > OBJECTS {
        return Err(fault(format!("more than {LONGEST} bytes or {OBJECTS} objects")));
    }
    // No list is an empty one, as it is for Linkerd.
    let list: Option<Vec<Value>> = serde_json::from_str(text)
        .map_err(|error| fault(format!("line {}, column {}", error.line(), error.column())))?;
    let list = list.unwrap_or_default();
    match self::fault(&list) {
        None => Ok(list),
        Some(why) => Err(fault(why)),
    }
}

/// The first of `variables` that the API server cannot decode, and why.
pub(super) fn fault(variables: &[Value]) -> Option<String> {
    let mut numbered = (1..).zip(variables);
    numbered.find_map(|(number, variable)| Some(format!("item {number}: {}", misfit(variable)?)))
}

/// Which field of an `EnvVar` has a type that the API server cannot decode: it would fail the request without naming us.
fn misfit(variable: &Value) -> Option<&'static str> {
    let Some(fields) = variable.as_object() else {
        return Some("no object");
    };
    let text = |key| fields.get(key).is_none_or(|value| value.is_string() || value.is_null());
    if !text("name") {
        return Some("name is no text");
    }
    if !text("value") {
        return Some("value is no text");
    }
    let from = fields.get("valueFrom").filter(|from| !from.is_null())?;
    let fits = |source: &Value| source.is_null() || source.as_object().is_some_and(|it| it.iter().all(fits_source));
    let whole = from.as_object().is_some_and(|sources| sources.values().all(fits));
    (!whole).then_some("valueFrom cannot be read")
}

/// Whether a field of one of `EnvVarSource`'s objects has its type: all but two are texts.
fn fits_source((key, value): (&String, &Value)) -> bool {
    let own = match key.as_str() {
        "optional" => value.is_boolean(),
        "divisor" => value.is_string() || value.is_number(),
        _ => value.is_string(),
    };
    own || value.is_null()
}

/// Lays `layer` over `variables`: a variable replaces one of its name in place, or is appended.
pub(super) fn merge(variables: &mut Vec<Value>, layer: Vec<Value>) {
    let name = |variable: &Value| variable.get("name").cloned();
    let mut places = HashMap::new();
    for (place, variable) in variables.iter().enumerate() {
        places.entry(name(variable)).or_insert(place);
    }
    for variable in layer {
        let place = *places.entry(name(&variable)).or_insert(variables.len());
        match variables.get_mut(place) {
            Some(own) => *own = variable,
            None => variables.push(variable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_cannot_decode_is_named() {
        for (text, why) in [
            ("{}", "line 1, column 0"),
            ("[\n{\"name\": s3cret}]", "line 2, column 10"),
            ("\"s3cret\"", "line 1, column 8"),
            ("[7]", "item 1: no object"),
            (r#"[{"name": "A", "value": 7}]"#, "item 1: value is no text"),
            (
                r#"[{}, {"name": "A", "valueFrom": []}]"#,
                "item 2: valueFrom cannot be read",
            ),
            (
                r#"[{"name": "A", "valueFrom": {"fieldRef": 7}}]"#,
                "item 1: valueFrom cannot be read",
            ),
            (
                r#"[{"name": "A", "valueFrom": {"secretKeyRef": {"s3cret": 7}}}]"#,
                "item 1: valueFrom cannot be read",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("s3cret"), "{text}: {error}");
        }
        for text in [" ".repeat(LONGEST + 1), format!("[{}{{}}]", "{},".repeat(OBJECTS))] {
            assert!(
                parse(&text)
                    .unwrap_err()
                    .contains("more than 262144 bytes or 4096 objects")
            );
        }
        let whole = r#"[{"name": "A", "value": null}, {"name": "B", "valueFrom": {"configMapKeyRef":
            {"name": "c", "key": "k", "optional": true}, "resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}]"#;
        assert_eq!(parse(whole).unwrap().len(), 2);
        assert_eq!(parse("null"), Ok(vec![]));
    }

    #[test]
    fn a_layer_replaces_in_place_and_appends() {
        let list = |text: &str| parse(text).unwrap();
        let mut variables = list(r#"[{"name": "A"}, {"name": "B"}, {"name": "A", "value": "2"}, {}]"#);
        let layer = r#"[{"name": "C"}, {"name": "A", "value": "3"}, {"name": "C", "value": "4"}, {"value": "5"}]"#;
        merge(&mut variables, list(layer));
        let expected = r#"[{"name": "A", "value": "3"}, {"name": "B"}, {"name": "A", "value": "2"}, {"value": "5"},
            {"name": "C", "value": "4"}]"#;
        assert_eq!(variables, list(expected));
    }
}
