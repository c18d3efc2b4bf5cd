use super::*;
use crate::cli::check::finding::Status;
use serde_json::json;
use std::slice;

fn pod(name: &str, containers: &Value, more: &Value) -> Value {
    let mut spec = json!({"containers": containers});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": "2026-07-02T00:00:00Z"},
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": [{"name": "linkerd-proxy", "ready": true}]},
    })
}

fn proxy(tag: &str) -> Value {
    let image = format!("cr.l5d.io/linkerd/proxy:{tag}");
    json!({"name": "linkerd-proxy", "image": image, "securityContext": {"runAsUser": 2102}})
}

fn today(outcome: &'static str) -> Today {
    Today {
        outcome,
        rightly_alone: false,
        asked: true,
        reason: "a reason (code)".to_owned(),
    }
}

const HISTORY: History<'_> = History {
    registered: Some("2026-07-01T00:00:00Z"),
    asks_since: None,
    fails_closed: false,
};

fn codes(pods: &[Value], today: &[(usize, Today)]) -> Vec<&'static str> {
    let pods: Vec<_> = pods.iter().filter_map(Running::read).collect();
    let pods: Vec<_> = pods.iter().collect();
    let findings = judge(&pods, today, Some("v2"), |_| HISTORY);
    findings.iter().map(|finding| finding.code.word()).collect()
}

#[test]
fn versions_are_compared_with_what_is_configured() {
    let of = |tag: &str| pod("a", &json!([proxy(tag)]), &json!({}));
    assert_eq!(codes(&[of("v2")], &[]), ["proxies_present", "proxy_version"]);
    assert_eq!(codes(&[of("v1")], &[]), ["proxies_present", "proxy_version_skew"]);
    let mut asked = of("v1");
    asked["metadata"]["annotations"] = json!({VERSION: "v1"});
    assert_eq!(codes(&[asked], &[]), ["proxies_present", "proxy_version"]);
    // A digest names the image; what stands before it says which version that is.
    assert_eq!(
        codes(&[of("v2@sha256:0123")], &[]),
        ["proxies_present", "proxy_version"]
    );
    let mut starting = of("v2");
    starting["status"] = json!({"phase": "Pending"});
    assert_eq!(codes(&[starting], &[])[2], "proxy_not_ready");
    let mut over = of("v1");
    over["status"]["phase"] = "Succeeded".into();
    assert_eq!(codes(&[over], &[]), ["proxies_present", "proxy_version"]);
}

#[test]
fn a_version_that_nobody_tells_is_unknown() {
    let by_digest = json!({"name": "linkerd-proxy", "image": "cr.l5d.io/linkerd/proxy@sha256:0123"});
    let judged = |container: Value, version: Option<&str>| {
        let pod = Running::read(&pod("a", &json!([container]), &json!({}))).unwrap();
        let finding = judge(&[&pod], &[], version, |_| HISTORY).swap_remove(1);
        (finding.code, finding.status, finding.details)
    };
    let unknown = |why: &str| (Code::ProxyVersion, Status::Unknown, vec![format!("shop/a: {why}")]);
    assert_eq!(judged(by_digest, Some("v2")), unknown("its image has no tag"));
    assert_eq!(
        judged(proxy("v2"), None),
        unknown("nobody says which one is configured")
    );
}

#[test]
fn every_container_that_stays_may_clash() {
    let as_proxy = |name: &str, more: Value| {
        let mut container = json!({"name": name, "securityContext": {"runAsUser": 2102}});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        container
    };
    let clashing = |more: Value| {
        let mut pod = pod("a", &json!([proxy("v2"), {"name": "web"}]), &more);
        let inits = pod["spec"].as_object_mut().unwrap().entry("initContainers");
        let inits = inits.or_insert_with(|| json!([])).as_array_mut().unwrap();
        inits.insert(0, json!({"name": PROXY_INIT, "securityContext": {"runAsUser": 65534}}));
        Running::read(&pod).unwrap().proxy.unwrap().clashing
    };
    assert_eq!(clashing(json!({})), [""; 0]);
    assert_eq!(clashing(json!({"securityContext": {"runAsUser": 2102}})), ["web"]);
    let debug = as_proxy("debug", json!({}));
    assert_eq!(clashing(json!({"ephemeralContainers": [debug]})), ["debug"]);
    let inits = json!([
        as_proxy("setup", json!({})),
        as_proxy("agent", json!({"restartPolicy": "Always"}))
    ]);
    assert_eq!(clashing(json!({"initContainers": inits})), ["agent"]);
}

#[test]
fn only_where_traffic_is_redirected_can_it_pass_the_proxy_by() {
    let clashing = |inits: Value, setup: &str| {
        let web = json!({"name": "web", "securityContext": {"runAsUser": 2102}});
        let mut pod = pod("a", &json!([proxy("v2"), web]), &json!({"initContainers": inits}));
        pod["metadata"]["annotations"] = json!({SETUP_IPTABLES: setup});
        Running::read(&pod).unwrap().proxy.unwrap().clashing
    };
    let validated = || json!([{"name": NETWORK_VALIDATOR}]);
    assert_eq!(clashing(json!([]), "false"), [""; 0]);
    assert_eq!(clashing(validated(), "false"), [""; 0]);
    assert_eq!(clashing(validated(), "cni"), ["web"]);
    assert_eq!(clashing(json!([{"name": PROXY_INIT}]), "true"), ["web"]);
}

#[test]
fn a_pod_without_proxy_has_a_reason() {
    let bare = pod("a", &json!([{"name": "web"}]), &json!({}));
    assert_eq!(
        codes(slice::from_ref(&bare), &[(0, today("inject"))])[0],
        "pod_without_proxy"
    );
    assert_eq!(
        codes(slice::from_ref(&bare), &[(0, today("deny"))])[0],
        "pod_denied_now"
    );
    // A restart would not help it.
    assert_eq!(
        codes(slice::from_ref(&bare), &[(0, today("skip"))])[0],
        "pod_left_alone"
    );
    let opted_out = Today {
        asked: false,
        ..today("skip")
    };
    assert_eq!(codes(slice::from_ref(&bare), &[(0, opted_out)])[0], "proxies_present");
    let running = Running::read(&bare).unwrap();
    let told = |history: History<'_>| why(&running, &history);
    assert!(told(HISTORY).ends_with("did not answer (failurePolicy Ignore)"));
    let later = Some("2026-07-03T00:00:00Z");
    let registered = History {
        registered: later,
        ..HISTORY
    };
    assert!(told(registered).ends_with("before the webhook was registered"));
    let asks = History {
        asks_since: later,
        ..HISTORY
    };
    assert!(told(asks).ends_with("before the namespace got linkerd.io/inject"));
    let closed = History {
        fails_closed: true,
        ..HISTORY
    };
    assert!(told(closed).ends_with("without the webhook being asked"));
}

#[test]
fn a_namespace_remembers_since_when_it_asks() {
    let fields = json!({"f:metadata": {"f:annotations": {".": {}, "f:linkerd.io/inject": {}}}});
    let namespace = json!({"metadata": {"managedFields": [
        {"manager": "a", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
        {"manager": "b", "time": "2026-02-01T00:00:00Z", "fieldsV1": fields},
    ]}});
    assert_eq!(asks_since(&namespace).as_deref(), Some("2026-02-01T00:00:00Z"));
    assert_eq!(asks_since(&json!({"metadata": {}})), None);
}
