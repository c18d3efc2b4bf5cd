//! A node whose API server refuses, is away or is slow: who starts all the same, who waits, and for how long.

use crate::api::{Answer, Api, refusal};
use crate::folder;
use crate::netns::Netns;
use crate::pods::{meshed, plain};
use crate::runtime::{Outcome, Run, has_rules};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What the API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Refuses,
    Away,
    Slow,
    Works,
}

const VARIANTS: [Variant; 4] = [Variant::Refuses, Variant::Away, Variant::Slow, Variant::Works];

/// A node in one variant; there is no agent.
struct Node {
    api: Api,
    config: Value,
}

impl Node {
    fn new(variant: Variant, pod: &Value) -> Self {
        let api = match variant {
            Variant::Refuses => Api::refusing(401),
            Variant::Slow => Api::new([Answer::Nothing]),
            Variant::Away | Variant::Works => Api::with(pod),
        };
        if variant == Variant::Away {
            let text = std::fs::read_to_string(api.kubeconfig()).expect("it was written");
            let url = text
                .split('"')
                .find(|part| part.starts_with("https://"))
                .expect("it names a server")
                .to_owned();
            std::fs::write(api.kubeconfig(), text.replace(&url, "https://127.0.0.1:1")).expect("a file can be written");
        }
        // As the chart of Linkerd's plugin writes it, but for the path.
        let config = json!({
            "cniVersion": "1.0.0", "name": "k8s-pod-network", "type": "outrigger-cni", "log_level": "info",
            "kubernetes": {"kubeconfig": api.kubeconfig()},
            "outrigger": {"socket": PathBuf::from("/nonexistent/socket")},
            "linkerd": {
                "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102, "ports-to-redirect": [],
                "inbound-ports-to-ignore": ["4191", "4190"], "simulate": false, "use-wait-flag": false,
                "iptables-mode": "", "ipv6": false,
            },
        });
        Self { api, config }
    }

    fn add(&self, namespace: &Netns, pod: &str) -> (Outcome, Duration) {
        let begun = Instant::now();
        let outcome = Run::new("ADD", &namespace.path(), pod, &self.config).run();
        (outcome, begun.elapsed())
    }
}

#[test]
fn the_pods_that_a_node_needs_start_without_the_api_server() {
    for variant in VARIANTS {
        let (node, namespace) = (Node::new(variant, &meshed()), Netns::new());
        for pod in ["linkerd-cni/cni-daemon", "kube-system/dns"] {
            node.add(&namespace, pod).0.done();
        }
        assert!(!has_rules(&namespace), "{variant:?}");
        assert_eq!(node.api.requests(), Vec::<String>::new(), "{variant:?}");
    }
}

#[test]
fn a_meshed_pod_starts_with_its_rules_or_is_tried_again_within_ten_seconds() {
    std::thread::scope(|scope| {
        for variant in VARIANTS {
            scope.spawn(move || {
                let (node, namespace) = (Node::new(variant, &meshed()), Netns::new());
                let (outcome, time) = node.add(&namespace, "app/meshed");
                assert!(time <= Duration::from_secs(10), "{variant:?}: {time:?}");
                if variant == Variant::Works {
                    outcome.done();
                    assert!(has_rules(&namespace));
                } else {
                    let message = outcome.failed(11);
                    assert!(
                        message.contains("https://127.0.0.1:"),
                        "{variant:?}: it says which address: {message}"
                    );
                    assert!(!has_rules(&namespace), "{variant:?}");
                }
            });
        }
    });
}

#[test]
fn a_pod_that_is_not_meshed_starts_once_the_credentials_are_renewed() {
    let mut pod = plain();
    pod["metadata"]["namespace"] = json!("plain-ns");
    let (works, namespace) = (Node::new(Variant::Works, &pod), Netns::new());
    works.add(&namespace, "plain-ns/plain").0.done();
    assert!(!has_rules(&namespace));
    let api = Api::new([refusal(401), Answer::Send(200, pod)]);
    let mut node = Node { api, ..works };
    node.config["kubernetes"]["kubeconfig"] = json!(node.api.kubeconfig());
    node.add(&namespace, "plain-ns/plain").0.failed(11);
    node.add(&namespace, "plain-ns/plain").0.done();
    assert!(!has_rules(&namespace));
}

/// The pod of a situation's manifests, as the API server would have it.
fn pod_of(manifests: &str, name: &str) -> Value {
    let documents = manifests
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str::<Value>(text).expect("a document is YAML"));
    let mut pods = documents.filter(|document| document["kind"] == "Pod" && document["metadata"]["name"] == name);
    pods.next().unwrap_or_else(|| panic!("there is no pod {name}"))
}

/// One line of what is right: `{"variant", "workload", "add": "ok-with-rules|error-11", "rules"?, "max_seconds"?}`.
fn hold(manifests: &str, line: &Value) {
    let variant = match line["variant"].as_str().expect("a line names a variant") {
        "401" => Variant::Refuses,
        "down" => Variant::Away,
        "slow" => Variant::Slow,
        "ok" => Variant::Works,
        other => panic!("no such variant: {other}"),
    };
    let name = line["workload"]
        .as_str()
        .and_then(|workload| workload.strip_prefix("Pod/"))
        .expect("a line names a pod");
    let pod = pod_of(manifests, name);
    let path = format!(
        "{}/{name}",
        pod["metadata"]["namespace"].as_str().expect("pods have a namespace")
    );
    let (node, namespace) = (Node::new(variant, &pod), Netns::new());
    let (outcome, time) = node.add(&namespace, &path);
    let rules = has_rules(&namespace);
    let answer: Value = serde_json::from_str(&outcome.stdout).expect("the answer is JSON");
    let right = line["add"]
        .as_str()
        .expect("a line says what ADD does")
        .split('|')
        .any(|right| match right {
            "ok" => outcome.status.success(),
            "ok-with-rules" => outcome.status.success() && rules,
            error => !outcome.status.success() && !rules && format!("error-{}", answer["code"]) == error,
        });
    assert!(right, "{line}: {} {}", outcome.status, outcome.stdout);
    assert!(
        line["rules"].as_bool().is_none_or(|expected| expected == rules),
        "{line}"
    );
    let limit = line["max_seconds"].as_f64().unwrap_or(f64::INFINITY);
    assert!(time.as_secs_f64() <= limit, "{line}: {time:?}");
}

#[test]
fn the_situation_that_people_met_ends_as_it_should() {
    let Some(folder) = folder::conformance() else {
        return;
    };
    let file = folder.join("situations/24-cni-plugin-without-api.yaml");
    let manifests = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = manifests.lines().filter_map(|line| line.strip_prefix("# expect: "));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    assert!(!lines.is_empty(), "{}: nothing is expected", file.display());
    std::thread::scope(|scope| {
        for line in &lines {
            scope.spawn(|| hold(&manifests, line));
        }
    });
}
