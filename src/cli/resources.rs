//! What `inject` and `uninject` have in common: documents in, each resource changed on its own, documents out.

use super::input::Input;
use super::printable_line;
use crate::pod::manifest::{self, Document};
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;
use std::fmt;

/// How documents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML, each document followed by a separator; what nothing changed is written as it came.
    Yaml,
    /// JSON, one document a line.
    Json,
}

/// What became of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    kind: String,
    name: String,
    outcome: Outcome,
    warnings: Vec<String>,
}

/// What became of a resource, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It got the proxy, or the annotations with which it will get one.
    Injected,
    /// It got annotations that others inherit or read.
    Annotated,
    /// Injection was taken out of it.
    Uninjected,
    /// It stays as it is.
    Skipped,
}

impl Report {
    /// The report on `object`.
    fn new(object: &Value, outcome: Outcome, warnings: Vec<String>) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = ["/metadata/name", "/metadata/generateName"]
            .map(text)
            .into_iter()
            .find(|name| !name.is_empty());
        Self {
            kind: printable_line(&text("/kind").to_lowercase()),
            name: printable_line(name.unwrap_or_default()),
            outcome,
            warnings,
        }
    }

    /// What its author should know, one sentence each, the resource named.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let warning = |text| format!("{}/{}: {text}", self.kind, self.name);
        self.warnings.iter().map(warning)
    }
}

impl fmt::Display for Report {
    /// Linkerd's summary line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return f.write_str("document missing \"kind\" field, skipped");
        }
        let word = match self.outcome {
            Outcome::Injected => "injected",
            Outcome::Annotated => "annotated",
            Outcome::Uninjected => "uninjected",
            Outcome::Skipped => "skipped",
        };
        write!(f, "{} \"{}\" {word}", self.kind, self.name)
    }
}

/// A resource after the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The resource.
    pub value: Value,
    /// What became of it.
    pub outcome: Outcome,
    /// What its author should know, one sentence each.
    pub warnings: Vec<String>,
}

impl Changed {
    /// A change that nobody need be warned of.
    pub fn new(value: Value, outcome: Outcome) -> Self {
        Self {
            value,
            outcome,
            warnings: Vec::new(),
        }
    }
}

/// A resource after the change, or why it cannot be changed.
pub type Change = Result<Changed, String>;

/// Everything that came of the inputs.
#[derive(Debug, Default)]
pub(super) struct Transformed {
    /// The documents.
    pub(super) text: String,
    /// One report a resource.
    pub(super) reports: Vec<Report>,
    /// What could not be changed, one sentence a resource.
    pub(super) errors: Vec<String>,
}

impl Transformed {
    /// Prints the documents, and what became of each resource.
    pub(super) fn print(&self) -> Result<()> {
        super::print(&self.text)?;
        for warning in self.reports.iter().flat_map(Report::warnings) {
            super::warn(&warning);
        }
        let summary: Vec<_> = self.reports.iter().map(ToString::to_string).collect();
        super::note(&format!("{}\n", summary.join("\n")));
        Ok(())
    }
}

/// Applies `change` to every resource of `inputs`.
pub(super) fn transform(inputs: &[Input], format: Format, change: impl Fn(&Value) -> Change) -> Result<Transformed> {
    let mut all = Transformed::default();
    for Input { name, text } in inputs {
        for document in manifest::read(text).with_context(|| name.clone())? {
            let changed = match change_document(&document.value, &change, &mut all.reports) {
                Ok(changed) => changed,
                Err(errors) => {
                    all.errors.extend(errors);
                    continue;
                }
            };
            all.text += &write(&document, &changed, format).with_context(|| name.clone())?;
        }
    }
    Ok(all)
}

/// Changes a document, the items of a `List` one by one. What is no resource stays as it is.
pub fn change_document(
    value: &Value,
    change: &impl Fn(&Value) -> Change,
    reports: &mut Vec<Report>,
) -> Result<Value, Vec<String>> {
    let is_list = value.get("kind").is_some_and(|kind| kind == "List");
    let Some(items) = value.get("items").and_then(Value::as_array).filter(|_| is_list) else {
        let changed = change(value).map_err(|error| vec![error])?;
        reports.push(Report::new(value, changed.outcome, changed.warnings));
        return Ok(changed.value);
    };
    let (mut changed, mut errors) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        match change_document(item, change, reports) {
            Ok(item) => changed.push(item),
            Err(more) => errors.extend(more),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut list = value.clone();
    if let Some(items) = list.get_mut("items") {
        *items = changed.into();
    }
    Ok(list)
}

fn write(document: &Document<'_>, value: &Value, format: Format) -> Result<String> {
    let mut text = match format {
        Format::Json if value.is_null() => return Ok(String::new()),
        Format::Json => return Ok(manifest::to_json(value)),
        Format::Yaml if *value == document.value => document.text.to_owned(),
        Format::Yaml => manifest::to_yaml(value)?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("---\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Renames what is called `old`, and refuses what is called `bad`.
    fn rename(object: &Value) -> Change {
        match object.pointer("/metadata/name").and_then(Value::as_str) {
            Some("old") => {
                let mut renamed = object.clone();
                renamed["metadata"]["name"] = json!("new");
                Ok(Changed::new(renamed, Outcome::Annotated))
            }
            Some("bad") => Err("bad name".to_owned()),
            _ => Ok(Changed::new(object.clone(), Outcome::Skipped)),
        }
    }

    fn transformed(text: &str, format: Format) -> Transformed {
        let (name, text) = ("app.yaml".to_owned(), text.to_owned());
        transform(&[Input { name, text }], format, rename).unwrap()
    }

    #[test]
    fn what_nothing_changed_is_written_as_it_came() {
        let text = "# nothing\n---\nkind:   Foo # odd\n---\nkind: Bar\nmetadata: {name: old}";
        let all = transformed(text, Format::Yaml);
        assert_eq!(
            all.text,
            "# nothing\n---\nkind:   Foo # odd\n---\nkind: Bar\nmetadata:\n  name: new\n---\n"
        );
        let reports: Vec<_> = all.reports.iter().map(ToString::to_string).collect();
        assert_eq!(
            reports,
            [
                "document missing \"kind\" field, skipped",
                "foo \"\" skipped",
                "bar \"old\" annotated"
            ]
        );
        let json = transformed(text, Format::Json).text;
        assert_eq!(
            json,
            "{\"kind\":\"Foo\"}\n{\"kind\":\"Bar\",\"metadata\":{\"name\":\"new\"}}\n"
        );
    }

    #[test]
    fn lists_are_changed_item_by_item() {
        let list = |names: [&str; 3]| {
            let items = names.map(|name| json!({"kind": "Foo", "metadata": {"name": name}}));
            json!({"kind": "List", "apiVersion": "v1", "items": items, "other": 1}).to_string()
        };
        let all = transformed(&list(["a", "old", "b"]), Format::Json);
        assert_eq!(all.text, list(["a", "new", "b"]) + "\n");
        assert_eq!(all.reports.len(), 3);
        let all = transformed(&list(["bad", "old", "bad"]), Format::Json);
        assert_eq!(all.errors, ["bad name", "bad name"]);
        assert!(all.text.is_empty());
    }

    #[test]
    fn errors_name_the_file() {
        let input = Input {
            name: "app.yaml".to_owned(),
            text: "a: b: c".to_owned(),
        };
        let error = format!("{:#}", transform(&[input], Format::Yaml, rename).unwrap_err());
        assert!(error.starts_with("app.yaml: mapping values are not allowed"), "{error}");
    }
}
