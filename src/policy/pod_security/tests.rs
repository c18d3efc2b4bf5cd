//! Tables of pods and answers, one line a rule.

use serde_json::{Value, json};

use super::evaluation::judge;
use super::*;
use crate::pod::Pod;
use crate::policy::{Release, Verdict};

mod releases;
mod reviews;

fn policy(text: &str) -> Policy {
    let (level, version) = text.split_once(':').unwrap();
    Policy {
        level: level.parse().unwrap(),
        version: version.parse().unwrap(),
    }
}

fn server(release: u32) -> Server {
    Release(release).into()
}

/// A pod whose one container, `app`, has all that the restricted level demands, then changed at each pointer (RFC 6901).
/// `$` stands for the container's security context, `@` for the pod's.
fn pod(changes: &[(&str, Value)]) -> Value {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let mut pod = json!({"spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "app", "securityContext": context}],
    }});
    for (pointer, value) in changes {
        let pointer = pointer
            .replace('$', "/spec/containers/0/securityContext")
            .replace('@', "/spec/securityContext");
        let mut place = &mut pod;
        for token in pointer.split('/').skip(1) {
            place = match token.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[token.replace("~1", "/")],
            };
        }
        *place = value.clone();
    }
    pod
}

/// The answer's detail, after a look at its other parts.
fn detail(policy: &str, server: Server, pod: &Value) -> String {
    let evaluation = evaluate(self::policy(policy), server, &Pod::new(pod));
    assert_eq!(evaluation.allowed, evaluation.reason.is_empty());
    assert_eq!(evaluation.allowed, evaluation.detail.is_empty());
    evaluation.detail
}

/// Policy, changes, detail.
type Row<'r> = (&'r str, &'r [(&'r str, Value)], &'r str);

