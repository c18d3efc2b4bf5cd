//! Whatever policies and pods look like: nothing panics, and what the first round takes it takes again unchanged.

use proptest::prelude::*;

use super::*;
use crate::policy::{Grants, Requester, Usable};

/// Any value for a field: of the right type, of a wrong one, too large.
fn value() -> impl Strategy<Value = Value> {
    let known = [
        "*",
        "ALL",
        "NET_ADMIN",
        "MustRunAs",
        "MayRunAs",
        "MustRunAsNonRoot",
        "RunAsAny",
        "Localhost",
        "RuntimeDefault",
        "localhost/",
        "runtime/default",
        "s0:c1",
        "Unmasked",
        "app",
        "p",
        "",
        "\u{2028}\"",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![0, 1, -1, 2102, i64::MAX, i64::MIN]).prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(1.5)),
        prop::sample::select(known.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let keys = [
            "rule",
            "ranges",
            "min",
            "max",
            "name",
            "driver",
            "pathPrefix",
            "path",
            "readOnly",
            "type",
            "level",
            "add",
            "drop",
            "seLinuxOptions",
            "defaultRuntimeClassName",
            "allowedRuntimeClassNames",
            "hostPath",
            "projected",
            "sources",
            "securityContext",
            "hostPort",
            "localhostProfile",
            "serviceAccountToken",
        ];
        let key = prop::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Changes to an object at some of `pointers`.
fn changes(pointers: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    prop::collection::vec((prop::sample::select(pointers), value()), 0..6)
}

/// Like [`put`], but a value that is in the way goes.
fn force(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/");
        if place.is_array() {
            let index: usize = token.parse().unwrap_or_default();
            let list = place.as_array_mut().unwrap();
            list.resize(list.len().max(index + 1), Value::Null);
            place = &mut list[index];
        } else {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[token];
        }
    }
    *place = value;
}

const OF_POLICY: &[&str] = &[
    "",
    "/metadata",
    "/metadata/annotations",
    "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1allowedProfileNames",
    "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1defaultProfileName",
    "/metadata/annotations/apparmor.security.beta.kubernetes.io~1defaultProfileName",
    "/spec",
    "/spec/runAsUser",
    "/spec/runAsGroup",
    "/spec/fsGroup/ranges",
    "/spec/supplementalGroups",
    "/spec/seLinux",
    "/spec/volumes",
    "/spec/allowedHostPaths",
    "/spec/hostPorts",
    "/spec/defaultAddCapabilities",
    "/spec/requiredDropCapabilities",
    "/spec/allowedCapabilities",
    "/spec/readOnlyRootFilesystem",
    "/spec/allowPrivilegeEscalation",
    "/spec/runtimeClass",
    "/spec/allowedProcMountTypes",
];

const OF_POD: &[&str] = &[
    "",
    "/metadata",
    "/metadata/annotations",
    "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod",
    "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app",
    "/spec",
    "/spec/securityContext",
    "/spec/securityContext/supplementalGroups",
    "/spec/securityContext/seccompProfile",
    "/spec/containers",
    "/spec/containers/1",
    "/spec/containers/0/name",
    "/spec/containers/0/ports",
    "/spec/containers/0/volumeMounts",
    "/spec/containers/0/securityContext",
    "/spec/containers/0/securityContext/capabilities",
    "/spec/containers/0/securityContext/runAsUser",
    "/spec/initContainers",
    "/spec/volumes",
    "/spec/runtimeClassName",
];

proptest! {
    #[test]
    fn what_is_taken_is_taken_again_unchanged(of_policy in changes(OF_POLICY), of_pod in changes(OF_POD)) {
        let (mut changed, mut json) = (policy("p", &[]), pod(&[]));
        for (pointer, value) in of_policy {
            force(&mut changed, pointer, value);
        }
        for (pointer, value) in of_pod {
            force(&mut json, pointer, value);
        }
        let policies = [changed];
        let applied = ask(&policies, &json, |admission, view| {
            admission.review(view).ok();
            admission.validate(view).ok();
            let admitted = admission.admit(view).ok()?;
            let mut pod = json.clone();
            admitted.apply(&mut pod);
            Some((pod, admitted.policy().to_owned()))
        });
        if let Some((applied, policy)) = applied {
            ask(&policies, &applied, |admission, view| {
                let again = admission.admit(view).map(|admitted| (admitted.policy().to_owned(), admitted.mutates()));
                prop_assert_eq!(again, Ok((policy.clone(), false)));
                prop_assert_eq!(admission.validate(view), Ok(policy.as_str()));
                Ok(())
            })?;
        }
    }

    #[test]
    fn grants_are_read_from_anything(objects in prop::collection::vec(value(), 0..3), namespace in ".{0,3}") {
        let granted = Grants::compile(&objects, Usable::PodSecurityPolicies);
        prop_assert!(!granted.of(&Requester::default(), &namespace).includes("p"));
    }
}
