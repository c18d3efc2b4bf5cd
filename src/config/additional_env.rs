//! Further environment variables of the proxy, from the values document and two layers of annotations.

use serde_json::Value;

/// Reads a JSON list of `EnvVar` objects; says what was expected where it is none.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let expected = |why: &str| format!("a JSON list of environment variables ({why})");
    let list: Vec<Value> = serde_json::from_str(text).map_err(|error| expected(&error.to_string()))?;
    match list.iter().find_map(misfit) {
        None => Ok(list),
        Some(why) => Err(expected(&why)),
    }
}

/// Which field of an `EnvVar` has a type that the API server cannot decode: it would fail the request without naming us.
fn misfit(variable: &Value) -> Option<String> {
    let Some(fields) = variable.as_object() else {
        return Some("an item is no object".to_owned());
    };
    for key in ["name", "value"] {
        if !fields.get(key).is_none_or(|value| value.is_string() || value.is_null()) {
            return Some(format!("{key} is no text"));
        }
    }
    let from = fields.get("valueFrom").filter(|from| !from.is_null())?;
    let Some(sources) = from.as_object() else {
        return Some("valueFrom is no object".to_owned());
    };
    for (name, source) in sources {
        let fits = source.is_null() || source.as_object().is_some_and(|fields| fields.iter().all(fits_source));
        if !fits {
            return Some(format!("valueFrom.{name} cannot be read"));
        }
    }
    None
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
    for variable in layer {
        match variables.iter_mut().find(|own| own.get("name") == variable.get("name")) {
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
            ("{}", "invalid type: map"),
            ("[7]", "an item is no object"),
            (r#"[{"name": "A", "value": 7}]"#, "value is no text"),
            (r#"[{"name": "A", "valueFrom": []}]"#, "valueFrom is no object"),
            (
                r#"[{"name": "A", "valueFrom": {"fieldRef": 7}}]"#,
                "valueFrom.fieldRef cannot be read",
            ),
            (
                r#"[{"name": "A", "valueFrom": {"secretKeyRef": {"key": 7}}}]"#,
                "valueFrom.secretKeyRef cannot be read",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let whole = r#"[{"name": "A", "value": null}, {"name": "B", "valueFrom": {"configMapKeyRef":
            {"name": "c", "key": "k", "optional": true}, "resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}]"#;
        assert_eq!(parse(whole).unwrap().len(), 2);
    }
}
