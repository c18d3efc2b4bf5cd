//! Figures of a whole pod, and validation.

use super::*;

/// The application's pod with figures of its own, and an injected proxy.
fn with_whole(whole: Value, proxy: Value) -> Value {
    let mut pod = pod(&[], &[container("app", "120m 64Mi", "- 128Mi"), proxy]);
    pod["spec"]["resources"] = whole;
    pod
}

#[test]
fn the_whole_must_hold_its_parts() {
    let proxy = || container("linkerd-proxy", "100m 20Mi", "1 250Mi");
    assert_eq!(
        message(&[], &with_whole(json!({"requests": {"cpu": "150m"}}), proxy())),
        "spec.resources.requests[cpu]: Invalid value: \"150m\": must be greater than or equal to aggregate container requests of 220m"
    );
    assert_eq!(
        message(&[], &with_whole(json!({"limits": {"memory": "200Mi"}}), proxy())),
        "spec.resources.containers[1][memory].limits: Invalid value: \"250Mi\": must be less than or equal to pod limits of 200Mi"
    );
    assert_eq!(
        message(
            &[],
            &with_whole(json!({"limits": {"cpu": "1", "memory": "300Mi"}}), proxy())
        ),
        ""
    );
}

#[test]
fn a_sidecar_may_have_a_greater_limit_than_the_whole() {
    let mut pod = pod(
        &[sidecar(container("linkerd-proxy", "- 20Mi", "- 250Mi"))],
        &[container("app", "- 64Mi", "- -")],
    );
    pod["spec"]["resources"] = json!({"limits": {"memory": "200Mi"}});
    assert_eq!(message(&[], &pod), "");
}

#[test]
fn servers_before_1_34_know_no_whole() {
    let pod = with_whole(json!({"requests": {"cpu": "1m"}}), json!({"name": "linkerd-proxy"}));
    assert!(review_on(Release(34), &[], &pod).is_err());
    assert_eq!(review_on(Release(33), &[], &pod), Ok(()));
}

#[test]
fn the_whole_stands_in_for_its_parts() {
    let whole = || {
        with_whole(
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}),
            json!({"name": "bare"}),
        )
    };
    let demanding = quota("q", &json!({"requests.cpu": "4", "limits.memory": "4Gi"}));
    assert_eq!(message(&[demanding], &whole()), "");
    assert_eq!(
        message(&[quota("q", &json!({"limits.memory": "1Gi"}))], &whole()),
        "exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1Gi"
    );
    let max = range("pods", &json!([{"type": "Pod", "max": {"cpu": "1500m"}}]));
    assert_eq!(
        message(&[max], &whole()),
        "maximum cpu usage per Pod is 1500m, but limit is 2"
    );
}

#[test]
fn requests_of_the_whole_come_from_its_parts() {
    let pod = with_whole(
        json!({"limits": {"cpu": "1"}}),
        container("linkerd-proxy", "100m -", "- -"),
    );
    assert_eq!(
        message(&[quota("q", &json!({"requests.cpu": "200m"}))], &pod),
        "exceeded quota: q, requested: requests.cpu=220m, used: requests.cpu=0, limited: requests.cpu=200m"
    );
}

#[test]
fn requests_stay_within_limits() {
    let pod = pod(
        &[container("linkerd-init", "2 -", "1 -")],
        &[container("app", "- 1Gi", "- 1Mi")],
    );
    let refusal = review_on(SERVER, &[], &pod).unwrap_err();
    assert_eq!(refusal.containers, ["app", "linkerd-init"]);
    assert_eq!(
        refusal.message,
        "[spec.containers[0].resources.requests: Invalid value: \"1Gi\": must be less than or equal to memory limit of 1Mi, \
         spec.initContainers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1]"
    );
}

#[test]
fn what_cannot_be_overcommitted_is_requested_as_it_is_limited() {
    let mut app = container("app", "1 -", "1 -");
    app["resources"]["requests"]["nvidia.com/gpu"] = json!(1);
    app["resources"]["limits"]["nvidia.com/gpu"] = json!(2);
    assert_eq!(
        message(&[], &pod(&[], &[app])),
        "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"
    );
}
