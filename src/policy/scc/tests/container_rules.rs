//! What rules about containers fill in and refuse.

use super::*;

#[test]
fn must_run_as_one_user() {
    let one = || json!({"runAsUser": {"type": "MustRunAs", "uid": 8_939_100}});
    assert_eq!(stored(one(), &[], "$/runAsUser"), 8_939_100);
    assert_eq!(stored(one(), &[], "$/runAsNonRoot"), true);
    assert_eq!(
        stored(one(), &[("@/runAsUser", json!(8_939_100))], "$/runAsUser"),
        Value::Null
    );
    assert_eq!(
        refusal(one(), &[("$/runAsUser", json!(2102))]),
        ".containers[0].runAsUser: Invalid value: 2102: must be: 8939100"
    );
    assert_eq!(
        refusal(json!({"runAsUser": {"type": "MustRunAs"}}), &[]),
        "error creating provider for SCC one in namespace shop: MustRunAs requires a UID"
    );
}

#[test]
fn must_run_as_a_user_in_range() {
    assert_eq!(stored(json!({}), &[], "$/runAsUser"), 1_000_680_000);
    assert_eq!(
        stored(json!({}), &[("$/runAsUser", json!(1_000_689_999))], "$/runAsUser"),
        1_000_689_999
    );
    assert_eq!(
        refusal(json!({}), &[("$/runAsUser", json!(1_000_690_000))]),
        ".containers[0].runAsUser: Invalid value: 1000690000: must be in the ranges: [1000680000, 1000689999]"
    );
    let own = || json!({"runAsUser": {"type": "MustRunAsRange", "uidRangeMin": 5, "uidRangeMax": 6}});
    assert_eq!(stored(own(), &[], "$/runAsUser"), 5);
    assert_eq!(
        refusal(own(), &[("@/runAsUser", json!(7))]),
        ".containers[0].runAsUser: Invalid value: 7: must be in the ranges: [5, 6]"
    );
    assert_eq!(
        refusal(json!({"runAsUser": {"type": "MustRunAsRange", "uidRangeMin": 5}}), &[]),
        "error creating provider for SCC one in namespace shop: MustRunAsRange requires a UIDRangeMax"
    );
}

#[test]
fn must_not_run_as_root() {
    let not_root = || json!({"runAsUser": {"type": "MustRunAsNonRoot"}});
    assert_eq!(stored(not_root(), &[], "$/runAsNonRoot"), true);
    assert_eq!(stored(not_root(), &[], "$/runAsUser"), Value::Null);
    assert_eq!(
        stored(not_root(), &[("@/runAsNonRoot", json!(true))], "$/runAsNonRoot"),
        Value::Null
    );
    assert_eq!(
        refusal(not_root(), &[("$/runAsUser", json!(0))]),
        ".containers[0].runAsUser: Invalid value: 0: running with the root UID is forbidden"
    );
    assert_eq!(
        refusal(not_root(), &[("@/runAsNonRoot", json!(false))]),
        ".containers[0].runAsNonRoot: Invalid value: false: must be true"
    );
}

#[test]
fn may_run_as_anybody() {
    let any = || json!({"runAsUser": {"type": "RunAsAny"}});
    assert_eq!(stored(any(), &[], "$/runAsUser"), Value::Null);
    assert_eq!(stored(any(), &[], "$/runAsNonRoot"), Value::Null);
    assert_eq!(stored(any(), &[("$/runAsUser", json!(7))], "$/runAsNonRoot"), true);
    assert_eq!(
        stored(any(), &[("$/runAsUser", json!(0))], "$/runAsNonRoot"),
        Value::Null
    );
    assert_eq!(
        refusal(json!({"runAsUser": {"type": "Whoever"}}), &[]),
        "error creating provider for SCC one in namespace shop: Unrecognized RunAsUser strategy type Whoever"
    );
}

#[test]
fn capabilities_are_added_and_dropped_for_everybody() {
    let rules = || {
        json!({
            "requiredDropCapabilities": ["KILL", "MKNOD"],
            "defaultAddCapabilities": ["CHOWN"],
            "allowedCapabilities": ["NET_BIND_SERVICE"],
        })
    };
    assert_eq!(
        stored(rules(), &[], "$/capabilities"),
        json!({"add": ["CHOWN"], "drop": ["KILL", "MKNOD"]})
    );
    let own = json!({"add": ["NET_BIND_SERVICE"], "drop": ["CHOWN"]});
    assert_eq!(
        stored(rules(), &[("$/capabilities", own)], "$/capabilities"),
        json!({"add": ["NET_BIND_SERVICE"], "drop": ["CHOWN", "KILL", "MKNOD"]})
    );
    assert_eq!(
        refusal(rules(), &[("$/capabilities", json!({"add": ["NET_ADMIN", "NET_RAW"]}))]),
        "[.containers[0].capabilities.add: Invalid value: \"NET_ADMIN\": capability may not be added, \
         .containers[0].capabilities.add: Invalid value: \"NET_RAW\": capability may not be added]"
    );
    let anything = || json!({"requiredDropCapabilities": [], "allowedCapabilities": ["*"]});
    let own = json!({"add": ["SYS_ADMIN"]});
    assert_eq!(
        stored(anything(), &[("$/capabilities", own.clone())], "$/capabilities"),
        own
    );
    assert_eq!(stored(anything(), &[], "$/capabilities"), Value::Null);
}

