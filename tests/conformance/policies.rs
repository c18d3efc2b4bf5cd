//! Random questions about PodSecurityPolicies: a few policies near the line, grants, and a random pod.
//!
//! The same seed and number give the same question. As with pods, null may be anywhere, but never a wrong type.

use serde_json::{Map, Value, json};

use crate::mutants::{Dice, Mutator, at};

/// Makes questions.
#[derive(Debug)]
pub(crate) struct Questions {
    seeds: Vec<Value>,
    mutator: Mutator,
    of_policy: Vec<(&'static str, Vec<Value>)>,
    of_pod: Vec<(&'static str, Vec<Value>)>,
    of_container: Vec<(&'static str, Vec<Value>)>,
}

const SUBJECTS: [&str; 9] = [
    "alice",
    "bob",
    "system:authenticated",
    "system:serviceaccounts",
    "system:serviceaccounts:ns",
    "system:serviceaccount:ns:web",
    "system:serviceaccount:ns:default",
    "system:serviceaccount:other:web",
    "",
];

const NAMES: [&str; 8] = ["a", "a0", "b", "B", "-", "c.d", "10", "9"];

impl Questions {
    /// Questions about changed `seeds`, which are pods.
    pub(crate) fn about(seeds: Vec<Value>) -> Self {
        let parse = |table: &'static [(&str, &str)]| {
            let values = |json: &str| serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            table.iter().map(|&(place, json)| (place, values(json))).collect()
        };
        Self {
            seeds,
            mutator: Mutator::new(),
            of_policy: parse(OF_POLICY),
            of_pod: parse(OF_POD),
            of_container: parse(OF_CONTAINER),
        }
    }

    /// Question `number` of `seed`.
    pub(crate) fn question(&self, seed: u64, number: u64) -> Value {
        let dice = &mut Dice::new(seed, number);
        let mut names = NAMES.to_vec();
        let (mut policies, mut grants) = (Vec::new(), Map::new());
        for _ in 0..*dice.pick(&[0, 1, 1, 1, 2, 2, 2, 3, 3, 4]) {
            let name = names.swap_remove(dice.below(names.len()));
            policies.push(self.policy(name, dice));
            let subjects: Vec<_> = SUBJECTS.into_iter().filter(|_| dice.one_in(3)).collect();
            grants.insert(name.to_owned(), json!(subjects));
        }
        let mut pod = self.pod(dice);
        if dice.one_in(40) {
            reset_between_rounds(&mut policies, &mut pod);
        }
        json!({
            "id": number,
            "namespace": "ns",
            "user": *dice.pick(&["alice", "bob", "carol"]),
            "groups": *dice.pick(&[&["system:authenticated"][..], &["system:authenticated"], &["staff"], &[]]),
            "policies": policies,
            "grants": grants,
            "pod": pod,
        })
    }

    fn policy(&self, name: &str, dice: &mut Dice) -> Value {
        let mut policy = json!({
            "metadata": {"name": name, "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "*"}},
            "spec": {
                "privileged": true, "hostNetwork": true, "hostPID": true, "hostIPC": true, "volumes": ["*"],
                "hostPorts": [{"min": 0, "max": 65535}], "allowedCapabilities": ["*"], "allowedUnsafeSysctls": ["*"],
                "allowedProcMountTypes": ["Default", "Unmasked", ""],
                "runAsUser": {"rule": "RunAsAny"}, "fsGroup": {"rule": "RunAsAny"},
                "supplementalGroups": {"rule": "RunAsAny"}, "seLinux": {"rule": "RunAsAny"},
            },
        });
        for _ in 0..*dice.pick(&[0, 0, 1, 1, 1, 2, 2, 3, 5, 8]) {
            let (place, values) = dice.pick(&self.of_policy);
            let value = dice.pick(values).clone();
            // The keys of annotations have slashes of their own.
            match place.strip_prefix('@') {
                Some(annotation) => at(&mut policy, "metadata/annotations")[annotation] = value,
                None => *at(&mut policy, place) = value,
            }
        }
        // A null annotation and a null list are empty ones, but an annotation that is not there is another thing.
        if dice.one_in(4) {
            *at(&mut policy, "metadata/annotations") = json!({});
        }
        policy
    }

    fn pod(&self, dice: &mut Dice) -> Value {
        let mut pod = dice.pick(&self.seeds).clone();
        for _ in 0..*dice.pick(&[0, 1, 1, 2, 3]) {
            let (place, values) = dice.pick(&self.of_pod);
            *at(&mut pod, place) = dice.pick(values).clone();
        }
        for _ in 0..*dice.pick(&[0, 0, 1, 1, 2]) {
            let (place, values) = dice.pick(&self.of_container);
            for list in ["initContainers", "containers", "ephemeralContainers"] {
                let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    if dice.one_in(2) {
                        *at(container, place) = dice.pick(values).clone();
                    }
                }
            }
        }
        if dice.one_in(2) {
            self.mutator.mutate(&mut pod, dice);
        }
        pod
    }
}

/// Has the policies demand what the server resets after the first round.
fn reset_between_rounds(policies: &mut [Value], pod: &mut Value) {
    for policy in policies {
        policy["spec"]["allowedProcMountTypes"] = json!(["Unmasked"]);
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            *at(container, "securityContext/procMount") = json!("Unmasked");
        }
    }
}

/// Places in a policy, and a list of values for each; `@` begins an annotation.
const OF_POLICY: &[(&str, &str)] = &[
    ("spec/privileged", "[false, null]"),
    ("spec/hostNetwork", "[false, null]"),
    ("spec/hostPID", "[false, null]"),
    ("spec/hostIPC", "[false]"),
    (
        "spec/volumes",
        r#"[null, [], ["secret"], ["emptyDir", "secret"], ["emptyDir", "projected", "csi", "flexVolume"], ["hostPath", "cephfs"],
            ["hostPath", "cephFS", "emptyDir"], ["configMap", "downwardAPI", "persistentVolumeClaim", "ephemeral", "nfs"]]"#,
    ),
    (
        "spec/hostPorts",
        r#"[null, [], [null], [{"min": 80, "max": 80}], [{"min": 1, "max": 100}, {"min": 443, "max": 443}], [{"min": 9, "max": 8}], [{"max": 8080}]]"#,
    ),
    (
        "spec/allowedCapabilities",
        r#"[null, [], ["NET_ADMIN", "NET_RAW"], ["NET_BIND_SERVICE", "CHOWN"], ["net_admin"], [null], ["ALL"]]"#,
    ),
    (
        "spec/defaultAddCapabilities",
        r#"[null, [], ["CHOWN"], ["NET_RAW", "KILL", "KILL"], ["NET_ADMIN"], [null], ["ALL"]]"#,
    ),
    (
        "spec/requiredDropCapabilities",
        r#"[null, [], ["ALL"], ["ALL", "NET_RAW"], ["KILL", "CHOWN"], [null], ["all"]]"#,
    ),
    ("spec/readOnlyRootFilesystem", "[true, true, null]"),
    ("spec/defaultAllowPrivilegeEscalation", "[true, false, null]"),
    ("spec/allowPrivilegeEscalation", "[false, false, true, null]"),
    (
        "spec/allowedHostPaths",
        r#"[null, [], [null], [{"pathPrefix": "/var", "readOnly": true}], [{"pathPrefix": "/"}], [{"pathPrefix": "/", "readOnly": true}],
            [{"pathPrefix": "/va"}, {"pathPrefix": "/var/", "readOnly": true}], [{"pathPrefix": "/var/log/", "readOnly": false}]]"#,
    ),
    (
        "spec/allowedFlexVolumes",
        r#"[null, [], [null], [{"driver": "d"}], [{"driver": "other"}, {"driver": "d"}]]"#,
    ),
    (
        "spec/allowedCSIDrivers",
        r#"[null, [], [null], [{"name": "d"}], [{"name": "other"}]]"#,
    ),
    (
        "spec/allowedUnsafeSysctls",
        r#"[null, [], ["kernel.*"], ["net.core.somaxconn"], ["net.*", "kernel.msgmax"], [""]]"#,
    ),
    (
        "spec/forbiddenSysctls",
        r#"[null, ["*"], ["net.ipv4.*"], ["kernel.shm_rmid_forced"], ["kernel.msgmax", "net.core.*"], [""]]"#,
    ),
    (
        "spec/allowedProcMountTypes",
        r#"[null, [], ["Default"], ["Unmasked"], ["Unmasked", "Default"], [""], [null]]"#,
    ),
    (
        "spec/runtimeClass",
        r#"[null, {}, {"allowedRuntimeClassNames": null}, {"allowedRuntimeClassNames": ["*"], "defaultRuntimeClassName": "kata"},
            {"allowedRuntimeClassNames": ["gvisor"], "defaultRuntimeClassName": "kata"}, {"allowedRuntimeClassNames": ["gvisor", "kata"]},
            {"allowedRuntimeClassNames": [], "defaultRuntimeClassName": ""}]"#,
    ),
    (
        "spec/runAsUser",
        r#"[null, {"rule": "MustRunAsNonRoot"}, {"rule": "MustRunAsNonRoot"}, {"rule": "MustRunAs", "ranges": [{"min": 2102, "max": 2102}, {"min": 65534, "max": 65534}]},
            {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]}, {"rule": "MustRunAs", "ranges": [null]}, {"rule": "MustRunAs"},
            {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 2}]}, {"rule": "MustRunAs", "ranges": [{"min": 9, "max": 1}]}]"#,
    ),
    (
        "spec/runAsGroup",
        r#"[null, {"rule": "RunAsAny"}, {"rule": "MustRunAs", "ranges": [{"min": 0, "max": 100}]}, {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 65535}]},
            {"rule": "MustRunAs", "ranges": [{"min": 5, "max": 5}, {"min": 0, "max": 0}]}, {"rule": "MayRunAs"}, {"rule": ""}, {}]"#,
    ),
    (
        "spec/fsGroup",
        r#"[null, {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 1000}]}, {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 1000}]},
            {"rule": "MustRunAs", "ranges": []}, {"rule": "MustRunAs", "ranges": [{"min": 0, "max": 0}, {"min": 7, "max": 9223372036854775807}]}]"#,
    ),
    (
        "spec/supplementalGroups",
        r#"[null, {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 1000}]}, {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 1000}]},
            {"rule": "MayRunAs", "ranges": [{"min": 0, "max": 0}, {"min": 7, "max": 7}]}, {"rule": "MustRunAs", "ranges": [{"min": -5, "max": 5}]}]"#,
    ),
    (
        "spec/seLinux",
        r#"[null, {"rule": "MustRunAs"}, {"rule": "MustRunAs", "seLinuxOptions": {}}, {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0:c2,c1"}},
            {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0:c1,c2", "type": "container_t"}}, {"rule": "MustRunAs", "seLinuxOptions": {"user": "system_u", "role": "object_r"}},
            {"rule": "Other"}]"#,
    ),
    (
        "@seccomp.security.alpha.kubernetes.io/allowedProfileNames",
        r#"["", null, "runtime/default", "docker/default,unconfined", "localhost/x,*", ",runtime/default", "localhost/p,localhost/", " runtime/default"]"#,
    ),
    (
        "@seccomp.security.alpha.kubernetes.io/defaultProfileName",
        r#"["", null, "runtime/default", "docker/default", "localhost/x", "localhost/", "unconfined", "other"]"#,
    ),
    (
        "@apparmor.security.beta.kubernetes.io/allowedProfileNames",
        r#"["", null, "runtime/default", "localhost/x,unconfined", "q\"uote,caf\u00e9", ","]"#,
    ),
    (
        "@apparmor.security.beta.kubernetes.io/defaultProfileName",
        r#"["", null, "runtime/default", "localhost/x"]"#,
    ),
];

