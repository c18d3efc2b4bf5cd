//! Pods that are left alone, and pods that cannot be injected.

use super::*;

#[test]
fn pods_are_left_alone_for_linkerds_reasons_and_ours() {
    let reason = |case: Case| case.decide().code();
    assert_eq!(reason(case().spec("hostNetwork", json!(true))), "host_network_enabled");
    assert_eq!(
        reason(case().annotated("linkerd.io/inject", "disabled")),
        "injection_disable_annotation_present"
    );
    assert_eq!(
        reason(case().annotated("linkerd.io/inject", "yes")),
        "invalid_inject_annotation_at_workload"
    );
    assert_eq!(reason(case().spec("os", json!({"name": "windows"}))), "windows_pod");
    assert_eq!(
        reason(case().annotated("kubernetes.io/config.mirror", "x")),
        "mirror_pod"
    );
    assert_eq!(
        reason(case().spec("priorityClassName", json!("system-node-critical"))),
        "node_critical_pod"
    );
    assert_eq!(
        reason(case().spec("schedulerName", json!("fargate-scheduler"))),
        "unsupported_runtime"
    );
    let with_init = |container: Value| case().spec("initContainers", json!([container]));
    assert_eq!(
        reason(with_init(json!({"name": "linkerd-network-validator", "image": "x"}))),
        "sidecar_already_exists"
    );
    assert_eq!(
        reason(with_init(
            json!({"name": "a", "image": "r.example.com:5000/linkerd/proxy:v2"})
        )),
        "sidecar_already_exists"
    );
    assert_eq!(reason(with_init(json!({"name": "linkerd-proxy"}))), "broken_proxy");
}

#[test]
fn a_mirror_pod_stays_as_it_is() {
    let opaque = |case: Case| case.annotated("kubernetes.io/config.mirror", "x").decide().patch;
    let mut case = case();
    case.annotations["config.linkerd.io/opaque-ports"] = json!("53");
    assert!(opaque(case).is_empty());
}

#[test]
fn injection_may_be_asked_for_by_label() {
    let by_label = |labels: Value| {
        Case {
            annotations: json!({}),
            labels,
            ..case()
        }
        .decide()
    };
    assert_eq!(by_label(json!({"linkerd.io/inject": "enabled"})).word(), "inject");
    let mut pod = case();
    pod.annotations = json!({});
    pod.pod["metadata"]["labels"] = json!({"linkerd.io/inject": "enabled"});
    assert_eq!(pod.decide().word(), "inject");
}

#[test]
fn names_that_injection_adds_must_be_free() {
    let volumes = json!([{"name": "linkerd-identity-end-entity", "emptyDir": {}}]);
    let decision = case().spec("volumes", volumes).decide();
    assert_eq!(decision.code(), "name_taken");
    assert!(
        decision
            .message()
            .contains("a volume named linkerd-identity-end-entity"),
        "{}",
        decision.message()
    );
    // A name that only one redirection needs leaves the others.
    let lock = json!([{"name": "linkerd-proxy-init-xtables-lock", "emptyDir": {}}]);
    let locked = case().spec("volumes", lock);
    assert_eq!(locked.decide().code(), "name_taken");
    assert_eq!(
        locked.covered(Coverage::Declared).decide().redirection(),
        Redirection::Cni
    );
}

#[test]
fn a_debug_container_of_its_own_is_enough() {
    let key = "config.linkerd.io/enable-debug-sidecar";
    let containers = json!([{"name": "web", "image": "web:1"}, {"name": "linkerd-debug", "image": "d:1"}]);
    let decision = case().annotated(key, "true").spec("containers", containers).decide();
    assert_eq!(decision.word(), "inject");
    assert!(!capabilities(&decision).contains("\"linkerd-debug\""));
}

#[test]
fn a_pod_of_the_wrong_types_is_denied_unless_nobody_asks() {
    let mut case = case().spec("initContainers", json!({}));
    let decision = case.decide();
    assert_eq!(decision.code(), "malformed_pod");
    assert_eq!(
        decision.message(),
        "spec.initContainers is a map, expected a list of maps"
    );
    case.annotations = json!({});
    assert_eq!(case.decide().word(), "skip");
}

#[test]
fn a_user_of_the_application_is_not_given_to_the_proxy() {
    let decision = case().spec("securityContext", json!({"runAsUser": 2102})).decide();
    assert_eq!(decision.code(), "proxy_user_clash");
    assert!(decision.message().contains("\"web\""), "{}", decision.message());
}