#[test]
fn privileges_are_given_by_switches() {
    let privileged = [("$/privileged", json!(true))];
    assert_eq!(
        refusal(json!({}), &privileged),
        ".containers[0].privileged: Invalid value: true: Privileged containers are not allowed"
    );
    assert_eq!(refusal(json!({"allowPrivilegedContainer": true}), &privileged), "");

    let tight = || json!({"allowPrivilegeEscalation": false});
    assert_eq!(stored(tight(), &[], "$/allowPrivilegeEscalation"), false);
    assert_eq!(
        refusal(tight(), &[("$/allowPrivilegeEscalation", json!(true))]),
        ".containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed"
    );
    assert_eq!(
        stored(
            json!({"allowPrivilegeEscalation": null}),
            &[],
            "$/allowPrivilegeEscalation"
        ),
        Value::Null
    );
    let default = || json!({"defaultAllowPrivilegeEscalation": false, "allowPrivilegedContainer": true, "allowedCapabilities": ["*"]});
    assert_eq!(stored(default(), &[], "$/allowPrivilegeEscalation"), false);
    assert_eq!(
        stored(default(), &privileged, "$/allowPrivilegeEscalation"),
        Value::Null
    );
    let admin = [("$/capabilities/add", json!(["CAP_SYS_ADMIN"]))];
    assert_eq!(stored(default(), &admin, "$/allowPrivilegeEscalation"), Value::Null);
}

#[test]
fn the_root_file_system_may_have_to_be_read_only() {
    let read_only = || json!({"readOnlyRootFilesystem": true});
    assert_eq!(stored(read_only(), &[], "$/readOnlyRootFilesystem"), true);
    assert_eq!(
        refusal(read_only(), &[("$/readOnlyRootFilesystem", json!(false))]),
        ".containers[0].readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true"
    );
    assert_eq!(stored(json!({}), &[], "$/readOnlyRootFilesystem"), Value::Null);
}

#[test]
fn seccomp_profiles_are_listed_or_forbidden() {
    let runtime_default = || json!({"type": "RuntimeDefault"});
    let in_pod = [("@/seccompProfile", runtime_default())];
    let in_container = [("$/seccompProfile", runtime_default())];
    assert_eq!(
        refusal(json!({}), &in_pod),
        "[pod.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: Forbidden: seccomp may not be set, \
         pod.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/app]: Forbidden: seccomp may not be set]"
    );
    assert_eq!(
        refusal(json!({}), &in_container),
        "pod.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/app]: Forbidden: seccomp may not be set"
    );
    let listed = || json!({"seccompProfiles": ["*", "runtime/default"]});
    assert_eq!(stored(listed(), &[], "@/seccompProfile"), runtime_default());
    let annotation = "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod";
    assert_eq!(stored(listed(), &[], annotation), "runtime/default");
    assert_eq!(stored(json!({"seccompProfiles": ["*"]}), &[], annotation), Value::Null);
    for known in ["runtime/default", "docker/default"] {
        assert_eq!(refusal(json!({"seccompProfiles": [known]}), &in_container), "");
    }
    let local = json!({"type": "Localhost", "localhostProfile": "p.json"});
    assert_eq!(
        refusal(
            json!({"seccompProfiles": ["runtime/default", "localhost/q.json"]}),
            &[("$/seccompProfile", local.clone())]
        ),
        "pod.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/app]: Forbidden: localhost/p.json is not an \
         allowed seccomp profile. Valid values are [runtime/default localhost/q.json]"
    );
    assert_eq!(
        refusal(
            json!({"seccompProfiles": ["localhost/p.json"]}),
            &[("@/seccompProfile", local)]
        ),
        ""
    );
    let annotated = [(
        "/metadata/annotations/container.seccomp.security.alpha.kubernetes.io~1app",
        json!("unconfined"),
    )];
    assert_eq!(
        stored(json!({"seccompProfiles": ["*"]}), &annotated, "$/seccompProfile"),
        json!({"type": "Unconfined"})
    );
}

#[test]
fn every_container_is_judged_in_the_servers_order() {
    let mut pod = pod(&[("/spec/containers/0/securityContext/runAsUser", json!(3))]);
    pod["spec"]["initContainers"] = json!([{"name": "init", "securityContext": {"runAsUser": 1}}]);
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debug", "securityContext": {"runAsUser": 5}}]);
    let found = Scene::one(json!({})).refusal(&pod);
    let places: Vec<_> = found
        .split("provider one: ")
        .skip(1)
        .filter_map(|error| error.split(':').next())
        .collect();
    assert_eq!(
        places,
        [
            ".initContainers[0].runAsUser",
            ".containers[0].runAsUser",
            ".ephemeralContainers[0].runAsUser"
        ]
    );
}
