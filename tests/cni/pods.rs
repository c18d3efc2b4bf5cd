//! Pods as the API server has them.

use serde_json::{Value, json};

/// The UID of every pod here.
pub(crate) const UID: &str = "5b1c7a0e-0009-4a6a-9c60-000000000001";

/// Injected in CNI mode: a native sidecar, and the validator before it.
pub(crate) fn meshed() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "meshed", "namespace": "app", "uid": UID, "annotations": {"linkerd.io/setup-iptables": "cni"}},
        "spec": {
            "initContainers": [
                {"name": "linkerd-network-validator", "image": "proxy"},
                {"name": "linkerd-proxy", "image": "proxy", "restartPolicy": "Always", "securityContext": {"runAsUser": 2102}},
            ],
            "containers": [{"name": "app", "image": "app"}],
        },
    })
}

/// Not meshed.
pub(crate) fn plain() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", "namespace": "app", "uid": UID},
        "spec": {"containers": [{"name": "tool", "image": "tool"}]},
    })
}
