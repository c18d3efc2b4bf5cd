//! Each rule but those about volumes, and each default.

use super::*;
use crate::policy::{Grants, Requester};

#[test]
fn numbers() {
    let must = |min: i64, max: i64| json!({"rule": "MustRunAs", "ranges": [{"min": min, "max": max}]});
    let may = json!({"rule": "MayRunAs", "ranges": [{"min": 1, "max": 2}, {"min": 5, "max": 5}]});
    judge(&[
        ("/spec/fsGroup", must(1, 9), "@/fsGroup", json!(9), ""),
        ("/spec/fsGroup", must(1, 9), "@/fsGroup", json!(null), ""),
        (
            "/spec/fsGroup",
            may.clone(),
            "@/fsGroup",
            json!(3),
            "spec.securityContext.fsGroup: Invalid value: []int64{3}: group 3 must be in the ranges: [{1 2} {5 5}]",
        ),
        (
            "/spec/supplementalGroups",
            must(1, 9),
            "@/supplementalGroups",
            json!([]),
            "spec.securityContext.supplementalGroups: Invalid value: []int64{}: unable to validate empty groups against required ranges",
        ),
        (
            "/spec/supplementalGroups",
            may.clone(),
            "@/supplementalGroups",
            json!([1, 0]),
            "spec.securityContext.supplementalGroups: Invalid value: []int64{1, 0}: group 0 must be in the ranges: [{1 2} {5 5}]",
        ),
        (
            "/spec/supplementalGroups",
            may.clone(),
            "@/supplementalGroups",
            json!([]),
            "",
        ),
        (
            "/spec/runAsGroup",
            may,
            "$/runAsGroup",
            json!(3),
            "spec.containers[0].securityContext: Invalid value: []int64{3}: group 3 must be in the ranges: [{1 2} {5 5}]",
        ),
        (
            "/spec/runAsUser",
            must(1, 9),
            "$/runAsUser",
            json!(0),
            "spec.containers[0].securityContext.runAsUser: Invalid value: 0: must be in the ranges: [{1 9}]",
        ),
        (
            "/spec/runAsUser",
            json!({"rule": "MustRunAsNonRoot"}),
            "$/runAsUser",
            json!(0),
            "spec.containers[0].securityContext.runAsUser: Invalid value: 0: running with the root UID is forbidden",
        ),
        (
            "/spec/runAsUser",
            json!({"rule": "MustRunAsNonRoot"}),
            "$/runAsNonRoot",
            json!(false),
            "spec.containers[0].securityContext.runAsNonRoot: Invalid value: false: must be true",
        ),
    ]);
}

#[test]
fn ends_the_wrong_way_round_hold_nothing() {
    let inverted = json!({"rule": "MustRunAs", "ranges": [{"min": i64::MAX, "max": i64::MIN}]});
    let policies = [policy("p", &[("/spec/fsGroup", inverted)])];
    let error = "spec.securityContext.fsGroup: Invalid value: []int64{9223372036854775807}: group 9223372036854775807 \
                 must be in the ranges: [{9223372036854775807 -9223372036854775808}]";
    assert_eq!(objections(&policies, &pod(&[])), [error]);
}

