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
fn a_template_has_no_token_mounted_yet() {
    let mut case = case();
    case.values = "{linkerdVersion: v1, identity: {serviceAccountTokenProjection: false}}";
    assert_eq!(case.decide().word(), "inject");
    let unmounted = "disabled_automount_service_account_token_account";
    case.round = Round::Second;
    assert_eq!(case.decide().code(), unmounted);
    case.round = Round::First;
    let without = case.spec("automountServiceAccountToken", json!(false));
    assert_eq!(without.decide().code(), unmounted);
}

#[test]
fn a_namespace_that_has_webhooks_disabled_is_asked_about_by_nobody() {
    let mut case = case().spec(
        "containers",
        json!([{"name": "db", "ports": [{"containerPort": 3306}]}]),
    );
    case.labels = json!({"config.linkerd.io/admission-webhooks": "disabled"});
    let decision = case.decide();
    assert_eq!(decision.code(), "webhooks_disabled");
    assert!(decision.patch.is_empty());
    case.round = Round::Second;
    assert_eq!(case.decide().word(), "inject");
    case.labels = json!({"config.linkerd.io/admission-webhooks": "enabled"});
    case.round = Round::First;
    assert_eq!(case.decide().word(), "inject");
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

/// A pod as injection leaves it, with the proxy as an init container.
fn meshed(proxy: &Value) -> Case {
    let init = json!({"name": "linkerd-init", "image": "proxy:1"});
    case()
        .annotated("linkerd.io/proxy-version", "v1")
        .spec("initContainers", json!([init, proxy]))
}

#[test]
fn a_native_sidecar_that_lost_its_restart_policy_gets_it_back() {
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy:1", "securityContext": {"runAsUser": 2102}});
    let decision = meshed(&proxy).decide();
    assert_eq!(decision.code(), "sidecar_already_exists");
    let expected = json!([{"op": "add", "path": "/spec/initContainers/1/restartPolicy", "value": "Always"}]);
    assert_eq!(json!(decision.patch), expected);
    assert_eq!(decision.warnings[0].caution, Caution::ProxyRepaired);
    let old = Case {
        release: 28,
        ..meshed(&proxy)
    }
    .decide();
    assert_eq!(old.code(), "broken_proxy");
    assert!(
        old.message().contains("Kubernetes 1.28 has no native sidecars"),
        "{}",
        old.message()
    );
    let mut whole = proxy;
    whole["restartPolicy"] = json!("Always");
    assert!(meshed(&whole).decide().patch.is_empty());
}

#[test]
fn a_proxy_must_work_where_nobody_asks_for_injection_too() {
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy:1", "securityContext": {"runAsUser": 2102}});
    for annotations in [json!({}), json!({"linkerd.io/inject": "junk"})] {
        let unasked = |proxy: &Value| Case {
            annotations: annotations.clone(),
            ..meshed(proxy)
        };
        let decision = unasked(&proxy).decide();
        assert_eq!(decision.code(), "sidecar_already_exists", "{annotations}");
        assert_eq!(decision.warnings[0].caution, Caution::ProxyRepaired, "{annotations}");
        assert!(!decision.patch.is_empty(), "{annotations}");
        let late = json!([{"name": "late", "image": "late:1", "securityContext": {"runAsUser": 2102}}]);
        let decision = unasked(&proxy).spec("containers", late).decide();
        assert_eq!(decision.code(), "proxy_user_clash", "{annotations}");
        let mut whole = proxy.clone();
        whole["restartPolicy"] = json!("Always");
        let decision = unasked(&whole).decide();
        assert_eq!((decision.word(), decision.patch.is_empty()), ("skip", true));
    }
    // Whose a pod is that carries no mark nobody knows, and the kubelet's and the node's own are never touched.
    let mut foreign = meshed(&proxy);
    foreign.pod["metadata"] = json!({});
    foreign.annotations = json!({});
    let mirror = meshed(&proxy).annotated("kubernetes.io/config.mirror", "x");
    let critical = meshed(&proxy).spec("priorityClassName", json!("system-node-critical"));
    for case in [foreign, mirror, critical] {
        let decision = case.decide();
        assert_eq!(
            (decision.word(), decision.patch.is_empty()),
            ("skip", true),
            "{decision:?}"
        );
    }
}

#[test]
fn a_container_that_came_after_the_proxy_must_not_be_its_user() {
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy:1", "restartPolicy": "Always", "securityContext": {"runAsUser": 2102}});
    let late = json!([{"name": "late", "image": "late:1", "securityContext": {"runAsUser": 2102}}]);
    let decision = meshed(&proxy).spec("containers", late).decide();
    assert_eq!(decision.code(), "proxy_user_clash");
    assert!(decision.message().contains("\"late\""), "{}", decision.message());
    assert_eq!(
        meshed(&json!({"name": "linkerd-proxy", "restartPolicy": "Always"}))
            .decide()
            .code(),
        "broken_proxy"
    );
}

#[test]
fn a_native_sidecar_of_the_application_is_not_the_proxys_user_either() {
    let sidecar =
        json!([{"name": "logs", "image": "logs:1", "restartPolicy": "Always", "securityContext": {"runAsUser": 2102}}]);
    assert_eq!(
        case().spec("initContainers", sidecar.clone()).decide().code(),
        "proxy_user_clash"
    );
    let mut once = sidecar;
    once[0]["restartPolicy"] = Value::Null;
    assert_eq!(case().spec("initContainers", once).decide().word(), "inject");
    let context = json!({"runAsUser": 2102});
    let off = case()
        .annotated("linkerd.io/setup-iptables", "false")
        .spec("securityContext", context)
        .decide();
    assert_eq!(off.code(), "redirection_off");
}
