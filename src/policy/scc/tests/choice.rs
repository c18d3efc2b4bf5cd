//! Which constraint takes a pod, and what is said where none does.

use super::*;

/// RBAC objects that let the service account `name` of the namespace use `constraint`.
fn grant(name: &str, constraint: &str) -> [Value; 2] {
    let role = format!("use-{constraint}");
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role},
            "rules": [{
                "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
                "resourceNames": [constraint], "verbs": ["use"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": "shop"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "shop"}],
        }),
    ]
}

/// A container as injection adds it: the user and the capabilities that it adds.
fn injected(user: i64, add: &[&str]) -> Value {
    json!({"name": "linkerd", "securityContext": {
        "allowPrivilegeEscalation": false,
        "capabilities": {"add": add, "drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }})
}

/// A pod of the service account `account` with the containers of one redirection.
fn meshed(account: &str, host_users: Option<bool>, init: bool) -> Value {
    let mut pod = pod(&[("/spec/serviceAccountName", json!(account))]);
    let add: &[&str] = if init { &["NET_ADMIN", "NET_RAW"] } else { &[] };
    pod["spec"]["initContainers"] = json!([injected(65534, add), injected(2102, &[])]);
    if let Some(host_users) = host_users {
        pod["spec"]["hostUsers"] = json!(host_users);
    }
    pod
}

fn taken_by(scene: &Scene, pod: &Value) -> Option<String> {
    scene.ask(pod).constraint
}

#[test]
fn a_bare_pod_gets_all_that_restricted_v2_gives() {
    let answer = Scene::built_in().ask(&pod(&[]));
    assert_eq!(answer.constraint.as_deref(), Some("restricted-v2"));
    assert_eq!(answer.users, Some(UserIds::Within(vec![1_000_680_000..=1_000_689_999])));
    assert_eq!(
        answer.pod,
        json!({
            "metadata": {"name": "web", "annotations": {
                "openshift.io/scc": "restricted-v2",
                "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
                "security.openshift.io/validated-scc-subject-type": "user",
            }},
            "spec": {
                "securityContext": {
                    "fsGroup": 1_000_680_000,
                    "seLinuxOptions": {"level": "s0:c26,c10"},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{"name": "app", "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                    "runAsNonRoot": true,
                    "runAsUser": 1_000_680_000,
                }}],
            },
        })
    );
}

#[test]
fn what_was_filled_in_is_not_filled_in_again() {
    let scene = Scene::built_in();
    let first = scene.ask(&pod(&[])).pod;
    let second = scene.ask(&first);
    assert_eq!(second.pod, first);
}

#[test]
fn a_meshed_pod_fits_few_of_the_built_in_ones() {
    for (constraint, cni, cni_inside, init) in [
        ("restricted-v2", false, false, false),
        ("hostnetwork-v2", false, false, false),
        ("restricted-v3", false, true, false),
        ("restricted", false, false, false),
        ("hostnetwork", false, false, false),
        ("hostaccess", false, false, false),
        ("nonroot", false, false, false),
        ("anyuid", false, false, false),
        ("hostmount-anyuid", false, false, false),
        ("nonroot-v2", true, true, false),
        ("privileged", true, true, true),
    ] {
        let named = |object: &Value| object["metadata"]["name"] == constraint;
        let constraints: Vec<_> = built_in::all().into_iter().filter(named).collect();
        let mut scene = Scene::new(&constraints).granting(&grant("web", constraint));
        scene.requester.groups.clear();
        let fits = |host_users, init| taken_by(&scene, &meshed("web", host_users, init)).is_some();
        assert_eq!(
            (fits(None, false), fits(Some(false), false), fits(None, true)),
            (cni, cni_inside, init),
            "{constraint}"
        );
    }
}

#[test]
fn a_user_in_the_namespaces_range_keeps_a_meshed_pod_with_restricted_v2() {
    let scene = Scene::built_in();
    let mut pod = scene.ask(&pod(&[])).pod;
    let proxy = |user: i64| json!([injected(1_000_680_000, &[]), injected(user, &[])]);
    pod["spec"]["initContainers"] = proxy(1_000_680_001);
    assert_eq!(taken_by(&scene, &pod).as_deref(), Some("restricted-v2"));
    pod["spec"]["initContainers"] = proxy(2102);
    assert_eq!(taken_by(&scene, &pod), None);
    let scene = scene.granting(&grant("default", "nonroot-v2"));
    assert_eq!(taken_by(&scene, &pod).as_deref(), Some("nonroot-v2"));
}

#[test]
fn a_refusal_says_what_is_wrong_with_each() {
    let message = Scene::built_in().ask(&meshed("web", None, true)).message;
    assert_eq!(
        message,
        "unable to validate against any security context constraint: [\
         provider \"anyuid\": Forbidden: not usable by user or serviceaccount, \
         provider restricted-v2: .initContainers[0].runAsUser: Invalid value: 65534: must be in the ranges: [1000680000, 1000689999], \
         provider restricted-v2: .initContainers[0].capabilities.add: Invalid value: \"NET_ADMIN\": capability may not be added, \
         provider restricted-v2: .initContainers[0].capabilities.add: Invalid value: \"NET_RAW\": capability may not be added, \
         provider restricted-v2: .initContainers[1].runAsUser: Invalid value: 2102: must be in the ranges: [1000680000, 1000689999], \
         provider restricted-v3: .spec.securityContext.hostUsers: Invalid value: null: Host Users must be set to false, \
         provider restricted-v3: .initContainers[0].capabilities.add: Invalid value: \"NET_ADMIN\": capability may not be added, \
         provider restricted-v3: .initContainers[0].capabilities.add: Invalid value: \"NET_RAW\": capability may not be added, \
         provider \"restricted\": Forbidden: not usable by user or serviceaccount, \
         provider \"nonroot-v2\": Forbidden: not usable by user or serviceaccount, \
         provider \"nonroot\": Forbidden: not usable by user or serviceaccount, \
         provider \"hostmount-anyuid\": Forbidden: not usable by user or serviceaccount, \
         provider \"hostnetwork-v2\": Forbidden: not usable by user or serviceaccount, \
         provider \"hostnetwork\": Forbidden: not usable by user or serviceaccount, \
         provider \"hostaccess\": Forbidden: not usable by user or serviceaccount, \
         provider \"privileged\": Forbidden: not usable by user or serviceaccount]"
    );
}

#[test]
fn where_the_older_restricted_would_do_it_is_said() {
    let escalating = pod(&[("$/allowPrivilegeEscalation", json!(true))]);
    let message = Scene::built_in().ask(&escalating).message;
    assert!(
        message.ends_with(
            "no access to scc/restricted: Forbidden: the pod fails to validate against the `restricted-v2` security context \
             constraint, but would validate successfully against the `restricted` security context constraint]"
        ),
        "{message}"
    );
}

#[test]
fn the_object_itself_names_users_and_groups() {
    let named = |name: &str, changes: Value| built_in::constraint(name, changes);
    let scene = Scene::new(&[
        named(
            "by-user",
            json!({"priority": 3, "users": ["system:serviceaccount:shop:web"]}),
        ),
        named(
            "by-group",
            json!({"priority": 2, "groups": ["system:serviceaccounts:shop"]}),
        ),
        named("by-creator", json!({"priority": 1, "groups": ["system:authenticated"]})),
        named(
            "other",
            json!({"priority": 9, "users": ["system:serviceaccount:other:web"], "groups": ["x"]}),
        ),
    ]);
    let of = |account: &str| scene.ask(&pod(&[("/spec/serviceAccountName", json!(account))]));
    let subject = |answer: &Answer| {
        let pointer = "/metadata/annotations/security.openshift.io~1validated-scc-subject-type";
        answer.pod.pointer(pointer).cloned()
    };
    assert_eq!(of("web").constraint.as_deref(), Some("by-user"));
    assert_eq!(of("api").constraint.as_deref(), Some("by-group"));
    assert_eq!(subject(&of("api")), Some(json!("serviceaccount")));
    // A service account is not in system:authenticated when it is asked about.
    let scene = Scene::new(&[named("by-creator", json!({"groups": ["system:authenticated"]}))]);
    assert_eq!(subject(&scene.ask(&pod(&[]))), Some(json!("user")));
}

#[test]
fn a_constraint_bound_to_nobody_is_never_taken() {
    let wide = built_in::constraint(
        "wide",
        json!({"priority": 10, "allowedCapabilities": ["NET_ADMIN", "NET_RAW"]}),
    );
    let mut constraints = built_in::all();
    constraints.push(wide);
    assert_eq!(
        taken_by(&Scene::new(&constraints), &pod(&[])).as_deref(),
        Some("restricted-v2")
    );
}

#[test]
fn a_pod_may_ask_for_one_constraint() {
    let required = |name: &str| pod(&[("/metadata/annotations/openshift.io~1required-scc", json!(name))]);
    let scene = Scene::built_in().granting(&grant("default", "nonroot"));
    assert_eq!(taken_by(&scene, &required("nonroot")).as_deref(), Some("nonroot"));
    assert_eq!(taken_by(&scene, &required("")).as_deref(), Some("restricted-v2"));
    assert_eq!(
        scene.refusal(&required("privileged")),
        "provider \"privileged\": Forbidden: not usable by user or serviceaccount"
    );
    assert_eq!(
        scene.refusal(&required("mine")),
        "failed to retrieve the required SCC \"mine\": securitycontextconstraints.security.openshift.io \"mine\" not found"
    );
}

#[test]
fn an_annotation_of_the_first_pass_binds_nobody() {
    let marked = pod(&[("/metadata/annotations/openshift.io~1scc", json!("privileged"))]);
    let answer = Scene::built_in().ask(&marked);
    assert_eq!(answer.constraint.as_deref(), Some("restricted-v2"));
    assert_eq!(
        answer.pod["metadata"]["annotations"]["openshift.io/scc"],
        "restricted-v2"
    );
}

#[test]
fn a_namespace_without_its_allotment_cannot_be_told_yet() {
    let scene = Scene {
        annotations: Value::Null,
        ..Scene::built_in()
    };
    assert_eq!(
        scene.ask(&pod(&[])).message,
        "unknown: error fetching namespace \"shop\": unable to find annotation openshift.io/sa.scc.uid-range, which \
         OpenShift writes soon after it is created"
    );
}

#[test]
fn an_allotment_that_cannot_be_read_refuses_every_pod() {
    let mut scene = Scene::one(json!({}));
    scene.annotations["openshift.io/sa.scc.uid-range"] = json!("many");
    assert_eq!(
        scene.refusal(&pod(&[])),
        "unable to find pre-allocated uid annotation for namespace shop while trying to configure SCC one: expected integer"
    );
}

#[test]
fn some_pods_are_none_of_theirs() {
    let root = pod(&[("$/privileged", json!(true))]);
    let windows = pod(&[("$/privileged", json!(true)), ("/spec/os", json!({"name": "windows"}))]);
    assert_ne!(Scene::built_in().ask(&root).message, "");
    assert_eq!(Scene::built_in().ask(&windows).message, "");
    assert_eq!(Scene::new(&[]).ask(&root).message, "");
    for (level, spared) in [("0", true), ("1", true), ("2", false)] {
        let scene = Scene {
            labels: json!({"openshift.io/run-level": level}),
            ..Scene::built_in()
        };
        assert_eq!(scene.ask(&root).message.is_empty(), spared, "{level}");
    }
}

#[test]
fn junk_is_judged_like_a_pod_without_fields() {
    for junk in [
        json!(null),
        json!([]),
        json!({"spec": 7}),
        json!({"metadata": [], "spec": {"containers": [null, 7]}}),
    ] {
        assert_eq!(
            Scene::built_in().ask(&junk).constraint.as_deref(),
            Some("restricted-v2"),
            "{junk}"
        );
    }
}
