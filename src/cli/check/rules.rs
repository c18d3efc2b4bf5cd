//! What is right and what is wrong: pure functions from what was gathered to findings.
//!
//! Nothing here asks anybody anything, nor looks at a clock: the architecture test keeps it so.

pub(super) mod admission;
pub(super) mod certificates;
pub(super) mod cluster;
pub(super) mod cni;
pub(super) mod deadlock;
pub(super) mod dry_run;
pub(super) mod installation;
pub(super) mod network_policies;
pub(super) mod permissions;
pub(super) mod pre;
pub(super) mod probe;
pub(super) mod proxies;
pub(super) mod selector;
pub(super) mod takeover;
pub(super) mod users;
pub(super) mod webhook;
pub(super) mod workloads;

use crate::pod::text;
use serde_json::Value;

/// `namespace/name` of an object, or its name where it has no namespace.
fn place(object: &Value) -> String {
    let field = |key: &str| {
        let metadata = object.get("metadata")?;
        text(metadata, key).or_else(|| text(metadata, "generateName"))
    };
    let name = field("name").unwrap_or_default();
    let namespace = object.get("metadata").and_then(|metadata| text(metadata, "namespace"));
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

fn name(object: &Value) -> &str {
    object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn namespace(object: &Value) -> &str {
    object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}
