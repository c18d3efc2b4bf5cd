//! Further environment variables of the proxy, from the values document and two layers of annotations.

use serde_json::Value;

/// Reads a JSON list of `EnvVar` objects; says what was expected where it is none.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let expected = |why: &str| format!("a JSON list of environment variables ({why})");
    let list: Vec<Value> = serde_json::from_str(text).map_err(|error| expected(&error.to_string()))?;
    match list.iter().all(Value::is_object) {
        true => Ok(list),
        false => Err(expected("an item is no object")),
    }
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
