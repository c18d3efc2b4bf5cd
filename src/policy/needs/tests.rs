use super::*;
use serde_json::{Value, json};

/// What `pod` needs, as text.
fn needs(pod: &Value) -> Vec<String> {
    let mut needs = Needs::default();
    needs.add("Pod/p", &Pod::new(pod));
    needs.iter().map(|(need, askers)| format!("{need}: {askers}")).collect()
}

#[test]
fn a_strict_pod_needs_nothing() {
    let context = json!({
        "readOnlyRootFilesystem": true, "runAsUser": 5, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    });
    let pod = json!({"spec": {"hostNetwork": false, "containers": [{"name": "c", "securityContext": context}]}});
    assert_eq!(needs(&pod), [""; 0]);
}

#[test]
fn everything_is_named_with_who_has_it() {
    let pod = json!({
        "metadata": {"annotations": {
            "container.seccomp.security.alpha.kubernetes.io/a": "localhost/x",
            "container.seccomp.security.alpha.kubernetes.io/nobody": "unconfined",
        }},
        "spec": {
            "hostNetwork": true, "hostPID": true, "hostIPC": true,
            "securityContext": {
                "fsGroup": 7, "supplementalGroups": [8], "seLinuxOptions": {}, "runAsUser": 0,
                "sysctls": [{"name": "net.core.somaxconn"}], "seccompProfile": {"type": "Unconfined"},
            },
            "initContainers": [{"name": "i", "securityContext": {"readOnlyRootFilesystem": false, "procMount": "Unmasked", "runAsUser": 1}}],
            "containers": [{
                "name": "a", "ports": [{"hostPort": 80}], "volumeMounts": [{"name": "h"}],
                "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_TIME"]}},
            }],
            "volumes": [
                {"name": "h", "hostPath": {"path": "/a"}}, {"name": "r", "hostPath": {"path": "/b"}},
                {"name": "f", "flexVolume": {"driver": "d"}}, {"name": "c", "csi": {"driver": "e"}},
            ],
        },
    });
    let expected = [
        "the host's network: Pod/p",
        "the host's processes: Pod/p",
        "the host's IPC: Pod/p",
        "host port 80: Pod/p (a)",
        "privileged: Pod/p (a)",
        "gaining privileges: Pod/p (a)",
        "a writable root file system: Pod/p (i)",
        "a root file system of which nothing is said: Pod/p (a)",
        "running as root: Pod/p (a)",
        "SYS_TIME: Pod/p (a)",
        "csi: Pod/p",
        "flexVolume: Pod/p",
        "hostPath: Pod/p",
        "/a: Pod/p",
        "/b, read-only: Pod/p",
        "driver d: Pod/p",
        "driver e: Pod/p",
        "group 7: Pod/p",
        "group 8: Pod/p",
        "own SELinux options: Pod/p",
        "localhost/x: Pod/p (a)",
        "unconfined: Pod/p",
        "net.core.somaxconn: Pod/p",
        "Unmasked: Pod/p (i)",
    ];
    assert_eq!(needs(&pod), expected);
}

#[test]
fn what_no_policy_can_allow_is_no_need() {
    let pod = json!({
        "spec": {
            "securityContext": {"runAsUser": 1, "fsGroup": -1, "sysctls": [{"name": "*"}, {"name": ""}], "seccompProfile": {"type": "x"}},
            "containers": [{
                "name": "c", "ports": [{"hostPort": 0}, {"hostPort": 70_000}],
                "securityContext": {"readOnlyRootFilesystem": true, "procMount": "x", "seccompProfile": {"type": "Localhost", "localhostProfile": "a,*"}},
            }],
            "volumes": [{"hostPath": {"path": "/a/../b"}}, {"hostPath": {"path": ""}}, {"hostPath": null}, 7],
        },
    });
    assert_eq!(needs(&pod), [""; 0]);
}

#[test]
fn only_the_first_workloads_are_named() {
    let pod = json!({"spec": {"hostPID": true}});
    let titles: Vec<_> = (1..=7).map(|number| format!("Pod/{number}")).collect();
    let mut needs = Needs::default();
    for title in &titles {
        needs.add(title, &Pod::new(&pod));
    }
    let askers = needs.askers(&Need::HostPid).unwrap().to_string();
    assert_eq!(askers, "Pod/1, Pod/2, Pod/3, Pod/4, Pod/5 and 2 more");
}
