//! Values against the schema of a chart: as much of JSON Schema (draft 7) as our schemas use, each problem with the key,
//! the value, and what is allowed in its place.

use regex::Regex;
use serde_json::Value;

/// What is wrong with `values`, in the order of keys; nothing where all is well.
pub(super) fn problems(schema: &Value, values: &Value) -> Vec<String> {
    let mut checker = Checker {
        root: schema,
        problems: Vec::new(),
    };
    checker.check(schema, values, "");
    checker.problems
}

struct Checker<'a> {
    root: &'a Value,
    problems: Vec<String>,
}

impl<'a> Checker<'a> {
    fn check(&mut self, schema: &'a Value, value: &Value, key: &str) {
        let schema = self.resolve(schema);
        if !is_of_type(schema, value) {
            self.refuse(key, value, &expected(schema));
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    self.check_property(schema, name, value, key);
                }
                let required = schema.get("required").and_then(Value::as_array);
                let missing = required.into_iter().flatten().filter_map(Value::as_str);
                for name in missing.filter(|name| !map.contains_key(*name)) {
                    self.problems.push(format!("{}: missing", below(key, name)));
                }
            }
            Value::Array(list) => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or_default();
                if u64::try_from(list.len()).is_ok_and(|length| length < least) {
                    self.refuse(key, value, &format!("at least {least} of them"));
                }
                let is_set = schema.get("uniqueItems").and_then(Value::as_bool) == Some(true);
                let stands_twice = |(index, element): (usize, &Value)| list.iter().take(index).any(|it| it == element);
                if is_set && list.iter().enumerate().any(stands_twice) {
                    self.refuse(key, value, "each of them once");
                }
                if let Some(items) = schema.get("items") {
                    for (index, element) in list.iter().enumerate() {
                        self.check(items, element, &format!("{key}[{index}]"));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                if !is_allowed(schema, value) {
                    self.refuse(key, value, &expected(schema));
                }
            }
        }
    }

    fn check_property(&mut self, schema: &'a Value, name: &str, value: &Value, key: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let known = properties.and_then(|properties| properties.get(name));
        let others = schema.get("additionalProperties");
        match known.or(others) {
            Some(Value::Bool(false)) => {
                let names: Vec<_> = properties
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                self.problems.push(format!(
                    "{}: there is no such key; expected one of {}",
                    below(key, name),
                    names.join(", ")
                ));
            }
            Some(schema) => self.check(schema, value, &below(key, name)),
            None => {}
        }
    }

    /// What a reference stands for.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let pointer = schema.get("$ref").and_then(Value::as_str);
        let target = pointer.and_then(|pointer| self.root.pointer(pointer.trim_start_matches('#')));
        target.unwrap_or(schema)
    }

    fn refuse(&mut self, key: &str, value: &Value, expected: &str) {
        self.problems
            .push(format!("{key}: {value} is not allowed: expected {expected}"));
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    types(schema).is_empty() || types(schema).iter().any(|name| is_a(name, value))
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// Whether a scalar of the right type is one of those that are allowed.
fn is_allowed(schema: &Value, value: &Value) -> bool {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return allowed.contains(value);
    }
    let bound = |name| schema.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        return bound("minimum").is_none_or(|least| number >= least)
            && bound("maximum").is_none_or(|most| number <= most);
    }
    match (schema.get("pattern").and_then(Value::as_str), value.as_str()) {
        (Some(pattern), Some(text)) => Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text)),
        _ => true,
    }
}

/// What is allowed, in words.
fn expected(schema: &Value) -> String {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        return format!("one of {}", words.join(", "));
    }
    if let Some(title) = schema.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    let types = types(schema).join(" or ");
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!("{types} from {least} to {most}"),
        (Some(least), None) => format!("{types}, at least {least}"),
        _ => types,
    }
}

fn below(key: &str, name: &str) -> String {
    match key {
        "" => name.to_owned(),
        key => format!("{key}.{name}"),
    }
}