#[test]
fn the_node() {
    judge(&[
        (
            "/spec/hostPorts",
            json!([{"min": 80, "max": 80}, {"min": 400, "max": 500}]),
            "/spec/containers/1/ports",
            json!([{"hostPort": 443}, {"hostPort": 81}, {"hostPort": 0}]),
            "spec.containers[1].hostPort: Invalid value: 81: Host port 81 is not allowed to be used. Allowed ports: [80,400-500]",
        ),
        (
            "/spec/hostNetwork",
            json!(false),
            "/spec/hostNetwork",
            json!(true),
            "spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used",
        ),
        (
            "/spec/hostPID",
            json!(null),
            "/spec/hostPID",
            json!(true),
            "spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used",
        ),
        ("/spec/hostIPC", json!(true), "/spec/hostIPC", json!(true), ""),
        (
            "/spec/forbiddenSysctls",
            json!(["kernel.shm*"]),
            "@/sysctls",
            json!([{"name": "net.ipv4.tcp_syncookies"}, {"name": "kernel.shm_rmid_forced"}]),
            r#"pod.spec.securityContext.sysctls[1]: Forbidden: sysctl "kernel.shm_rmid_forced" is not allowed"#,
        ),
        (
            "/spec/allowedUnsafeSysctls",
            json!(["net.*"]),
            "@/sysctls",
            json!([{"name": "net.core.somaxconn"}, {"name": "kernel.msgmax"}]),
            r#"pod.spec.securityContext.sysctls[1]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed"#,
        ),
        (
            "/spec/runtimeClass",
            json!({"allowedRuntimeClassNames": ["kata"]}),
            "/spec/runtimeClassName",
            json!("gvisor"),
            r#"spec.runtimeClassName: Invalid value: "gvisor""#,
        ),
    ]);
}

#[test]
fn profiles_and_labels() {
    let key = "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1allowedProfileNames";
    let app_armor = "/metadata/annotations/apparmor.security.beta.kubernetes.io~1allowedProfileNames";
    let of_pod = "pod.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]";
    let policies = [policy("p", &[("/metadata/annotations", json!({}))])];
    let profile = json!({"type": "RuntimeDefault"});
    let of_app = "pod.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/app]";
    assert_eq!(
        objections(&policies, &pod(&[("$/seccompProfile", profile.clone())])),
        [format!("{of_app}: Forbidden: seccomp may not be set")]
    );
    let listed = [policy("p", &[(key, json!("localhost/x,docker/default"))])];
    let said = objections(&listed, &pod(&[("$/seccompProfile", profile.clone())]));
    let missing = "Forbidden:  is not an allowed seccomp profile. Valid values are localhost/x,docker/default";
    assert_eq!(said[0], format!("{of_pod}: {missing}"));
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(objections(&listed, &pod(&[("@/seccompProfile", profile)])), [""; 0]);
    let said = objections(
        &[policy("p", &[(app_armor, json!("localhost/\"x\""))])],
        &pod(&[(
            "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app",
            json!("other"),
        )]),
    );
    let of_app = "pod.metadata.annotations[container.apparmor.security.beta.kubernetes.io/app]";
    let allowed = r#"Allowed values: "localhost/\"x\"""#;
    assert_eq!(
        said[1],
        format!("{of_app}: Forbidden: other is not an allowed profile. {allowed}")
    );
    judge(&[(
        "/spec/seLinux",
        json!({"rule": "MustRunAs", "seLinuxOptions": {"type": "t", "level": "s0:c1,c2"}}),
        "$/seLinuxOptions",
        json!({"type": "u", "level": "s0:c2,c1"}),
        r#"spec.containers[0].securityContext.seLinuxOptions.type: Invalid value: "u": must be t"#,
    )]);
}

#[test]
fn containers() {
    judge(&[
        (
            "/spec/privileged",
            json!(false),
            "$/privileged",
            json!(true),
            "spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not allowed",
        ),
        (
            "/spec/allowedProcMountTypes",
            json!([]),
            "$/procMount",
            json!("Unmasked"),
            r#"spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": ProcMountType is not allowed"#,
        ),
        (
            "/spec/allowedCapabilities",
            json!(["CHOWN"]),
            "$/capabilities/add",
            json!(["CHOWN", "chown"]),
            r#"spec.containers[0].securityContext.capabilities.add: Invalid value: "chown": capability may not be added"#,
        ),
        (
            "/spec/readOnlyRootFilesystem",
            json!(true),
            "$/readOnlyRootFilesystem",
            json!(false),
            "spec.containers[0].securityContext.readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true",
        ),
        (
            "/spec/allowPrivilegeEscalation",
            json!(false),
            "$/allowPrivilegeEscalation",
            json!(true),
            "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed",
        ),
    ]);
}

