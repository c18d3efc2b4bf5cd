//! `ResourceQuota`s.

use super::*;

fn hard() -> Value {
    json!({"requests.cpu": "2", "requests.memory": "4Gi", "limits.cpu": "4", "limits.memory": "8Gi"})
}

fn app() -> Value {
    container("app", "200m 128Mi", "500m 256Mi")
}

#[test]
fn every_container_must_have_what_is_counted() {
    let bare = json!({"name": "linkerd-network-validator"});
    let proxy = sidecar(container("linkerd-proxy", "100m 20Mi", "- -"));
    let refusal = review_on(SERVER, &[quota("compute", &hard())], &pod(&[bare, proxy], &[app()])).unwrap_err();
    assert_eq!(refusal.containers, ["linkerd-network-validator", "linkerd-proxy"]);
    assert_eq!(
        refusal.message,
        "failed quota: compute: must specify limits.cpu for: linkerd-network-validator,linkerd-proxy; \
         limits.memory for: linkerd-network-validator,linkerd-proxy; requests.cpu for: linkerd-network-validator; \
         requests.memory for: linkerd-network-validator"
    );
    assert_eq!(message(&[quota("compute", &hard())], &pod(&[], &[app()])), "");
}

#[test]
fn what_is_demanded_is_told() {
    let limits = Limits::compile(&[
        quota("compute", &json!({"limits.cpu": "1", "memory": "1Gi", "pods": "3"})),
        json!({"kind": "ResourceQuota", "metadata": {"name": "jobs"},
            "spec": {"hard": {"limits.memory": "1"}, "scopes": ["Terminating"]}}),
    ]);
    let demanded = |pod: &Value| {
        limits
            .demanded(&Pod::new(pod), SERVER)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(demanded(&pod(&[], &[app()])), ["limits.cpu", "memory"]);
    let mut job = pod(&[], &[app()]);
    job["spec"]["activeDeadlineSeconds"] = json!(60);
    assert_eq!(demanded(&job), ["limits.cpu", "limits.memory", "memory"]);
    let mut whole = pod(&[], &[app()]);
    whole["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    assert!(demanded(&whole).is_empty());
}

#[test]
fn what_is_used_already_counts() {
    let used = |used: Value| {
        let mut quota = quota("compute", &json!({"limits.cpu": "9"}));
        quota["status"] = json!({"hard": {"limits.cpu": "4", "pods": "3"}, "used": used});
        [quota]
    };
    let pod = pod(&[sidecar(container("linkerd-proxy", "- -", "1 -"))], &[app()]);
    assert_eq!(message(&used(json!({"limits.cpu": "2500m", "pods": "2"})), &pod), "");
    assert_eq!(
        message(&used(json!({"limits.cpu": "3500m", "pods": "3"})), &pod),
        "exceeded quota: compute, requested: limits.cpu=1500m,pods=1, used: limits.cpu=3500m,pods=3, limited: \
         limits.cpu=4,pods=3"
    );
    // Still being counted.
    assert_eq!(message(&used(json!({"pods": "0"})), &pod), "");
}

#[test]
fn a_quota_without_a_status_is_unused() {
    let small = [quota("small", &json!({"requests.cpu": "250m"}))];
    assert_eq!(message(&small, &pod(&[], &[app()])), "");
    assert_eq!(
        message(&small, &pod(&[sidecar(container("p", "100m -", "- -"))], &[app()])),
        "exceeded quota: small, requested: requests.cpu=300m, used: requests.cpu=0, limited: requests.cpu=250m"
    );
}

#[test]
fn an_init_container_counts_for_what_it_needs_alone() {
    let small = [quota("small", &json!({"memory": "256Mi"}))];
    let said = |init: &[Value]| message(&small, &pod(init, &[container("app", "- 200Mi", "- -")]));
    assert_eq!(said(&[container("linkerd-init", "- 256Mi", "- -")]), "");
    assert_eq!(
        said(&[
            sidecar(container("p", "- 20Mi", "- -")),
            container("i", "- 250Mi", "- -")
        ]),
        "exceeded quota: small, requested: memory=270Mi, used: memory=0, limited: memory=256Mi"
    );
}

#[test]
fn overhead_is_counted() {
    let small = [quota("small", &json!({"cpu": "250m", "limits.cpu": "500m"}))];
    let mut pod = pod(&[], &[app()]);
    pod["spec"]["overhead"] = json!({"cpu": "100m"});
    assert_eq!(
        message(&small, &pod),
        "exceeded quota: small, requested: cpu=300m,limits.cpu=600m, used: cpu=0,limits.cpu=0, limited: cpu=250m,limits.cpu=500m"
    );
}

#[test]
fn scopes_say_which_pods_count() {
    let counts = |spec: &Value, changes: &[(&str, Value)]| {
        let mut quota = quota("scoped", &json!({"pods": "0"}));
        for (key, value) in spec.as_object().unwrap() {
            quota["spec"][key] = value.clone();
        }
        let mut pod = pod(&[], &[app()]);
        for (key, value) in changes {
            pod["spec"][key] = value.clone();
        }
        !message(&[quota], &pod).is_empty()
    };
    let scopes = |names: &[&str]| json!({"scopes": names});
    let deadline = [("activeDeadlineSeconds", json!(1))];
    assert!(counts(&scopes(&["Terminating"]), &deadline));
    assert!(!counts(&scopes(&["Terminating"]), &[]));
    assert!(counts(&scopes(&["NotTerminating", "NotBestEffort"]), &[]));
    assert!(!counts(&scopes(&["NotTerminating", "BestEffort"]), &[]));
    assert!(counts(
        &scopes(&["BestEffort"]),
        &[("containers", json!([{"name": "bare"}]))]
    ));
    assert!(!counts(&scopes(&["VolumeAttributesClass"]), &[]));
    let class = [("priorityClassName", json!("high"))];
    let selector = |operator: &str, values: &[&str]| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    for (operator, values, with, without) in [
        ("In", ["high"].as_slice(), true, false),
        ("In", &["low"], false, false),
        ("NotIn", &["high"], false, true),
        ("NotIn", &["low"], true, true),
        ("Exists", &[], true, false),
        ("DoesNotExist", &[], false, true),
        ("Near", &[], false, false),
    ] {
        let spec = selector(operator, values);
        assert_eq!(
            (counts(&spec, &class), counts(&spec, &[])),
            (with, without),
            "{operator} {values:?}"
        );
    }
    let affinity = |kind: &str, term: Value| [("affinity", json!({"podAntiAffinity": {kind: [term]}}))];
    let cross = scopes(&["CrossNamespacePodAffinity"]);
    assert!(counts(
        &cross,
        &affinity(
            "requiredDuringSchedulingIgnoredDuringExecution",
            json!({"namespaces": ["x"]})
        )
    ));
    assert!(counts(
        &cross,
        &affinity(
            "preferredDuringSchedulingIgnoredDuringExecution",
            json!({"podAffinityTerm": {"namespaceSelector": {}}})
        )
    ));
    assert!(!counts(
        &cross,
        &affinity(
            "requiredDuringSchedulingIgnoredDuringExecution",
            json!({"namespaces": []})
        )
    ));
}

#[test]
fn a_quota_of_other_things_counts_no_pod() {
    let other = quota(
        "other",
        &json!({"services": "0", "requests.storage": "0", "count/secrets": "0"}),
    );
    assert_eq!(message(&[other], &pod(&[], &[json!({"name": "bare"})])), "");
}

#[test]
fn extended_resources_are_counted_by_request() {
    let mut app = app();
    app["resources"]["limits"]["nvidia.com/gpu"] = json!("2");
    let gpu = [quota("gpu", &json!({"requests.nvidia.com/gpu": "1"}))];
    assert_eq!(
        message(&gpu, &pod(&[], &[app])),
        "exceeded quota: gpu, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0, limited: \
         requests.nvidia.com/gpu=1"
    );
}
