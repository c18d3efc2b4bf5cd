//! Values: each is in the schema, has a comment in `values.yaml`, and stands in the table of the chart's README, which is
//! made of the three.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::cluster::repository;
use crate::written::is_or_becomes;

/// A value of a chart.
#[derive(Debug)]
struct Documented {
    /// Its key, dotted.
    key: String,
    /// The comment above it.
    comment: String,
}

fn read(chart: &str, file: &str) -> String {
    fs::read_to_string(repository().join("charts").join(chart).join(file)).unwrap()
}

/// The keys of `values.yaml` with the comments above them, in order; what belongs to a list has none.
fn documented(text: &str) -> Vec<Documented> {
    let mut found = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let depth = line.len() - content.len();
        if let Some(words) = content.strip_prefix("# ") {
            comment.push(words);
            continue;
        }
        match content.split_once(':').filter(|_| !content.starts_with("- ")) {
            Some((key, _)) => {
                parents.retain(|(parent, _)| *parent < depth);
                parents.push((depth, key.to_owned()));
                let keys: Vec<_> = parents.iter().map(|(_, key)| key.as_str()).collect();
                found.push(Documented {
                    key: keys.join("."),
                    comment: comment.join(" "),
                });
                comment.clear();
            }
            // An empty line ends what is said of the file as a whole.
            None => comment.clear(),
        }
    }
    found
}

/// Each value that the schema describes, dotted, with what describes it; what has resources or labels is one value.
fn described(schema: &Value) -> Vec<(String, Value)> {
    fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(pointer) => root
                .pointer(pointer.trim_start_matches('#'))
                .expect("references are good"),
            None => schema,
        }
    }
    fn visit(root: &Value, schema: &Value, key: &str, found: &mut Vec<(String, Value)>) {
        for (name, property) in schema["properties"].as_object().unwrap() {
            let key = if key.is_empty() {
                name.clone()
            } else {
                format!("{key}.{name}")
            };
            let property_resolved = resolved(root, property);
            let is_whole = property["$ref"] == "#/definitions/resources" || property_resolved["properties"].is_null();
            found.push((key.clone(), property_resolved.clone()));
            if !is_whole && key != "seLinuxOptions" {
                visit(root, property_resolved, &key, found);
            }
        }
    }
    let mut found = Vec::new();
    visit(schema, schema, "", &mut found);
    found
}

/// What may stand there, in words.
fn allowed(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let words: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap()))
            .collect();
        return words.join(", ");
    }
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    let kind = schema["type"].as_str().unwrap();
    match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
        (Some(least), Some(most)) => format!("{kind}, {least} to {most}"),
        (Some(least), None) => format!("{kind}, at least {least}"),
        _ => kind.to_owned(),
    }
}

fn table(chart: &str) -> String {
    let text = read(chart, "values.yaml");
    let defaults: Value = serde_saphyr::from_str(&text).unwrap();
    let schema: Value = serde_json::from_str(&read(chart, "values.schema.json")).unwrap();
    let described = described(&schema);
    let mut rows = "| value | default | may be | what |\n|---|---|---|---|\n".to_owned();
    for value in documented(&text) {
        let Some((_, schema)) = described.iter().find(|(key, _)| *key == value.key) else {
            continue;
        };
        if described
            .iter()
            .any(|(key, _)| key.starts_with(&format!("{}.", value.key)))
        {
            continue;
        }
        let pointer = format!("/{}", value.key.replace('.', "/"));
        let default = defaults.pointer(&pointer).unwrap();
        let key = &value.key;
        let (may_be, what) = (allowed(schema), &value.comment);
        writeln!(rows, "| `{key}` | `{default}` | {may_be} | {what} |").unwrap();
    }
    rows
}

#[test]
fn every_value_is_in_the_schema_and_every_part_of_the_schema_is_a_value_with_a_comment() {
    for chart in ["outrigger", "outrigger-cni"] {
        let documented = documented(&read(chart, "values.yaml"));
        let schema: Value = serde_json::from_str(&read(chart, "values.schema.json")).unwrap();
        let described = described(&schema);
        assert!(described.len() > 30, "{chart}");
        for (key, _) in &described {
            let value = documented.iter().find(|value| value.key == *key);
            let value = value.unwrap_or_else(|| panic!("{chart}: {key} is in the schema alone"));
            assert!(value.comment.ends_with('.'), "{chart}: {key} has no comment: {value:?}");
        }
        for value in &documented {
            let whole = |key: &str| value.key == key || value.key.starts_with(&format!("{key}."));
            assert!(
                described.iter().any(|(key, _)| whole(key)),
                "{chart}: the schema does not know {}",
                value.key
            );
        }
    }
}

/// The program checks as much of a schema as it knows: what else stood there would be checked by helm alone.
#[test]
fn the_schemas_use_what_the_program_checks() {
    const KNOWN: [&str; 17] = [
        "$schema",
        "$ref",
        "additionalProperties",
        "definitions",
        "enum",
        "items",
        "maximum",
        "minItems",
        "uniqueItems",
        "minimum",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "object",
        "array",
    ];
    fn visit(schema: &Value) {
        for (key, value) in schema.as_object().unwrap() {
            assert!(KNOWN.contains(&key.as_str()), "{key}");
            match key.as_str() {
                "properties" | "definitions" => value.as_object().unwrap().values().for_each(visit),
                "items" | "additionalProperties" if value.is_object() => visit(value),
                _ => {}
            }
        }
        let is_object = schema["type"] == "object";
        assert!(
            !is_object || schema["properties"].is_null() || schema["additionalProperties"] == false,
            "{schema}"
        );
    }
    for chart in ["outrigger", "outrigger-cni"] {
        visit(&serde_json::from_str(&read(chart, "values.schema.json")).unwrap());
    }
}

#[test]
fn the_table_of_each_readme_is_up_to_date() {
    for chart in ["outrigger", "outrigger-cni"] {
        let readme = read(chart, "README.md");
        let (before, rest) = readme.split_once("<!-- values -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- /values -->").unwrap();
        let wanted = format!("{before}<!-- values -->\n{}<!-- /values -->{after}", table(chart));
        is_or_becomes(&format!("charts/{chart}/README.md"), &wanted);
    }
}

#[test]
fn versions_are_those_of_the_program() {
    for chart in ["outrigger", "outrigger-cni"] {
        let description: Value = serde_saphyr::from_str(&read(chart, "Chart.yaml")).unwrap();
        assert_eq!(description["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(description["appVersion"], env!("CARGO_PKG_VERSION"));
    }
}
