//! The constraints that every OpenShift cluster has, as far as they are judged, and who may use them.

use serde_json::{Value, json};

/// Drops of the first generation.
const CLASSIC: [&str; 4] = ["KILL", "MKNOD", "SETUID", "SETGID"];
const VOLUMES: [&str; 7] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
];

/// A constraint as tight as any, then changed field by field.
pub(super) fn constraint(name: &str, changes: Value) -> Value {
    let mut volumes = VOLUMES.to_vec();
    volumes.push("secret");
    let mut object = json!({
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": name},
        "allowPrivilegeEscalation": true,
        "requiredDropCapabilities": CLASSIC,
        "runAsUser": {"type": "MustRunAsRange"},
        "seLinuxContext": {"type": "MustRunAs"},
        "fsGroup": {"type": "MustRunAs"},
        "supplementalGroups": {"type": "RunAsAny"},
        "volumes": volumes,
    });
    let Value::Object(changes) = changes else {
        panic!("changes are a map")
    };
    for (key, value) in changes {
        object[key] = value;
    }
    object
}

/// What the second generation has in common.
fn second(name: &str, changes: Value) -> Value {
    let mut object = constraint(name, changes);
    object["allowPrivilegeEscalation"] = json!(false);
    object["requiredDropCapabilities"] = json!(["ALL"]);
    object["allowedCapabilities"] = json!(["NET_BIND_SERVICE"]);
    object["seccompProfiles"] = json!(["runtime/default"]);
    object
}

/// Every one, in no order.
pub(super) fn all() -> Vec<Value> {
    let any = json!({"type": "RunAsAny"});
    let not_root = json!({"type": "MustRunAsNonRoot"});
    let host_volumes: Vec<_> = VOLUMES.into_iter().chain(["secret", "hostPath", "nfs"]).collect();
    let inner = json!({"type": "MustRunAs", "ranges": [{"min": 1000, "max": 65534}]});
    vec![
        constraint(
            "privileged",
            json!({
                "allowPrivilegedContainer": true, "allowHostNetwork": true, "allowHostPorts": true, "allowHostPID": true,
                "allowHostIPC": true, "allowHostDirVolumePlugin": true, "allowedCapabilities": ["*"], "allowedUnsafeSysctls": ["*"],
                "requiredDropCapabilities": null, "runAsUser": any, "seLinuxContext": any, "fsGroup": any, "seccompProfiles": ["*"],
                "volumes": ["*"], "groups": ["system:cluster-admins", "system:nodes", "system:masters"],
            }),
        ),
        constraint(
            "anyuid",
            json!({
                "priority": 10, "requiredDropCapabilities": ["MKNOD"], "runAsUser": any, "fsGroup": any,
                "groups": ["system:cluster-admins"],
            }),
        ),
        constraint("restricted", json!({})),
        second("restricted-v2", json!({"groups": ["system:authenticated"]})),
        second(
            "restricted-v3",
            json!({
                "userNamespaceLevel": "RequirePodLevel", "fsGroup": inner, "groups": ["system:authenticated"],
                "runAsUser": {"type": "MustRunAsRange", "uidRangeMin": 1000, "uidRangeMax": 65534},
            }),
        ),
        constraint("nonroot", json!({"runAsUser": not_root, "fsGroup": any})),
        second("nonroot-v2", json!({"runAsUser": not_root, "fsGroup": any})),
        constraint(
            "hostmount-anyuid",
            json!({
                "allowHostDirVolumePlugin": true, "requiredDropCapabilities": ["MKNOD"], "runAsUser": any, "fsGroup": any,
                "volumes": host_volumes,
            }),
        ),
        constraint("hostnetwork", json!({"allowHostNetwork": true, "allowHostPorts": true})),
        second(
            "hostnetwork-v2",
            json!({"allowHostNetwork": true, "allowHostPorts": true}),
        ),
        constraint(
            "hostaccess",
            json!({
                "allowHostNetwork": true, "allowHostPorts": true, "allowHostPID": true, "allowHostIPC": true,
                "allowHostDirVolumePlugin": true,
                "volumes": VOLUMES.into_iter().chain(["secret", "hostPath"]).collect::<Vec<_>>(),
            }),
        ),
    ]
}
