//! Objects on paper: YAML with comments, or JSON.

use super::site::Format;
use crate::cli::{print, printable_line};
use crate::pod::manifest;
use crate::policy::needs::{Note, Tailored};
use anyhow::Result;
use serde_json::{Value, json};

/// One object, and what stands above it.
pub(super) struct Sheet {
    /// Sentences about the whole object.
    pub(super) head: Vec<String>,
    pub(super) content: Tailored,
}

impl From<Value> for Sheet {
    fn from(object: Value) -> Self {
        Self {
            head: Vec::new(),
            content: Tailored {
                object,
                notes: Vec::new(),
            },
        }
    }
}

/// Prints `sheets` in order.
pub(super) fn print_all(sheets: &[Sheet], format: Format) -> Result<()> {
    match format {
        Format::Json => {
            let items: Vec<_> = sheets.iter().map(|sheet| &sheet.content.object).collect();
            print(&manifest::to_json(
                &json!({"apiVersion": "v1", "kind": "List", "items": items}),
            ))
        }
        Format::Yaml => {
            let documents: Result<Vec<_>> = sheets.iter().map(Sheet::to_yaml).collect();
            print(&documents?.join("---\n"))
        }
    }
}

impl Sheet {
    fn to_yaml(&self) -> Result<String> {
        let head: String = self.head.iter().map(|text| comment(0, text)).collect();
        let body = commented(&manifest::to_yaml(&self.content.object)?, &self.content.notes);
        Ok(head + &body)
    }
}

/// `yaml`, a mapping in block style, with each note above the field that it is about.
fn commented(yaml: &str, notes: &[Note]) -> String {
    let mut text = String::with_capacity(yaml.len());
    // The keys above the line, each with its indentation.
    let mut path: Vec<(usize, &str)> = Vec::new();
    for line in yaml.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let key = content.split_once(':').map(|(key, _)| key.trim_matches(['"', '\'']));
        if let Some(key) = key.filter(|_| !content.starts_with("- ")) {
            path.retain(|(above, _)| *above < indent);
            path.push((indent, key));
            let here = |note: &&Note| {
                note.path
                    .iter()
                    .map(String::as_str)
                    .eq(path.iter().map(|(_, key)| *key))
            };
            for note in notes.iter().filter(here) {
                text.push_str(&comment(indent, &note.text));
            }
        }
        text.push_str(line);
    }
    text
}

/// A comment on a line of its own: what is quoted from a manifest must not end it.
fn comment(indent: usize, text: &str) -> String {
    format!("{:indent$}# {}\n", "", printable_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(path: &[&str], text: &str) -> Note {
        Note {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn notes_stand_above_their_fields_and_change_no_value() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x: y", "spec": "z"}},
            "spec": {"list": ["spec: no", {"list": 1}], "yes": "\nspec:\n  list: 2\n"},
        });
        let notes = [
            note(&["metadata", "annotations", "a.b/c"], "first"),
            note(&["spec", "list"], "second\nspec: {}"),
            note(&["spec", "list"], "third\u{85}"),
            note(&["spec", "yes"], "fourth"),
        ];
        let text = commented(&manifest::to_yaml(&object).unwrap(), &notes);
        assert_eq!(manifest::read(&text).unwrap()[0].value, object);
        let lines: Vec<_> = text.lines().collect();
        let above = |line: &str| lines[lines.iter().position(|it| *it == line).unwrap() - 1];
        assert_eq!(above(r#"    a.b/c: "x: y""#), "    # first");
        assert_eq!(above("  list:"), r"  # third\u{85}");
        assert!(lines.contains(&r"  # second\nspec: {}"));
        assert_eq!(text.matches("fourth").count(), 1);
    }
}
