//! What `outrigger policy` prints for manifests, and the pods that the controllers of those workloads would make.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::repository;

/// The manifests of `tests/cmd/policy.in/NAME.yaml`.
pub(crate) fn manifests(name: &str) -> String {
    let file = repository().join(format!("tests/cmd/policy.in/{name}.yaml"));
    fs::read_to_string(file).expect("the manifests are there")
}

/// What `outrigger policy` prints for `manifests`: its objects.
pub(crate) fn printed(arguments: &[&str], manifests: &str) -> Vec<Value> {
    let folder = TempDir::new().expect("a folder can be made");
    let file = folder.path().join("manifests.yaml");
    fs::write(&file, manifests).expect("a file can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .arg("policy")
        .args(arguments)
        .args(["-o", "json", "-f"])
        .arg(file)
        .output()
        .expect("outrigger runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let list: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    list["items"].as_array().expect("it prints a list").clone()
}

/// A pod of each workload of `manifests`, with the name of the controller that makes it.
pub(crate) fn pods(manifests: &str) -> Vec<(&'static str, Value)> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("the manifests are YAML");
    objects.iter().filter_map(pod).collect()
}

fn pod(workload: &Value) -> Option<(&'static str, Value)> {
    let (controller, template) = match workload["kind"].as_str()? {
        "Deployment" => ("replicaset-controller", &workload["spec"]["template"]),
        "DaemonSet" => ("daemon-set-controller", &workload["spec"]["template"]),
        "StatefulSet" => ("statefulset-controller", &workload["spec"]["template"]),
        "CronJob" => ("job-controller", &workload["spec"]["jobTemplate"]["spec"]["template"]),
        _ => return None,
    };
    let mut pod = template.clone();
    let name = workload["metadata"]["name"].as_str()?;
    pod["metadata"]["generateName"] = json!(format!("{name}-"));
    Some((controller, pod))
}
