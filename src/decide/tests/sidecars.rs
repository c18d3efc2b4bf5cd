//! Native sidecars, where servers or nodes are too old for them.

use super::*;
use crate::decide::placement::{Node, Placement};

const KEY: &str = "config.linkerd.io/proxy-enable-native-sidecar";

/// A case whose pod can land on a node with a kubelet of 1.28, too.
fn on_an_old_node() -> Case {
    let node = |name: &str, version: &str| {
        let status = json!({"nodeInfo": {"kubeletVersion": version}});
        Node::read(&json!({"metadata": {"name": name}, "status": status}))
    };
    let nodes = [node("n1", "v1.36.2"), node("n2", "v1.28.15")];
    Case {
        old_kubelets: OldKubelets::judge(&Placement::default(), nodes.iter()),
        ..case()
    }
}

/// Where the proxy is put.
fn lists(decision: &Decision) -> [bool; 2] {
    let patch = capabilities(decision);
    ["initContainers", "containers"].map(|list| {
        let operations: Vec<Value> = serde_json::from_str(&patch).unwrap();
        let of = |operation: &&Value| {
            let path = operation["path"].as_str().unwrap_or_default();
            path.starts_with(&format!("/spec/{list}"))
        };
        let mut added = operations.iter().filter(of);
        added.any(|operation| operation.to_string().contains("\"linkerd-proxy\""))
    })
}

#[test]
fn one_old_kubelet_makes_the_proxy_an_ordinary_container() {
    assert_eq!(lists(&case().decide()), [true, false]);
    let decision = on_an_old_node().decide();
    assert_eq!(lists(&decision), [false, true]);
    let fact = "1 of 2 nodes that the pod can land on have no native sidecars: n2 (kubelet 1.28): the proxy is an ordinary \
                container";
    assert!(
        decision.trace.facts().iter().any(|it| it == fact),
        "{:?}",
        decision.trace
    );
    // Nobody asked for anything else but the values.
    assert_eq!(decision.warnings, []);
}

#[test]
fn who_asks_for_a_native_sidecar_all_the_same_is_warned() {
    let decision = on_an_old_node().annotated(KEY, "true").decide();
    assert_eq!(lists(&decision), [false, true]);
    let text = "pod annotation config.linkerd.io/proxy-enable-native-sidecar: \"true\": 1 of 2 nodes that the pod can land on \
                have no native sidecars: n2 (kubelet 1.28)";
    let ignored = Warning {
        caution: Caution::IgnoredValue,
        text: text.to_owned(),
    };
    assert_eq!(decision.warnings, [ignored]);
    let strict = Case {
        values: "linkerdVersion: v1\noutrigger: {strict: true}",
        ..on_an_old_node().annotated(KEY, "true")
    };
    assert_eq!(strict.decide().message(), text);

    let old_server = Case {
        release: 28,
        ..case().annotated(KEY, "true")
    };
    let decision = old_server.decide();
    assert_eq!(lists(&decision), [false, true]);
    let text = decision.warnings[0].to_string();
    assert!(
        text.ends_with("\"true\": Kubernetes 1.28 has no native sidecars"),
        "{text}"
    );
}

#[test]
fn where_nobody_wants_one_old_kubelets_are_of_no_interest() {
    let decision = on_an_old_node().annotated(KEY, "false").decide();
    assert_eq!(lists(&decision), [false, true]);
    assert_eq!(decision.warnings, []);
    let facts = decision.trace.facts();
    assert!(!facts.iter().any(|fact| fact.contains("kubelet")), "{facts:?}");
}
