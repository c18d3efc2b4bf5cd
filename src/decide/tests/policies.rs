//! Policies beside Pod Security.

use super::*;
use crate::policy::probe::{Answer, Cause, Finding};
use std::time::Duration;

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop"})
}

fn security_policy(name: &str, spec: &Value) -> Value {
    let mut whole = json!({
        "runAsUser": {"rule": "RunAsAny"}, "seLinux": {"rule": "RunAsAny"}, "fsGroup": {"rule": "RunAsAny"},
        "supplementalGroups": {"rule": "RunAsAny"}, "volumes": ["*"],
    });
    let fields = spec.as_object().unwrap().clone();
    whole.as_object_mut().unwrap().extend(fields);
    json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": name}, "spec": whole})
}

/// Lets everybody use every policy of `group`.
fn grant(group: &str, resource: &str) -> [Value; 2] {
    let version = "rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": ["use"]}]);
    let role = json!({"kind": "ClusterRole", "name": "use"});
    let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "use"}, "rules": rules}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "use"}, "roleRef": role,
               "subjects": everybody}),
    ]
}

fn with_security_policy(spec: &Value, coverage: Coverage) -> Case {
    let mut case = case().covered(coverage);
    case.release = 24;
    case.objects.push(security_policy("only", spec));
    case.objects.extend(grant("policy", "podsecuritypolicies"));
    case.pod["spec"]["securityContext"]["seccompProfile"].take();
    case
}

#[test]
fn a_manifest_without_a_service_account_is_judged_with_the_one_that_the_server_fills_in() {
    let mut case = with_security_policy(&json!({"allowedCapabilities": ["*"]}), Coverage::None);
    let binding = case.objects.last_mut().unwrap();
    binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": "shop", "name": "default"}]);
    let manifest = case.decide();
    assert!(!manifest.would_be_refused(), "{manifest:?}");
    // What comes from the server says itself whose it is.
    case.round = Round::Second;
    let of_nobody = case.annotated("kubernetes.io/psp", "only").decide();
    assert!(of_nobody.would_be_refused(), "{of_nobody:?}");
}

/// The proxy as it was added.
fn proxy(decision: &Decision) -> Value {
    container(decision, "linkerd-proxy")
}

fn container(decision: &Decision, name: &str) -> Value {
    let operations = json!(decision.patch);
    let mut added = operations
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| &operation["value"]);
    added.find(|value| value["name"] == name).unwrap().clone()
}

#[test]
fn a_security_policy_without_net_admin_leaves_the_plugin() {
    let allowing = json!({"allowedCapabilities": ["NET_ADMIN", "NET_RAW"]});
    let decision = with_security_policy(&allowing, Coverage::None).decide();
    assert_eq!(decision.redirection(), Redirection::InitContainer, "{decision:?}");
    let taken = &decision.policies[1];
    assert_eq!((taken.by, taken.policy.as_str()), ("pod-security-policy", "only"));

    let decision = with_security_policy(&json!({}), Coverage::All { nodes: 1 }).decide();
    assert_eq!(decision.redirection(), Redirection::Cni, "{decision:?}");

    let decision = with_security_policy(&json!({}), Coverage::None).decide();
    assert_eq!(decision.code(), "no_redirection_admitted", "{decision:?}");
    let message = decision.message();
    assert!(message.contains("PodSecurityPolicy: unable to admit pod"), "{message}");
    assert!(
        message.contains("let its service account use a PodSecurityPolicy"),
        "{message}"
    );
    assert!(
        !message.contains("pod-security.kubernetes.io/enforce=privileged"),
        "{message}"
    );
}

