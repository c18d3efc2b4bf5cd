//! Every key of a real installation's values document is honoured, or listed as one that injection does not read.

use crate::cases;
use outrigger::config::values::Values;
use outrigger::pod::manifest;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn every_key_is_honoured_or_listed() {
    let Some(folder) = cases() else { return };
    let text = fs::read_to_string(folder.join("linkerd-config-values.yaml")).unwrap();
    let document = manifest::read(&text).unwrap().remove(0).value;
    let honoured = serde_json::to_value(Values::default()).unwrap();
    let listed = listed();
    let mut keys = Vec::new();
    unread(&document, &honoured, "", &mut keys);
    let unlisted: Vec<_> = keys
        .iter()
        .filter(|key| !listed.iter().any(|listed| covers(listed, key)))
        .collect();
    assert!(
        unlisted.is_empty(),
        "neither honoured nor listed in docs/compatibility.md: {unlisted:?}"
    );
    let idle: Vec<_> = listed
        .iter()
        .filter(|listed| !keys.iter().any(|key| covers(listed, key)))
        .collect();
    assert!(
        idle.is_empty(),
        "listed in docs/compatibility.md, but honoured or unknown: {idle:?}"
    );
    println!("values: {} keys that injection does not read, all listed", keys.len());
}

fn covers(listed: &str, key: &str) -> bool {
    key.strip_prefix(listed)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Collects the keys of `document` that `honoured` lacks, dotted. An empty map of `honoured` takes anything.
fn unread(document: &Value, honoured: &Value, path: &str, keys: &mut Vec<String>) {
    let (Some(document), Some(honoured)) = (document.as_object(), honoured.as_object()) else {
        return;
    };
    if honoured.is_empty() {
        return;
    }
    for (key, value) in document {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match honoured.get(key) {
            Some(honoured) => unread(value, honoured, &path, keys),
            None => keys.push(path),
        }
    }
}

/// The keys that `docs/compatibility.md` lists.
fn listed() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, section) = text
        .split_once("## Keys of the values document that injection does not read")
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let code = section.split('`').skip(1).step_by(2);
    code.filter(|code| *code != "linkerd-proxy")
        .map(str::to_owned)
        .collect()
}