/// Places in a pod that only these policies read, likewise.
const OF_POD: &[(&str, &str)] = &[
    (
        "spec/securityContext/supplementalGroups",
        "[null, [], [0], [1, 1000], [7, 70000, 0], [null]]",
    ),
    ("spec/securityContext/fsGroup", "[null, 0, 1, 1000, 70000]"),
    ("spec/securityContext/runAsGroup", "[null, 0, 5, 65534]"),
    (
        "spec/securityContext/fsGroupChangePolicy",
        r#"["OnRootMismatch", null]"#,
    ),
    (
        "spec/securityContext/seLinuxOptions",
        r#"[null, {}, {"level": "s0:c1,c2"}, {"level": "s0:c2,c1", "type": "container_t"}, {"user": "system_u", "role": "object_r"}]"#,
    ),
    ("spec/runtimeClassName", r#"[null, "", "kata", "gvisor", "other"]"#),
    ("spec/serviceAccountName", r#"[null, "", "web", "default", "none"]"#),
    ("spec/serviceAccount", r#"[null, "", "web", "default"]"#),
    ("metadata/annotations", "[null, {}]"),
    (
        "spec/volumes",
        r#"[[], [{"name": "v", "hostPath": {"path": "/var/log"}}], [{"name": "v", "hostPath": {"path": "/variable"}}, {"name": "w", "hostPath": {"path": "/var/"}}],
            [{"name": "v", "hostPath": {}}], [{"name": "v", "flexVolume": {"driver": "d"}}, {"name": "w", "csi": {"driver": "d"}}],
            [{"name": "v", "flexVolume": {}}, {"name": "w", "csi": {}}], [{"name": "v", "cephfs": {}}, {"name": "w", "image": {"reference": "r"}}],
            [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}],
            [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "a"}}]}}],
            [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "other"}}]}}],
            [{"name": "v", "projected": {"sources": [{"configMap": {"name": "other"}}]}}], [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
            [{"name": "v", "projected": {"sources": [null]}}], [{"name": "v", "projected": {}}],
            [{"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.namespace"}}]}}]}}],
            [{"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "x", "resourceFieldRef": {"resource": "limits.cpu"}}]}}, {"downwardAPI": {}}]}}]]"#,
    ),
];

/// Places in a container, likewise.
const OF_CONTAINER: &[(&str, &str)] = &[
    (
        "volumeMounts",
        r#"[null, [], [null], [{"name": "v", "mountPath": "/v"}], [{"name": "v", "mountPath": "/v", "readOnly": true}, {"name": "w", "mountPath": "/w"}]]"#,
    ),
    ("securityContext/runAsGroup", "[null, 0, 5, 65534]"),
    ("securityContext/readOnlyRootFilesystem", "[null, true, false]"),
    (
        "securityContext/capabilities",
        r#"[null, {}, {"add": ["CHOWN", "CHOWN"], "drop": []}, {"add": ["KILL"], "drop": ["KILL", "CHOWN"]}, {"drop": ["NET_RAW", "ALL"]}, {"add": [], "drop": null}]"#,
    ),
    (
        "securityContext/seLinuxOptions",
        r#"[null, {}, {"level": "s0:c1,c2"}, {"level": "s0:c2,c1", "type": "container_t"}]"#,
    ),
    (
        "securityContext/seccompProfile",
        r#"[null, {}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "x"}, {"type": "Localhost", "localhostProfile": ""}, {"type": "Localhost"},
            {"type": "Unconfined"}]"#,
    ),
];
