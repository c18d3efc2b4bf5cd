//! Scenarios through a real API server: what it admits, what it refuses and in which words.
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

#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[path = "../conformance/folder.rs"]
mod conformance_folder;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../redirect/netns.rs"]
mod netns;
#[path = "../policy/printed.rs"]
mod printed;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../redirect/rules.rs"]
mod rules;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../cni/runtime.rs"]
mod runtime;

mod admission_configuration;
mod bad_input;
mod certificates;
mod client_certificates;
mod cni_plugin;
mod configuration;
mod continuity;
mod control_plane;
mod events;
mod explain;
mod explain_live;
mod failing_plugin;
mod fixtures;
mod hanging;
mod inject;
mod installation;
mod least_privilege;
mod lifecycle;
mod log_level;
mod mesh;
mod metrics;
mod metrics_page;
mod owners;
mod pass_fixtures;
mod pod_security;
mod policies;
mod policy_labels;
mod preview;
mod redirection;
mod reinvocation;
mod reload;
mod scene;
mod services;
mod takeover;
mod workload;

#[path = "../charts/written.rs"]
mod written;

use std::io::{Write, stderr};

use serde_json::{Value, json};

/// A pod with one container `web` that has `security_context`.
fn pod(name: &str, security_context: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "web", "image": "web", "securityContext": security_context}]},
    })
}

/// Prints a line past the capture of the test runner.
fn announce(line: &str) {
    let mut out = stderr().lock();
    writeln!(out, "{line}").expect("standard error can be written");
}
