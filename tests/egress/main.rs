//! Egress policies on a real API server: which it takes, which it refuses and why, that it takes what they compile to, with the
//! resources of Linkerd and of the Gateway API, what the controller makes of them, and that the gateway goes by them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is how a test fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the control plane and the program are real processes and their files"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[path = "../conformance/folder.rs"]
mod conformance_folder;

mod compiled;
mod controller;
mod documented;
mod foreign;
mod gateway;
mod operated;
mod resources;
mod schema;

use std::fs;
use std::process::Command;

use cluster::Cluster;
use serde_json::Value;
use tempfile::TempDir;

/// What the program installs with this value, for which egress control is there.
fn installed(set: &str) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args([
            "install",
            "--server-version",
            "1.36",
            "--set",
            "egress.enabled=true",
            "--set",
            set,
        ])
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The definitions of our resources, as the program prints them.
fn definitions() -> Vec<Value> {
    let mut objects = installed("egress.gateway.enabled=false");
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    assert_eq!(objects.len(), 2);
    objects
}

/// Has the server take in definitions of resources, and waits until it serves them.
fn define(cluster: &Cluster, definitions: &[Value]) {
    let folder = TempDir::new().unwrap();
    for (number, definition) in definitions.iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.json")), definition.to_string()).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let must = |arguments: &[&str]| {
        let output = cluster.kubectl(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    // Some are too large for the annotation of a client-side apply.
    must(&["apply", "--server-side", "--force-conflicts", "--filename", folder]);
    must(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "--filename",
        folder,
    ]);
}

/// A policy.
fn policy(name: &str, spec: &Value) -> Value {
    serde_json::json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1",
        "kind": "EgressPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}