#[test]
fn what_a_security_policy_refuses_is_left_out_unless_another_policy_demands_it() {
    let mut case = with_security_policy(&json!({}), Coverage::Declared);
    let decision = case.decide();
    assert_eq!(proxy(&decision)["securityContext"]["seccompProfile"], Value::Null);
    let validator = container(&decision, "linkerd-network-validator");
    assert_eq!(validator["securityContext"]["seccompProfile"], Value::Null);

    case.labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    case.pod["spec"]["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"});
    case.objects[0]["metadata"]["annotations"] =
        json!({"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "runtime/default"});
    let decision = case.decide();
    assert_eq!(
        proxy(&decision)["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault",
        "{decision:?}"
    );
}

#[test]
fn a_refusal_says_what_no_variant_cures() {
    let message = with_security_policy(&json!({}), Coverage::None).decide().message();
    assert!(
        message.contains("NET_ADMIN") && !message.contains("eccomp"),
        "{message}"
    );

    // Where a variant breaks another policy, it comes no nearer.
    let mut case = with_security_policy(&json!({}), Coverage::None).enforcing("restricted");
    case.pod["spec"]["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"});
    let message = case.decide().message();
    assert!(!message.contains("seccompProfile (pod or container"), "{message}");
}

#[test]
fn security_policies_of_a_server_that_does_not_ask_them_do_not_count() {
    let mut case = with_security_policy(&json!({}), Coverage::None);
    case.round = Round::Second;
    assert_eq!(case.decide().redirection(), Redirection::InitContainer);
    case.pod["metadata"]["annotations"] = json!({"kubernetes.io/psp": "only"});
    assert_eq!(case.decide().code(), "no_redirection_admitted");
}

fn on_openshift(users: &Value, coverage: Coverage) -> Case {
    let mut case = case().covered(coverage);
    case.annotations["openshift.io/sa.scc.uid-range"] = "1000680000/10000".into();
    case.annotations["openshift.io/sa.scc.supplemental-groups"] = "1000680000/10000".into();
    case.annotations["openshift.io/sa.scc.mcs"] = "s0:c26,c10".into();
    case.objects.push(json!({
        "apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints", "metadata": {"name": "only"},
        "allowPrivilegeEscalation": false, "requiredDropCapabilities": ["ALL"], "runAsUser": users,
        "seLinuxContext": {"type": "MustRunAs"}, "fsGroup": {"type": "MustRunAs"},
        "supplementalGroups": {"type": "RunAsAny"}, "seccompProfiles": ["runtime/default"], "volumes": ["*"],
        "groups": ["system:authenticated"],
    }));
    case
}

#[test]
fn on_openshift_the_proxy_gets_a_user_of_the_range_that_nobody_has() {
    let range = json!({"type": "MustRunAsRange"});
    let mut case = on_openshift(&range, Coverage::Declared);
    let decision = case.decide();
    assert_eq!(decision.redirection(), Redirection::Cni, "{decision:?}");
    let user = proxy(&decision)["securityContext"]["runAsUser"].as_i64().unwrap();
    assert!((1_000_680_001..=1_000_689_999).contains(&user), "{user}");
    let validator = &container(&decision, "linkerd-network-validator")["securityContext"]["runAsUser"];
    assert!(
        *validator != user && validator.as_i64() >= Some(1_000_680_000),
        "{validator}"
    );
    let patch = json!(decision.patch).to_string();
    let annotation = format!("config.linkerd.io~1proxy-uid\",\"value\":\"{user}\"");
    assert!(patch.contains(&annotation), "{patch}");

    // The author's own choice is not overruled.
    case = case.annotated("config.linkerd.io/proxy-uid", "1000680077");
    assert_eq!(proxy(&case.decide())["securityContext"]["runAsUser"], 1_000_680_077);
    case = case.annotated("config.linkerd.io/proxy-uid", "2102");
    let decision = case.decide();
    assert_eq!(decision.code(), "no_redirection_admitted", "{decision:?}");
    assert!(
        decision.message().contains("[1000680000, 1000689999]"),
        "{}",
        decision.message()
    );
}

#[test]
fn what_is_unknown_keeps_nobody_from_a_remedy() {
    let mut case = on_openshift(&json!({"type": "MustRunAsRange"}), Coverage::Declared);
    let silent = || Answer::unknown(Cause::Timeout, "no answer");
    case.probe = Word::Found {
        finding: Arc::new(Finding {
            at: 0,
            labels: String::new(),
            plain: Answer::Admitted,
            init_container: Answer::Admitted,
            cni: silent(),
        }),
        age: Duration::ZERO,
    };
    let decision = case.decide();
    assert_eq!(decision.redirection(), Redirection::Cni, "{decision:?}");
    assert!(proxy(&decision)["securityContext"]["runAsUser"].as_i64() > Some(1_000_000_000));
}

#[test]
fn a_pod_that_is_not_known_to_be_refused_is_not_refused_anyway() {
    let mut case = on_openshift(&json!({"type": "MustRunAsRange"}), Coverage::None).enforcing("baseline");
    // A namespace to which OpenShift has not yet given its range.
    case.annotations
        .as_object_mut()
        .unwrap()
        .retain(|key, _| key == "linkerd.io/inject");
    let decision = case.decide();
    assert_eq!(decision.code(), "no_redirection_admitted", "{decision:?}");
}

#[test]
fn on_openshift_a_pod_that_is_left_alone_is_judged_as_the_constraint_leaves_it() {
    let range = json!({"type": "MustRunAsRange"});
    let bare = json!({"containers": [{"name": "web", "image": "web:1"}]});
    for annotation in ["linkerd.io/inject", "config.linkerd.io/proxy-uid"] {
        let mut case = on_openshift(&range, Coverage::None)
            .enforcing("restricted")
            .annotated(annotation, "disabled");
        case.pod["spec"] = bare.clone();
        case.objects[0]["requiredDropCapabilities"] = json!(["ALL"]);
        let decision = case.decide();
        let opinions: Vec<_> = decision.policies.iter().map(|it| (it.by, &it.verdict)).collect();
        assert!(
            opinions.iter().all(|(_, verdict)| **verdict == Verdict::Allowed),
            "{annotation}: {opinions:?}"
        );
        // The webhook sees the pod after that round, as it is.
        case.round = Round::Second;
        let decision = case.decide();
        let pod_security = decision.pod_security().map(|it| &it.verdict);
        assert!(matches!(pod_security, Some(Verdict::Denied { .. })), "{annotation}");
    }
}

#[test]
fn on_openshift_the_proxy_makes_way_for_an_application_of_its_user() {
    let mut case = on_openshift(&json!({"type": "RunAsAny"}), Coverage::Declared);
    case.pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 2102.into();
    let decision = case.decide();
    assert_eq!(decision.redirection(), Redirection::Cni, "{decision:?}");
    assert_eq!(proxy(&decision)["securityContext"]["runAsUser"], 2103);
    let patch = json!(decision.patch).to_string();
    assert!(
        patch.contains("config.linkerd.io~1proxy-uid\",\"value\":\"2103\""),
        "{patch}"
    );

    // Without seccomp profiles it makes way all the same.
    case.objects[0]["seccompProfiles"] = json!([]);
    case.pod["spec"]["securityContext"]["seccompProfile"] = Value::Null;
    let decision = case.decide();
    let context = &proxy(&decision)["securityContext"];
    assert_eq!(
        (&context["runAsUser"], &context["seccompProfile"]),
        (&json!(2103), &Value::Null)
    );

    // Not where its author asked for that user.
    let decision = case.annotated("config.linkerd.io/proxy-uid", "2102").decide();
    assert_eq!(decision.code(), "proxy_user_clash", "{decision:?}");
}

#[test]
fn one_user_is_too_few_for_application_and_proxy() {
    let mut case = on_openshift(&json!({"type": "MustRunAs", "uid": 77}), Coverage::Declared);
    case.pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 77.into();
    let message = case.decide().message();
    assert!(
        message.contains("only") && message.contains("no second UID is free"),
        "{message}"
    );
}

#[test]
fn what_a_quota_demands_is_filled_in() {
    let mut case = case().covered(Coverage::Declared);
    case.pod["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let hard = json!({"requests.cpu": "2", "requests.memory": "4Gi", "limits.cpu": "4", "limits.memory": "8Gi"});
    case.objects
        .push(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("q"), "spec": {"hard": hard}}));
    let decision = case.decide();
    let resources = json!({"requests": {"cpu": "100m", "memory": "20Mi"}, "limits": {"cpu": "1", "memory": "250Mi"}});
    for name in ["linkerd-proxy", "linkerd-network-validator"] {
        assert_eq!(container(&decision, name)["resources"], resources, "{decision:?}");
    }
    assert!(
        decision
            .warnings
            .iter()
            .any(|it| it.caution == Caution::FiguresFilledIn)
    );

    case.objects[0]["spec"]["hard"] = json!({"requests.memory": "1100Mi"});
    case.values = "{linkerdVersion: v1, proxy: {resources: {memory: {request: 100Mi}}}}";
    let message = case.decide().message();
    assert!(message.contains("exceeded quota: q"), "{message}");
}

#[test]
fn a_limit_range_is_named_with_both_figures() {
    let mut case = case().covered(Coverage::Declared);
    let limits = json!([{"type": "Container", "max": {"memory": "128Mi"}}]);
    case.objects
        .push(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("l"), "spec": {"limits": limits}}));
    case.pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "128Mi"}});
    let case = case.annotated("config.linkerd.io/proxy-memory-limit", "250Mi");
    let message = case.decide().message();
    for text in ["LimitRange l", "128Mi", "250Mi", "config.linkerd.io/proxy-"] {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert!(!message.contains("put the CNI plugin"), "{message}");
}

#[test]
fn a_pod_that_a_limit_range_refuses_as_it_came_is_patched() {
    let mut case = case().covered(Coverage::Declared);
    case.pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "2Mi"}});
    let limits = json!([{"type": "Container", "max": {"memory": "1Mi"}}]);
    case.objects
        .push(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("l"), "spec": {"limits": limits}}));
    let decision = case.decide();
    assert_eq!(decision.word(), "inject", "{decision:?}");
    assert!(decision.would_be_refused());
}