#[test]
fn a_safe_sysctl_of_1_22_is_unsafe_before() {
    let policies = Policies::compile(&[policy("p", &[])]);
    let (grants, requester) = (
        Grants::listed([("p", "alice")]),
        Requester::service_account("shop", "web"),
    );
    let json = pod(&[("@/sysctls", json!([{"name": "net.ipv4.ip_unprivileged_port_start"}]))]);
    for (release, allowed) in [(21, false), (22, true)] {
        let requester = Requester {
            user: "alice".to_owned(),
            ..requester.clone()
        };
        let question = Question {
            release: Release(release),
            policies: &policies,
            grants: &grants,
            namespace: "shop",
            requester: &requester,
            service_account: None,
        };
        assert_eq!(
            question.admission().admit(&Pod::new(&json)).is_ok(),
            allowed,
            "1.{release}"
        );
    }
}

#[test]
fn what_is_open_gets_the_policys_defaults() {
    let number = |n: i64| json!({"rule": "MustRunAs", "ranges": [{"min": n, "max": 99}]});
    let seccomp = "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1defaultProfileName";
    let app_armor = "/metadata/annotations/apparmor.security.beta.kubernetes.io~1defaultProfileName";
    let policies = [policy(
        "p",
        &[
            ("/spec/fsGroup", number(1)),
            ("/spec/supplementalGroups", number(2)),
            ("/spec/runAsGroup", number(3)),
            ("/spec/runAsUser", number(4)),
            (
                "/spec/seLinux",
                json!({"rule": "MustRunAs", "seLinuxOptions": {"type": "t"}}),
            ),
            ("/spec/defaultAddCapabilities", json!(["KILL", "CHOWN"])),
            ("/spec/requiredDropCapabilities", json!(["ALL"])),
            ("/spec/readOnlyRootFilesystem", json!(true)),
            ("/spec/allowPrivilegeEscalation", json!(false)),
            (
                "/spec/runtimeClass",
                json!({"allowedRuntimeClassNames": ["*"], "defaultRuntimeClassName": "kata"}),
            ),
            (seccomp, json!("runtime/default")),
            (app_armor, json!("localhost/x")),
        ],
    )];
    let given = pod(&[
        ("@/runAsUser", json!(9)),
        (
            "$",
            json!({"runAsGroup": 5, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["KILL"], "add": ["SETUID"]}}),
        ),
        ("/unknown", json!("kept")),
    ]);
    let plain = json!({
        "runAsGroup": 3, "capabilities": {"add": ["CHOWN", "KILL"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
    });
    let annotations = json!({
        "kubernetes.io/psp": "p",
        "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
        "container.apparmor.security.beta.kubernetes.io/init": "localhost/x",
        "container.apparmor.security.beta.kubernetes.io/app": "localhost/x",
        "container.apparmor.security.beta.kubernetes.io/side": "localhost/x",
    });
    let expected = json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "runtimeClassName": "kata",
            "securityContext": {"runAsUser": 9, "fsGroup": 1, "supplementalGroups": [2], "seLinuxOptions": {"type": "t"}},
            "initContainers": [{"name": "init", "securityContext": plain}],
            "containers": [
                {"name": "app", "securityContext": {
                    "runAsGroup": 5, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                    "capabilities": {"add": ["CHOWN", "SETUID"], "drop": ["ALL", "KILL"]},
                }},
                {"name": "side", "securityContext": plain},
            ],
        },
        "unknown": "kept",
    });
    let applied = ask(&policies, &given, |admission, view| {
        let admitted = admission.admit(view).unwrap();
        assert!(admitted.mutates());
        let mut pod = given.clone();
        admitted.apply(&mut pod);
        pod
    });
    assert_eq!(applied, expected);
}
