//! `outrigger check` against a real API server and the real webhook: a healthy installation, and each way to break it.
//!
//! What is checked is the whole cluster, so each test has one of its own, and breaks it step by step.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is how a test fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the control plane is real processes and their files"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[path = "../conformance/folder.rs"]
mod conformance_folder;

mod answer;
mod before;
mod broken;
mod certificates;
mod crowd;
mod failing_plugin;
mod half_installed;
mod healthy;
mod installation;
mod rights;
mod takeover;
mod unseen;
mod workloads;

use serde_json::{Value, json};

/// A Deployment with one container, whose fields are those of `spec`.
fn deployment(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"containers": [{"name": "web", "image": "web"}]});
    pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}
