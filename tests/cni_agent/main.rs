//! `outrigger cni-agent` against a real API server, with the rights of the manifests in `cni-config`: no kubelet, but Node
//! objects, pods bound to them, and real network namespaces.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed expectation is how a test fails; an agent is about files and processes"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../redirect/netns.rs"]
mod netns;

mod agent;
mod full_disk;
mod life;
mod renewal;
mod repair;
mod restriction;
mod taint;

use serde_json::{Value, json};

/// A pod on `node` that is meshed in CNI mode.
fn meshed(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"linkerd.io/setup-iptables": "cni"}},
        "spec": {
            "nodeName": node,
            "initContainers": [
                {"name": "linkerd-network-validator", "image": "v"},
                {"name": "linkerd-proxy", "image": "p", "restartPolicy": "Always",
                    "env": [{"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:4143"}],
                    "securityContext": {"runAsUser": 2102}},
            ],
            "containers": [{"name": "web", "image": "web", "env": [{"name": "PRIVATE", "value": "x"}]}],
        },
    })
}
