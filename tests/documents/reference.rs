//! `docs/reference/`: made of the lists that the code itself uses.

use crate::codes;
use crate::pages::{printed, read, spans};
use crate::written::is_or_becomes;
use outrigger::config::values::Values;
use outrigger::config::{Described, annotations};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Where pages say that nobody should edit them.
const MADE: &str = "<!-- Made of the code by `make manifests`. -->\n";

/// A value in a table.
fn cell(value: &Value) -> String {
    match value.as_str() {
        Some("") => "–".to_owned(),
        Some(text) => format!("`{text}`"),
        None => format!("`{value}`"),
    }
}

#[test]
fn annotations_are_up_to_date() {
    let defaults = serde_json::to_value(Values::default()).unwrap();
    let mut page = read_head("annotations");
    page += "| annotation | accepted | a value that is not | inherited | value that it overrides | default |\n|---|---|---|---|---|---|\n";
    for Described {
        annotation,
        values_key,
        inherited,
        accepted,
        denies,
    } in annotations()
    {
        let otherwise = match (denies, accepted.as_str()) {
            (true, _) => "denied",
            (false, "text") => "–",
            (false, accepted) if accepted.starts_with("anything") => "–",
            (false, _) => "ignored",
        };
        let inherited = if inherited { "yes" } else { "no" };
        let (key, default) = match values_key {
            "" => ("–".to_owned(), "–".to_owned()),
            key => {
                let default = defaults.pointer(&format!("/{}", key.replace('.', "/")));
                (format!("`{key}`"), default.map_or_else(|| "–".to_owned(), cell))
            }
        };
        writeln!(
            page,
            "| `{annotation}` | {accepted} | {otherwise} | {inherited} | {key} | {default} |"
        )
        .unwrap();
    }
    is_or_becomes("docs/reference/annotations.md", &page);
}

#[test]
fn values_are_up_to_date() {
    fn visit(value: &Value, key: &str, rows: &mut Vec<(String, String)>) {
        match value.as_object().filter(|map| !map.is_empty()) {
            Some(map) => {
                for (name, value) in map {
                    let key = if key.is_empty() {
                        name.clone()
                    } else {
                        format!("{key}.{name}")
                    };
                    visit(value, &key, rows);
                }
            }
            None => rows.push((key.to_owned(), cell(value))),
        }
    }
    let mut rows = Vec::new();
    visit(&serde_json::to_value(Values::default()).unwrap(), "", &mut rows);
    let mut overriding: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in annotations() {
        overriding
            .entry(row.values_key)
            .or_default()
            .push(format!("`{}`", row.annotation));
    }
    let mut page = read_head("values");
    page += "| key | default | annotation that overrides it |\n|---|---|---|\n";
    for (key, default) in rows {
        let by = overriding
            .get(key.as_str())
            .map_or_else(|| "–".to_owned(), |by| by.join(", "));
        writeln!(page, "| `{key}` | {default} | {by} |").unwrap();
    }
    is_or_becomes("docs/reference/values.md", &page);
}

#[test]
fn codes_are_up_to_date() {
    let mut page = read_head("codes");
    page += "| code | what it is | read on |\n|---|---|---|\n";
    for code in codes::all() {
        let codes::Code {
            word,
            kind,
            page: place,
        } = code;
        let title = place.split(".md").next().unwrap();
        writeln!(page, "| `{word}` | {kind} | [{title}](../{place}) |").unwrap();
    }
    is_or_becomes("docs/reference/codes.md", &page);
}

/// What people wrote at the beginning of a page: everything up to its table.
fn read_head(page: &str) -> String {
    let text = read(&format!("docs/reference/{page}.md"));
    let (head, _) = text.split_once(MADE).unwrap();
    format!("{head}{MADE}")
}

/// The names that the sources register are those that the pages have.
#[test]
fn metrics_of_agent_probe_and_controller_are_documented() {
    let sides = [
        ("src/cni/agent/metrics.rs", "outrigger_cni_", "docs/cni-agent.md"),
        ("src/cluster/probe/metrics.rs", "outrigger_probe_", "docs/probe.md"),
        (
            "src/cluster/egress/metrics.rs",
            "outrigger_egress_controller_",
            "docs/egress.md",
        ),
    ];
    for (source, prefix, page) in sides {
        let code = read(source).split_whitespace().collect::<Vec<_>>().join(" ");
        let calls = code.split("registry.register").skip(1);
        let names: BTreeSet<_> = calls
            .filter_map(|call| call.split('"').nth(1).map(str::to_owned))
            .collect();
        assert!(names.len() > 5, "{names:?}");
        let text = read(page);
        let shown: BTreeSet<_> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .flat_map(|line| spans(line.split(" | ").next().unwrap()).collect::<Vec<_>>())
            .filter_map(|span| {
                span.strip_prefix(prefix)
                    .map(|name| name.split('{').next().unwrap().to_owned())
            })
            .map(|name| name.trim_end_matches("_total").trim_end_matches("_seconds").to_owned())
            .collect();
        let names: BTreeSet<_> = names.into_iter().filter(|name| name != "build").collect();
        assert_eq!(shown, names, "{page}");
    }
}

/// The flags of each command stand in its transcript, which is compared with the program.
#[test]
fn every_command_has_a_transcript_of_its_help() {
    let transcript = read("tests/cmd/help.md");
    let shown: BTreeSet<_> = transcript
        .lines()
        .filter_map(|line| line.strip_prefix("$ outrigger "))
        .collect();
    let help = printed(&["--help"]);
    let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains("  "));
    let names: Vec<_> = commands.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 12, "{names:?}");
    for name in names.into_iter().filter(|name| !["help", "version"].contains(name)) {
        let has = |flag: &str| shown.contains(format!("{name} {flag}").as_str());
        assert!(has("--help") || has("-h"), "tests/cmd/help.md has nothing of {name}");
    }
}
