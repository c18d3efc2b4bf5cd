//! The plugin sets for a pod injected in CNI mode what the init container would have set.

use crate::agent::Agent;
use crate::authority::Authority;
use crate::netns::{Netns, OUTRIGGER, assert_done};
use crate::rules::native;
use crate::runtime::{Run, config};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Injects a pod with these annotations, as `outrigger inject --manual` does.
fn inject(annotations: &Value, how: &[&str]) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "meshed", "namespace": "app", "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    let mut anchors = tempfile::NamedTempFile::new().expect("a file can be made");
    let written = anchors.write_all(Authority::new().certificate().as_bytes());
    written.expect("a file can be written");
    let mut command = Command::new(OUTRIGGER);
    command
        .args([
            "inject",
            "--manual",
            "--ignore-cluster",
            "--proxy-version",
            "edge-1",
            "--output",
            "json",
        ])
        .args(how)
        .arg("-");
    command.arg("--trust-anchors").arg(anchors.path());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(pod.to_string().as_bytes()).expect("a pipe holds a pod");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_done(&output);
    serde_json::from_slice(&output.stdout).expect("it prints one object")
}

/// The arguments of the init container.
fn arguments(pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["initContainers"]
        .as_array()
        .expect("there are init containers");
    let init = containers
        .iter()
        .find(|container| container["name"] == "linkerd-init")
        .expect("one of them is it");
    let arguments = init["args"].as_array().expect("it has arguments");
    arguments
        .iter()
        .map(|argument| argument.as_str().expect("they are strings").to_owned())
        .collect()
}

#[test]
fn both_ways_of_redirecting_set_the_same_rules() {
    let moved = json!({
        "config.linkerd.io/inbound-port": "5143", "config.linkerd.io/outbound-port": "5140",
        "config.linkerd.io/admin-port": "5191", "config.linkerd.io/control-port": "5190",
        "config.linkerd.io/proxy-uid": "3000", "config.linkerd.io/proxy-gid": "3001",
    });
    let skips = json!({
        "config.linkerd.io/skip-inbound-ports": "22,6000-8000", "config.linkerd.io/skip-outbound-ports": "25, 443",
        "config.linkerd.io/skip-subnets": "10.1.0.0/16,fd00::/8",
    });
    for annotations in [json!({}), moved, skips] {
        let (by_init, by_plugin) = (Netns::new(), Netns::new());
        let args = arguments(&inject(&annotations, &[]));
        // Our own back end, the last of a flag given twice being the one that counts in neither program.
        let skip = |args: &[String]| -> Vec<String> {
            let stripped = args.iter().position(|arg| arg == "--firewall-bin-path");
            let mut args = args.to_vec();
            if let Some(at) = stripped {
                args.drain(at..at + 4);
            }
            args
        };
        let mut native_args = vec!["--iptables-mode".to_owned(), "native".to_owned()];
        native_args.extend(skip(&args));
        assert_done(&by_init.proxy_init(&native_args));

        let agent = Agent::knowing(inject(&annotations, &["--no-init-container"]));
        let mut config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
        // What the chart gives the plugin, from the same values as the init container.
        config["linkerd"] = json!({"inbound-ports-to-ignore": ["4190", "4191", "4567", "4568"], "outbound-ports-to-ignore": ["4567", "4568"]});
        if annotations["config.linkerd.io/admin-port"].is_string() {
            config["linkerd"]["inbound-ports-to-ignore"] = json!(["4567", "4568"]);
        }
        Run::new("ADD", &by_plugin.path(), "app/meshed", &config).run().done();
        assert_eq!(native(&by_plugin), native(&by_init), "{annotations}");
    }
}
