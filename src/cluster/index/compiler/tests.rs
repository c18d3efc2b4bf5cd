use super::*;
use crate::cluster::index::{Index, Served};
use crate::policy::limits::Limits;
use serde_json::{Value, json};

fn objects() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules =
        |resource: &str, verb: &str| json!([{"apiGroups": ["policy"], "resources": [resource], "verbs": [verb]}]);
    let bound = |role: &str, subjects: Value| json!({"kind": "ClusterRole", "name": role, "subjects": subjects});
    let binding = |name: &str, bound: Value| {
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": name, "namespace": "shop"},
            "roleRef": bound, "subjects": bound["subjects"]})
    };
    vec![
        json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "p", "annotations":
            {"kubectl.kubernetes.io/last-applied-configuration": "{}", "other": "x"}}, "spec": {}}),
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "use"}, "rules": rules("podsecuritypolicies", "use")},
            {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": rules("*", "*")},
            {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "view"}, "rules": rules("podsecuritypolicies", "get")},
            {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "pods"}, "rules": rules("pods", "use")},
            binding("used", bound("use", json!([{"kind": "User", "name": "alice"}]))),
            binding("for-nobody", bound("use", json!([]))),
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": {"limits": []}},
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}},
        ]}),
    ]
}

fn sources() -> Sources {
    Index::from_objects(&objects(), None).unwrap().sources
}

/// The part that is known, and why it may be out of date.
fn present<P>(presence: Presence<P>) -> (Arc<P>, Option<Arc<str>>) {
    match presence {
        Presence::Present { policies, stale } => (policies, stale),
        Presence::Absent => panic!("absent"),
        Presence::Unknown { why } => panic!("unknown: {why}"),
    }
}

fn why<P>(presence: Presence<P>) -> String {
    match presence {
        Presence::Unknown { why } => why.to_string(),
        Presence::Absent | Presence::Present { .. } => panic!("known"),
    }
}

#[test]
fn only_what_concerns_policies_is_kept() {
    let sources = sources();
    let count = |source| sources.hearing(source).objects();
    assert_eq!(count(Source::ClusterRole), 2);
    assert_eq!((count(Source::Role), count(Source::RoleBinding)), (0, 1));
    assert_eq!((count(Source::LimitRange), count(Source::ResourceQuota)), (1, 1));
    let policy = sources.pod_security_policies.get("p").unwrap();
    assert_eq!(policy["metadata"]["annotations"], json!({"other": "x"}));
}

#[test]
fn manifests_make_policies_for_the_release_of_their_server() {
    let installed = |release| {
        let index = Index::from_objects(&objects(), Some(Release(release).into())).unwrap();
        Installed::clone(index.installed())
    };
    let old = installed(24);
    assert!(
        !present(old.pod_security_policies.clone())
            .0
            .policies
            .unusable()
            .is_empty()
    );
    assert!(matches!(old.constraints, Presence::Absent));
    assert!(!old.limits_of("shop").is_empty());
    assert!(!old.limits_of("default").is_empty(), "objects without a namespace");
    assert!(old.limits_of("other").is_empty());
    assert!(matches!(installed(25).pod_security_policies, Presence::Absent));
}

#[test]
fn what_the_server_does_not_tell_is_unknown() {
    let mut sources = Sources::default();
    let compile = |sources: &Sources| Compiler::default().compile(sources, None);
    assert!(!sources.are_heard());
    assert_eq!(
        why(compile(&sources).pod_security_policies),
        "the API server has not told yet"
    );
    sources.served.trouble = Some("refused".into());
    assert_eq!(why(compile(&sources).pod_security_policies), "refused");
    sources.served = Served {
        pod_security_policies: Some(true),
        constraints: Some(false),
        trouble: None,
    };
    assert_eq!(
        why(compile(&sources).pod_security_policies),
        "the API server has not told yet"
    );
    assert!(matches!(compile(&sources).constraints, Presence::Absent));
    sources.pod_security_policies.reset(Vec::new());
    assert!(matches!(compile(&sources).pod_security_policies, Presence::Absent));
    sources.limit_ranges.fail("forbidden".into());
    assert_eq!(why(compile(&sources).limits), "limitranges: forbidden");
}

#[test]
fn a_policy_is_known_with_those_who_may_use_it_only() {
    let mut sources = sources();
    let compile = |sources: &Sources| Compiler::default().compile(sources, None).pod_security_policies;
    assert_eq!(present(compile(&sources)).1, None);
    sources.roles.fail("gone".into());
    assert_eq!(present(compile(&sources)).1.as_deref(), Some("roles: gone"));
    sources.role_bindings.withhold("forbidden".into());
    assert_eq!(why(compile(&sources)), "rolebindings: forbidden");
}

#[test]
fn a_part_is_compiled_anew_only_where_its_objects_have_changed() {
    let (mut sources, mut compiler) = (sources(), Compiler::default());
    let first = compiler.compile(&sources, None);
    sources.quotas.apply("shop/q".into(), Limits::default());
    sources.roles.fail("gone".into());
    let second = compiler.compile(&sources, None);
    let policies = |installed: &Installed| present(installed.pod_security_policies.clone()).0;
    let limits = |installed: &Installed| present(installed.limits.clone()).0;
    assert!(Arc::ptr_eq(&policies(&first), &policies(&second)));
    assert!(!Arc::ptr_eq(&limits(&first), &limits(&second)));
    sources.cluster_roles.forget();
    sources.cluster_roles.reset(Vec::new());
    assert!(!Arc::ptr_eq(
        &policies(&second),
        &policies(&compiler.compile(&sources, None))
    ));
}

#[test]
fn policies_are_waited_for_once() {
    let mut index = Index::from_objects(&[], None).unwrap();
    index.sources = Sources::default();
    assert!(index.settled(), "what was known once keeps nobody waiting");
}
