use super::*;
use crate::cli::check::finding::Status;
use serde_json::json;
use std::slice;

/// A configuration called `name` whose one entry is the injector's, changed by `change`.
fn injector(name: &str, change: &Value) -> Value {
    let mut entry = json!({
        "name": "linkerd-proxy-injector.linkerd.io",
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "clientConfig": {"service": {"namespace": "linkerd", "name": "linkerd-proxy-injector"}},
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "NoneOnDryRun",
    });
    let fields = change.as_object().cloned().unwrap_or_default();
    entry.as_object_mut().unwrap().extend(fields);
    json!({"metadata": {"name": name}, "webhooks": [entry]})
}

fn meshed(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels, "annotations": {INJECT: "enabled"}}})
}

fn codes(
    configurations: &[Value],
    namespaces: &[Value],
    release: u32,
    endpoints: Option<Endpoints>,
) -> Vec<&'static str> {
    let registration = Registration {
        webhooks: &Webhook::all(configurations),
        namespaces,
        release: Release(release),
        endpoints,
        whose: None,
    };
    let findings = judge(&registration);
    let bad = findings.iter().filter(|finding| finding.status != Status::Ok);
    bad.map(|finding| finding.code.word()).collect()
}

#[test]
fn a_usual_registration_is_well() {
    let all = [injector("a", &json!({}))];
    assert_eq!(
        codes(&all, &[meshed("shop", &json!({}))], 36, Some(Endpoints::Ready)),
        [""; 0]
    );
    assert_eq!(codes(&[], &[], 36, None), ["webhook_not_registered"]);
}

#[test]
fn namespaces_that_the_selector_leaves_out_are_named() {
    let opt_in = json!({"namespaceSelector": {"matchLabels": {INJECT: "enabled"}}});
    let all = [injector("a", &opt_in)];
    let annotated = meshed("shop", &json!({}));
    let labelled = meshed("bank", &json!({INJECT: "enabled"}));
    assert_eq!(
        codes(&all, slice::from_ref(&annotated), 36, None),
        ["selector_never_matches"]
    );
    assert_eq!(
        codes(&all, &[annotated.clone(), labelled], 36, None),
        ["namespaces_not_selected"]
    );
    let webhooks = Webhook::all(&all);
    let finding = selected(&webhooks[0], &[annotated]).unwrap();
    assert_eq!(
        finding.details,
        ["shop: namespaceSelector wants linkerd.io/inject In [enabled], which is here an annotation"]
    );
}

#[test]
fn what_comes_later_must_be_seen() {
    let other = json!({"metadata": {"name": "z"}, "webhooks": [{"name": "z.example.com", "rules": [
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}]});
    let never = injector("a", &json!({"reinvocationPolicy": "Never"}));
    assert_eq!(
        codes(&[never.clone(), other.clone()], &[], 36, None),
        ["webhook_not_reinvoked"]
    );
    let first = json!({"metadata": {"name": "0"}, "webhooks": other["webhooks"]});
    assert_eq!(codes(&[never, first], &[], 36, None), [""; 0]);
    assert_eq!(codes(&[injector("a", &json!({})), other], &[], 36, None), [""; 0]);
}

#[test]
fn the_rest_of_the_registration_is_looked_at() {
    let with = |change: Value| [injector("a", &change)];
    assert_eq!(
        codes(&[injector("a", &json!({})), injector("b", &json!({}))], &[], 36, None),
        ["webhook_registered_twice"]
    );
    assert_eq!(
        codes(&with(json!({"rules": []})), &[], 36, None),
        ["webhook_without_pods"]
    );
    for endpoints in [Endpoints::NoneReady, Endpoints::NoService] {
        assert_eq!(
            codes(&with(json!({})), &[], 36, Some(endpoints)),
            ["webhook_without_endpoints"]
        );
    }
    assert_eq!(
        codes(&with(json!({"sideEffects": "Some"})), &[], 36, None),
        ["dry_run_unsupported"]
    );
    let aks =
        json!({"namespaceSelector": {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}});
    assert_eq!(codes(&with(aks), &[], 36, None), ["selector_rewritten"]);
    let best_effort = |resource: &str| {
        json!({"metadata": {"name": "a"}, "webhooks": [
            {"name": "best-effort.linkerd-proxy-injector.linkerd.io", "rules": [{"resources": [resource]}]}]})
    };
    let beside = |resource: &str| codes(&[injector("b", &json!({})), best_effort(resource)], &[], 27, None);
    assert_eq!(beside("deployments"), ["match_conditions_unknown"]);
    assert_eq!(beside("services"), [""; 0]);
    let failing = with(json!({"failurePolicy": "Fail"}));
    assert_eq!(codes(&failing, &[], 27, None), ["match_conditions_unknown"]);
    assert_eq!(codes(&failing, &[], 28, None), [""; 0]);
}
