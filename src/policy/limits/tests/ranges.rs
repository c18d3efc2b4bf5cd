//! `LimitRange`s.

use super::*;

fn bounds(entry: Value) -> [Value; 1] {
    let mut entry = entry;
    if entry.get("type").is_none() {
        entry["type"] = json!("Container");
    }
    [range("bounds", &json!([entry]))]
}

#[test]
fn a_maximum_bounds_limits_and_requests() {
    let max = || bounds(json!({"max": {"cpu": "1", "memory": "128Mi"}}));
    let app = || container("app", "100m 64Mi", "200m 128Mi");
    assert_eq!(message(&max(), &pod(&[], &[app()])), "");
    let proxy = sidecar(container("linkerd-proxy", "50m 32Mi", "1 250Mi"));
    let refusal = review_on(SERVER, &max(), &pod(&[proxy], &[app()])).unwrap_err();
    assert_eq!(refusal.by, Refuser::LimitRange("bounds".to_owned()));
    assert_eq!(refusal.containers, ["linkerd-proxy"]);
    assert_eq!(
        refusal.to_string(),
        "LimitRange bounds: maximum memory usage per Container is 128Mi, but limit is 250Mi (linkerd-proxy)"
    );
}

#[test]
fn a_minimum_bounds_requests_and_limits() {
    let min = || bounds(json!({"min": {"cpu": "100m"}}));
    let said = |requests: &str, limits: &str| message(&min(), &pod(&[], &[container("app", requests, limits)]));
    assert_eq!(said("100m -", "- -"), "");
    assert_eq!(
        said("50m -", "- -"),
        "minimum cpu usage per Container is 100m, but request is 50m"
    );
    assert_eq!(
        said("- -", "50m -"),
        "minimum cpu usage per Container is 100m, but request is 50m"
    );
    // What is missing is filled in from the minimum.
    assert_eq!(said("- -", "- -"), "");
}

#[test]
fn a_ratio_bounds_limits_by_requests() {
    let ratio = || bounds(json!({"maxLimitRequestRatio": {"cpu": "2"}}));
    let said = |requests: &str, limits: &str| message(&ratio(), &pod(&[], &[container("app", requests, limits)]));
    assert_eq!(said("100m -", "200m -"), "");
    assert_eq!(
        said("100m -", "1 -"),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000"
    );
    assert_eq!(
        said("300m -", "1 -"),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333"
    );
    assert_eq!(
        said("- -", "- -"),
        "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"
    );
    assert_eq!(
        said("1 -", "- -"),
        "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"
    );
}

#[test]
fn defaults_are_filled_in_for_every_kind_of_container() {
    let defaults = || bounds(json!({"default": {"cpu": "100m"}, "defaultRequest": {"cpu": "50m"}}));
    let demanding = quota("q", &json!({"requests.cpu": "10", "limits.cpu": "10"}));
    let bare = |name: &str| json!({"name": name});
    let with_init = pod(&[bare("linkerd-init"), sidecar(bare("linkerd-proxy"))], &[bare("app")]);
    let [defaults_only] = defaults();
    assert_eq!(message(&[defaults_only, demanding], &with_init), "");
    // A default limit below a request that is there makes a pod that the API does not take.
    let proxy = container("linkerd-proxy", "200m -", "- -");
    let refusal = review_on(SERVER, &defaults(), &pod(&[], &[bare("app"), proxy])).unwrap_err();
    assert_eq!(refusal.by, Refuser::Validation);
    assert_eq!(refusal.containers, ["linkerd-proxy"]);
    assert_eq!(
        refusal.message,
        "spec.containers[1].resources.requests: Invalid value: \"200m\": must be less than or equal to cpu limit of 100m"
    );
}

#[test]
fn a_maximum_is_a_default_too() {
    let max = bounds(json!({"max": {"cpu": "1"}}));
    assert_eq!(message(&max, &pod(&[], &[json!({"name": "app"})])), "");
}

#[test]
fn pods_are_bounded_by_what_runs_together() {
    let max = || bounds(json!({"type": "Pod", "max": {"memory": "200Mi"}}));
    let app = || container("app", "- -", "- 150Mi");
    let said = |init: &[Value]| message(&max(), &pod(init, &[app()]));
    assert_eq!(said(&[]), "");
    assert_eq!(said(&[container("linkerd-init", "- -", "- 200Mi")]), "");
    assert_eq!(
        said(&[sidecar(container("linkerd-proxy", "- -", "- 100Mi"))]),
        "maximum memory usage per Pod is 200Mi, but limit is 250Mi"
    );
    assert_eq!(
        said(&[
            sidecar(container("proxy", "- -", "- 50Mi")),
            container("after", "- -", "- 151Mi")
        ]),
        "maximum memory usage per Pod is 200Mi, but limit is 201Mi"
    );
    assert_eq!(
        message(&max(), &pod(&[], &[json!({"name": "app"})])),
        "maximum memory usage per Pod is 200Mi.  No limit is specified"
    );
}

#[test]
fn before_1_28_a_pod_has_only_what_all_containers_have() {
    let max = bounds(json!({"type": "Pod", "max": {"memory": "200Mi"}}));
    let mixed = pod(&[], &[container("app", "- -", "- 150Mi"), json!({"name": "bare"})]);
    let refusal = |server: u32| review_on(Release(server), &max, &mixed).map_err(|refusal| refusal.message);
    assert_eq!(
        refusal(27),
        Err("maximum memory usage per Pod is 200Mi.  No limit is specified".to_owned())
    );
    assert_eq!(refusal(28), Ok(()));
}

#[test]
fn several_errors_are_one_sentence_each_and_the_first_object_speaks() {
    let entry = json!({"type": "Container", "max": {"cpu": "1", "memory": "1Mi"}});
    let objects = [range("b", &json!([entry])), range("a", &json!([entry]))];
    let refusal = review_on(
        SERVER,
        &objects,
        &pod(&[], &[container("x", "- -", "2 2Mi"), container("y", "- -", "2 2Mi")]),
    );
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.by, Refuser::LimitRange("a".to_owned()));
    assert_eq!(refusal.containers, ["x", "y"]);
    assert_eq!(
        refusal.message,
        "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Mi, but limit is 2Mi]"
    );
}

#[test]
fn other_objects_and_junk_bound_nothing() {
    let objects = [
        json!(null),
        json!({"kind": "LimitRange"}),
        range(
            "pvc",
            &json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}, 7, {"type": "Container", "max": {"cpu": []}}]),
        ),
        json!({"kind": "ResourceQuota", "spec": {"hard": []}}),
    ];
    assert_eq!(message(&objects, &pod(&[], &[json!({"name": "app"})])), "");
    assert_eq!(message(&objects, &json!(null)), "");
}
