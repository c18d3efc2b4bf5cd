use super::*;
use crate::pod::Pod;
use crate::policy::Requester;
use serde_json::json;

fn policy(name: &str) -> Value {
    let any = json!({"rule": "RunAsAny"});
    json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": name},
        "spec": {"runAsUser": any, "seLinux": any, "fsGroup": any, "supplementalGroups": any}})
}

fn constraint(name: &str, user: &str) -> Value {
    json!({"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints", "metadata": {"name": name},
        "users": [user], "runAsUser": {"type": "RunAsAny"}, "seLinuxContext": {"type": "RunAsAny"},
        "fsGroup": {"type": "RunAsAny"}, "supplementalGroups": {"type": "RunAsAny"}})
}

fn quota(namespace: &str, name: &str, pods: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": namespace, "name": name},
        "spec": {"hard": {"pods": pods}}})
}

fn grants() -> [Value; 2] {
    let version = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": {"namespace": "shop", "name": "r"},
            "rules": [{"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "verbs": ["use"]}]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": {"namespace": "shop", "name": "b"},
            "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "system:authenticated"}]}),
    ]
}

fn present<P>(presence: Presence<P>) -> Option<Arc<P>> {
    match presence {
        Presence::Present { policies, stale: None } => Some(policies),
        Presence::Absent => None,
        Presence::Present { stale: Some(why), .. } | Presence::Unknown { why } => panic!("{why}"),
    }
}

#[test]
fn a_cluster_without_policies_has_none() {
    let installed = Installed::compile(&grants(), Release(24));
    assert!(present(installed.pod_security_policies.clone()).is_none());
    assert!(present(installed.constraints.clone()).is_none());
    assert!(present(installed.limits.clone()).is_some());
    assert!(installed.limits_of("shop").is_empty());
}

#[test]
fn policies_come_with_their_grants_until_the_server_drops_them() {
    let objects = [vec![policy("a"), policy("b")], grants().into()].concat();
    let installed = Installed::compile(&objects, Release(24));
    let known = present(installed.pod_security_policies).unwrap();
    let takes = |namespace| {
        let question = pod_security_policy::Question {
            release: Release(24),
            policies: &known.policies,
            grants: &known.grants,
            namespace,
            requester: &Requester::named("alice"),
            service_account: None,
        };
        let pod = json!({"spec": {"containers": [{"name": "web"}]}});
        question.admission().review(&Pod::new(&pod)).map(str::to_owned)
    };
    assert_eq!(takes("shop"), Ok("a".to_owned()));
    assert!(takes("other").is_err());
    let later = Installed::compile(&objects, Release(25));
    assert!(present(later.pod_security_policies).is_none());
}

#[test]
fn a_later_object_takes_the_place_of_an_earlier_one() {
    let objects = [constraint("a", "x"), constraint("b", "x"), constraint("a", "y")];
    let installed = Installed::compile(&objects, Release(30));
    let known = present(installed.constraints).unwrap();
    let mut names: Vec<_> = known.policies.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn limits_hold_in_their_namespace() {
    let unnamed = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}});
    let objects = [quota("shop", "one", "5"), quota("shop", "two", "0"), unnamed];
    let installed = Installed::compile(&objects, Release(30));
    let pod = json!({"spec": {"containers": [{"name": "web"}]}});
    let verdict = |namespace| {
        let review = installed.limits_of(namespace).review(&Pod::new(&pod), Release(30));
        review.map_or_else(|refusal| refusal.message, |()| String::new())
    };
    assert_eq!(
        verdict("shop"),
        "exceeded quota: two, requested: pods=1, used: pods=0, limited: pods=0"
    );
    assert_eq!(
        verdict("default"),
        "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    );
    assert_eq!(verdict("other"), "");
}

#[test]
fn kinds_are_told_apart_by_group() {
    let of = |version: &str, kind: &str| Source::of(&json!({"apiVersion": version, "kind": kind}));
    assert_eq!(
        of("extensions/v1beta1", "PodSecurityPolicy"),
        Some(Source::PodSecurityPolicy)
    );
    assert_eq!(of("rbac.authorization.k8s.io/v1beta1", "Role"), Some(Source::Role));
    assert_eq!(of("iam.example.org/v1", "Role"), None);
    assert_eq!(of("apps/v1", "LimitRange"), None);
    for source in Source::ALL {
        assert_eq!(of(&source.api_version(), source.kind()), Some(source));
    }
}

#[test]
fn what_was_not_heard_is_unknown() {
    let installed = Installed::default();
    assert!(matches!(installed.pod_security_policies, Presence::Unknown { .. }));
    assert!(matches!(installed.constraints, Presence::Unknown { .. }));
    assert!(matches!(installed.limits, Presence::Unknown { .. }));
    assert!(installed.limits_of("shop").is_empty());
}
