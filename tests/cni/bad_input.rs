//! What is malformed, missing or gone: the code of the specification, one sentence, and nothing half-done.

use crate::agent::Agent;
use crate::netns::Netns;
use crate::pods::meshed;
use crate::runtime::{Outcome, Run, config, has_rules};
use serde_json::{Value, json};
use std::path::Path;

fn add(agent: &Agent, namespace: &Netns) -> Run {
    let config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
    Run::new("ADD", &namespace.path(), "app/meshed", &config)
}

#[test]
fn malformed_standard_input_is_refused_by_every_verb() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    let table = [
        ("", 6),
        ("{", 6),
        ("null", 6),
        ("[1, 2]", 6),
        ("\"text\"", 6),
        ("{\"cniVersion\": 7, \"name\": \"n\"}", 6),
        ("{\"cniVersion\": \"1.1.0\", \"name\": \"n\"} trailing", 6),
        ("{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"linkerd\": []}", 6),
        ("{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"kubernetes\": 1}", 6),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"linkerd\": {\"ports-to-redirect\": [\"x\"]}}",
            6,
        ),
        ("{\"name\": \"n\"}", 1),
        ("{\"cniVersion\": \"0.2.0\", \"name\": \"n\"}", 1),
        ("{\"cniVersion\": \"2.0.0\", \"name\": \"n\"}", 1),
        ("{\"cniVersion\": \"1.1.0\"}", 7),
        ("{\"cniVersion\": \"1.1.0\", \"name\": \"a/b\"}", 7),
        ("{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"prevResult\": 7}", 7),
    ];
    for (input, code) in table {
        for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let outcome = add(&agent, &namespace).with("CNI_COMMAND", verb).input(input).run();
            assert_eq!(outcome.failed(code), outcome.failed(code), "{verb} {input}");
        }
    }
    assert!(!has_rules(&namespace));
    assert_eq!(agent.asked(), Vec::<Value>::new());
}

#[test]
fn input_that_is_no_text_is_refused() {
    let mut child = std::process::Command::new(crate::runtime::PLUGIN)
        .env_clear()
        .env("CNI_COMMAND", "STATUS")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the plugin starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), b"{\"name\": \"\xff\"}")
        .expect("a pipe holds it");
    let output = child.wait_with_output().expect("the plugin ends");
    let outcome = Outcome {
        status: output.status,
        stdout: String::from_utf8(output.stdout).expect("JSON is UTF-8"),
        stderr: String::new(),
    };
    assert!(outcome.failed(5).starts_with("standard input cannot be read: "));
}

#[test]
fn variables_that_are_missing_or_wrong_are_named() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    for (variable, value) in [
        ("CNI_COMMAND", ""),
        ("CNI_COMMAND", "FROB"),
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "-x"),
        ("CNI_NETNS", ""),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "far-too-long-for-a-device"),
        ("CNI_ARGS", "K8S_POD_NAME"),
        ("CNI_ARGS", "K8S_POD_NAMESPACE=app;K8S_POD_NAME=../../secrets"),
    ] {
        let message = add(&agent, &namespace).with(variable, value).run().failed(4);
        assert!(message.starts_with(variable), "{message}");
    }
    assert!(!has_rules(&namespace));
    assert_eq!(agent.asked(), Vec::<Value>::new());
}

#[test]
fn a_namespace_that_is_gone_or_none_is_refused_before_anybody_is_asked() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    for path in ["/var/run/netns/gone", "/etc/hostname", "/", "/proc/self/ns/mnt"] {
        for verb in ["ADD", "CHECK"] {
            let message = add(&agent, &namespace)
                .with("CNI_COMMAND", verb)
                .with("CNI_NETNS", path)
                .run()
                .failed(4);
            assert!(
                message.starts_with(&format!("CNI_NETNS {path:?}: no network namespace")),
                "{message}"
            );
        }
        add(&agent, &namespace)
            .with("CNI_COMMAND", "DEL")
            .with("CNI_NETNS", path)
            .run()
            .done();
    }
    assert_eq!(agent.asked(), Vec::<Value>::new());
}

#[test]
fn a_host_without_iptables_is_enough_unless_iptables_is_asked_for() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    let empty = tempfile::TempDir::new().expect("a folder can be made");
    let path = empty.path().display().to_string();
    let mut config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
    for mode in ["nft", "legacy", "plain"] {
        config["linkerd"]["iptables-mode"] = json!(mode);
        let asked = add(&agent, &namespace).with("PATH", &path).input(&config.to_string());
        assert!(asked.run().failed(100).contains("is not in PATH"), "{mode}");
        assert!(!has_rules(&namespace), "{mode}");
        asked.with("CNI_COMMAND", "DEL").run().done();
    }
    add(&agent, &namespace).with("PATH", &path).run().done();
    assert!(has_rules(&namespace));
}

#[test]
fn values_that_cannot_be_used_are_refused_before_any_rule() {
    let namespace = Netns::new();
    let mut pod = meshed();
    pod["metadata"]["annotations"]["config.linkerd.io/skip-inbound-ports"] = json!("everything");
    let agent = Agent::knowing(pod);
    let message = add(&agent, &namespace).run().failed(102);
    assert!(
        message.starts_with("pod app/meshed: config.linkerd.io/skip-inbound-ports: no entry of"),
        "{message}"
    );
    let agent = Agent::knowing(meshed());
    let mut config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
    for (key, value) in [
        ("iptables-mode", json!("ebtables")),
        ("incoming-proxy-port", json!(0)),
        ("outgoing-proxy-port", json!(65536)),
        ("subnets-to-ignore", json!(["10.0.0.0"])),
    ] {
        config["linkerd"] = json!({key: value});
        let message = add(&agent, &namespace).input(&config.to_string()).run().failed(7);
        assert!(
            message.starts_with(&format!("network configuration: linkerd.{key}: ")),
            "{message}"
        );
    }
    assert!(!has_rules(&namespace));
}

#[test]
fn an_error_is_answered_in_the_version_of_the_configuration() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    let outcome = add(&agent, &namespace)
        .with("CNI_IFNAME", "")
        .input("{\"cniVersion\": \"0.4.0\", \"name\": \"n\"}")
        .run();
    outcome.failed(4);
    assert!(
        outcome.stdout.contains("\"cniVersion\":\"0.4.0\""),
        "{}",
        outcome.stdout
    );
}
