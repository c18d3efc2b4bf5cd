//! The recorded cases of Linkerd's proxy-init: the same rules, the same exit status, the same answers on the wire.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[path = "conformance/cases.rs"]
mod cases;
#[path = "../conformance/folder.rs"]
mod folder;
#[path = "conformance/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the other test target uses the rest")]
mod netns;
#[path = "conformance/probes.rs"]
mod probes;
mod traffic;

use serde_json::Value;

/// A file of recorded cases; nothing where there are none.
fn recorded(file: &str) -> Option<Value> {
    let path = folder::conformance()?.join("redirect").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_str(&text).expect("recorded cases are JSON"))
}