/// Judges each row on the newest server.
fn check(rows: &[Row<'_>]) {
    for (policy, changes, expected) in rows {
        assert_eq!(
            detail(policy, Release::NEWEST.into(), &pod(changes)),
            *expected,
            "{policy} {changes:?}"
        );
    }
}

#[test]
fn levels_and_versions_are_read_as_labels_write_them() {
    for text in [
        "privileged:latest",
        "baseline:v1.0",
        "restricted:v1.9223372036854775807",
    ] {
        assert_eq!(policy(text).to_string(), text);
    }
    for version in [
        "",
        "Latest",
        "1.25",
        "V1.25",
        "v1.01",
        "v1.",
        "v1.25.3",
        "v2.0",
        "v1.+1",
        "v1.9223372036854775808",
    ] {
        assert!(version.parse::<Version>().is_err(), "{version}");
    }
    assert_eq!(
        "Baseline".parse::<Level>().unwrap_err().to_string(),
        r#""Baseline" must be one of privileged, baseline, restricted"#
    );
}

#[test]
fn a_compliant_pod_passes_everywhere() {
    let pod = pod(&[]);
    for level in ["privileged", "baseline", "restricted"] {
        for minor in 0..40 {
            for release in 20..40 {
                assert_eq!(detail(&format!("{level}:v1.{minor}"), server(release), &pod), "");
            }
        }
    }
}

#[test]
fn privileged_allows_everything_and_junk_is_a_pod_without_fields() {
    let host = pod(&[("/spec/hostPID", json!(true))]);
    assert_eq!(detail("privileged:latest", server(36), &host), "");
    for junk in [
        json!(null),
        json!([]),
        json!({"spec": 7}),
        json!({"metadata": [], "spec": {"containers": {}}}),
    ] {
        assert_eq!(detail("restricted:latest", server(36), &junk), "");
    }
}

#[test]
fn baseline_checks_speak_to_the_byte() {
    let named = |name: &str| json!({"name": name, "securityContext": {"privileged": true}});
    check(&[
        (
            "baseline:latest",
            &[(
                "$/capabilities/add",
                json!(["NET_RAW", "CHOWN", "NET_ADMIN", "NET_RAW", "CAP_CHOWN"]),
            )],
            r#"non-default capabilities (container "app" must not include "CAP_CHOWN", "NET_ADMIN", "NET_RAW" in securityContext.capabilities.add)"#,
        ),
        (
            "baseline:latest",
            &[
                ("/spec/hostIPC", json!(true)),
                ("/spec/hostNetwork", json!(true)),
                ("/spec/hostPID", json!(false)),
            ],
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            "baseline:latest",
            &[(
                "/spec/volumes",
                json!([{"name": "b", "hostPath": {}}, {"name": "a", "hostPath": {}}, {"name": "c", "hostPath": null}]),
            )],
            r#"hostPath volumes (volumes "b", "a")"#,
        ),
        (
            "baseline:latest",
            &[(
                "/spec/containers/0/ports",
                json!([{"hostPort": 80}, {"hostPort": 443}, {"hostPort": -1}, {"hostPort": 80}, {}]),
            )],
            r#"hostPort (container "app" uses hostPorts -1, 443, 80)"#,
        ),
        (
            "baseline:latest",
            &[
                ("/spec/initContainers", json!([named("i")])),
                ("/spec/ephemeralContainers", json!([named("i")])),
                ("$/privileged", json!(true)),
            ],
            r#"privileged (containers "i", "app", "i" must not set securityContext.privileged=true)"#,
        ),
        (
            "baseline:latest",
            &[("$/procMount", json!(""))],
            r#"procMount (container "app" must not set securityContext.procMount to "")"#,
        ),
        (
            "baseline:latest",
            &[("$/procMount", json!("Unmasked")), ("/spec/hostUsers", json!(false))],
            "",
        ),
        (
            "baseline:latest",
            &[(
                "@/sysctls",
                json!([{"name": "b"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "a"}, {"name": "b"}]),
            )],
            "forbidden sysctls (b, a, b)",
        ),
        (
            "baseline:v1.31",
            &[("@/sysctls", json!([{"name": "net.ipv4.tcp_rmem"}]))],
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        ("baseline:latest", &[("@/sysctls", json!([null]))], "forbidden sysctls"),
        (
            "baseline:latest",
            &[
                ("@/windowsOptions/hostProcess", json!(true)),
                ("$/windowsOptions/hostProcess", json!(true)),
            ],
            r#"hostProcess (pod and container "app" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
    ]);
}

#[test]
fn selinux_options_name_each_part() {
    check(&[
        (
            "baseline:latest",
            &[
                ("@/seLinuxOptions", json!({"type": "spc_t", "user": "u"})),
                ("$/seLinuxOptions", json!({"role": "r"})),
            ],
            r#"seLinuxOptions (pod and container "app" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)"#,
        ),
        (
            "baseline:v1.31",
            &[("@/seLinuxOptions", json!({"type": "container_engine_t", "level": "s0"}))],
            "",
        ),
        (
            "baseline:v1.30",
            &[("@/seLinuxOptions", json!({"type": "container_engine_t"}))],
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "container_engine_t")"#,
        ),
    ]);
}

#[test]
fn hosts_of_probes_are_refused_from_1_34() {
    let probe = json!({"httpGet": {"host": "b"}, "tcpSocket": {"host": ""}});
    let hook = json!({"preStop": {"tcpSocket": {"host": "a"}}, "postStart": {"httpGet": null}});
    let changes: &[_] = &[
        ("/spec/containers/0/livenessProbe", probe),
        ("/spec/containers/0/lifecycle", hook),
    ];
    let message = r#"probe or lifecycle host (container "app" uses probe or lifecycle hosts "a", "b")"#;
    check(&[("baseline:v1.34", changes, message), ("baseline:v1.33", changes, "")]);
}

#[test]
fn profiles_are_read_from_fields_and_old_annotations() {
    let app_armor =
        |name: &str| format!("/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1{name}");
    let (app, ghost) = (app_armor("app"), app_armor("ghost"));
    let seccomp = "/metadata/annotations/container.seccomp.security.alpha.kubernetes.io~1";
    let (seccomp_app, seccomp_ghost) = (format!("{seccomp}app"), format!("{seccomp}ghost"));
    check(&[
        (
            "baseline:latest",
            &[
                ("@/appArmorProfile", json!({})),
                ("$/appArmorProfile/type", json!("X")),
                (&ghost, json!("q\"\u{a0}")),
                (&app, json!(null)),
            ],
            r#"forbidden AppArmor profiles (pod and container "app" and annotation must not set AppArmor profile type to "", "X", "container.apparmor.security.beta.kubernetes.io/ghost="q\"\u00a0"")"#,
        ),
        (
            "baseline:latest",
            &[(&app, json!("localhost/x")), (&ghost, json!("runtime/default"))],
            "",
        ),
        (
            "baseline:v1.18",
            &[
                (
                    "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod",
                    json!(""),
                ),
                (&seccomp_app, json!("x")),
                (&seccomp_ghost, json!("x")),
            ],
            r#"seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/app="x", seccomp.security.alpha.kubernetes.io/pod="")"#,
        ),
        (
            "baseline:v1.19",
            &[
                ("@/seccompProfile/type", json!("Unconfined")),
                ("$/seccompProfile", json!({})),
            ],
            r#"seccompProfile (pod and container "app" must not set securityContext.seccompProfile.type to "", "Unconfined")"#,
        ),
    ]);
}

#[test]
fn restricted_checks_speak_to_the_byte() {
    check(&[
        (
            "restricted:latest",
            &[("$", json!(null)), ("@", json!({}))],
            concat!(
                r#"allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false), "#,
                r#"unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), "#,
                r#"runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), "#,
                r#"seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
            ),
        ),
        (
            "restricted:latest",
            &[(
                "$/capabilities",
                json!({"drop": ["all"], "add": ["NET_BIND_SERVICE", "CHOWN"]}),
            )],
            r#"unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]; container "app" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            "restricted:latest",
            &[(
                "/spec/volumes",
                json!([{"name": "b", "nfs": {}}, {"name": "a", "future": {}}, {"name": "c", "csi": {}, "rbd": {}}, {"name": "d", "hostPath": {}}]),
            )],
            r#"restricted volume types (volumes "b", "a", "d" use restricted volume types "hostPath", "nfs", "unknown")"#,
        ),
        (
            "restricted:latest",
            &[("@/runAsNonRoot", json!(false)), ("$/runAsUser", json!(0))],
            r#"runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (container "app" must not set runAsUser=0)"#,
        ),
        ("restricted:v1.22", &[("@/runAsUser", json!(0))], ""),
        (
            "restricted:v1.7",
            &[
                ("$/allowPrivilegeEscalation", json!(null)),
                ("$/capabilities", json!(null)),
                ("@/seccompProfile", json!(null)),
            ],
            "",
        ),
    ]);
}

#[test]
fn reliefs_are_for_windows_and_user_namespaces_only() {
    let windows = ("/spec/os/name", json!("windows"));
    let bare: &[_] = &[windows.clone(), ("$", json!({})), ("@", json!({"runAsNonRoot": true}))];
    let unconfined: &[_] = &[windows, ("@/seccompProfile/type", json!("Unconfined"))];
    let bad = r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#;
    let root: &[_] = &[
        ("/spec/hostUsers", json!(false)),
        ("@/runAsNonRoot", json!(null)),
        ("$/runAsUser", json!(0)),
    ];
    let as_root = r#"runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), runAsUser=0 (container "app" must not set runAsUser=0)"#;
    let unmasked: &[_] = &[("/spec/hostUsers", json!(false)), ("$/procMount", json!("Unmasked"))];
    let proc_mount = r#"procMount (container "app" must not set securityContext.procMount to "Unmasked")"#;
    check(&[
        ("restricted:v1.25", bare, ""),
        ("restricted:v1.25", unconfined, ""),
        ("restricted:v1.24", unconfined, bad),
        ("baseline:latest", unconfined, bad),
        ("restricted:v1.35", root, ""),
        ("restricted:v1.34", root, as_root),
        ("baseline:v1.35", unmasked, ""),
        ("baseline:v1.34", unmasked, proc_mount),
        ("restricted:v1.35", unmasked, proc_mount),
    ]);
}
