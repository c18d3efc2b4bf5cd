//! Constraints made for pods, beside those that every cluster has.

use super::*;
use crate::policy::needs::{Needs, right};

/// A pod with what injection adds, by either way of redirection.
fn meshed(mut pod: Value, init: bool) -> Value {
    let context = |user: i64, add: &[&str]| {
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": user,
            "capabilities": {"add": add, "drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        })
    };
    let (name, added) = if init {
        ("linkerd-init", &["NET_ADMIN", "NET_RAW"][..])
    } else {
        ("linkerd-network-validator", &[][..])
    };
    pod["spec"]["initContainers"] = json!([{"name": name, "securityContext": context(65534, added)}]);
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "linkerd-proxy", "securityContext": context(2102, &[])}));
    pod
}

#[test]
fn a_pod_that_restricted_v2_took_first_is_taken_after_injection() {
    let app = |context: Value| json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "securityContext": context}]}});
    for context in [
        json!({}),
        json!({"runAsNonRoot": true, "readOnlyRootFilesystem": true}),
        json!({"runAsUser": 0}),
        json!({"capabilities": {"add": ["SYS_TIME"]}}),
        json!({"privileged": true}),
        json!({"capabilities": {"add": ["ALL"]}}),
    ] {
        for init in [false, true] {
            let pod = app(context.clone());
            let injected = meshed(pod.clone(), init);
            let mut needs = Needs::default();
            needs.add("Pod/web", &Pod::new(&injected));
            let made = tailored("made", &needs).object;
            let mut constraints = built_in::all();
            constraints.push(made);
            let mut scene = Scene::new(&constraints);
            let rights = right(
                Usable::SecurityContextConstraints,
                "made",
                "made-scc",
                "shop",
                ["default"],
            );
            scene.grants = Grants::compile(&rights, Usable::SecurityContextConstraints);
            let first = scene.ask(&pod);
            assert!(first.constraint.is_some(), "{context}: {}", first.message);
            let second = scene.ask(&meshed(first.pod, init));
            assert_eq!(
                second.constraint.as_deref(),
                Some("made"),
                "{context}: {}",
                second.message
            );
        }
    }
}

#[test]
fn root_is_admitted_where_it_is_asked_for_alone() {
    let made = |context: Value| {
        let pod = json!({"spec": {"containers": [{"name": "app", "securityContext": context}]}});
        let mut needs = Needs::default();
        needs.add("Pod/web", &Pod::new(&pod));
        tailored("made", &needs).object["runAsUser"]["type"].clone()
    };
    assert_eq!(made(json!({"runAsUser": 5})), "MustRunAsNonRoot");
    assert_eq!(made(json!({"runAsNonRoot": true})), "MustRunAsNonRoot");
    assert_eq!(made(json!({"runAsUser": 5, "runAsNonRoot": false})), "RunAsAny");
    assert_eq!(made(json!({})), "RunAsAny");
}
