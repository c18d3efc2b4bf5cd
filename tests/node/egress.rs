//! The egress gateway as the chart installs it: what its processes have, and what they let out of which pods.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::guide::run;
use crate::node::Node;
use crate::pods::{address, deploy, namespace, namespace_of, ready};
use crate::process::{Standing, running};
use crate::sandbox::enter;
use crate::{eventually, on_node};

/// The user of Linkerd's controllers.
const CONTROLLER: u32 = 2103;

const INSTALL: &str = "outrigger install --server-version=1.36 --set=egress.enabled=true,egress.gateway.enabled=true \
    --set='egress.gateway.clusterNetworks={10.96.0.0/12,10.244.0.0/16}' \
    --show-only=templates/egress/custom-resource-definitions.yaml --show-only=templates/egress/gateway-rbac.yaml \
    --show-only=templates/egress/gateway.yaml --show-only=templates/egress/gateway-network-policy.yaml >gateway.yaml";

/// What a gateway answers, in the network at `network`, to a request for `host`.
fn ask(network: &Path, gateway: &Value, host: &str) -> String {
    let url = format!("http://{}:4100/", address(gateway));
    let header = format!("Host: {host}");
    enter(network, || {
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "30", "--header", &header, &url])
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    })
}

#[test]
fn the_gateway_starts_with_nothing_and_knows_pods_by_their_addresses() {
    on_node(async |node: &mut Node| {
        let folder = TempDir::new().unwrap();
        run(
            &node.cluster,
            &format!("{INSTALL}; kubectl apply -f gateway.yaml"),
            folder.path(),
        );
        namespace(node, "fenced", &json!({}), &json!({})).await;
        deploy(node, "fenced", "web", &json!({}));
        let web = ready(node, "fenced", "web").await;
        let deployment = "/apis/apps/v1/namespaces/linkerd/deployments/outrigger-egress-gateway";
        eventually("both gateways are ready", async || {
            let status = node.read(deployment).await["status"].clone();
            (status["readyReplicas"] == 2)
                .then_some(())
                .ok_or_else(|| status.to_string())
        })
        .await;
        let processes = running(node, &["/outrigger-egress-gateway"]);
        assert_eq!(processes.len(), 2);
        for process in processes {
            assert_eq!(Standing::of(node, process), Standing::confined(CONTROLLER, 0));
        }

        let selector = "labelSelector=linkerd.io/control-plane-component%3Doutrigger-egress-gateway";
        let pods = node.read(&format!("/api/v1/namespaces/linkerd/pods?{selector}")).await;
        let gateway = &pods["items"][0];
        node.apply(&json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "EgressPolicy",
            "metadata": {"name": "closed", "namespace": "fenced"},
            "spec": {"hosts": ["www.example.com"], "allowlist": "Enabled", "placement": "Gateway"},
        }));
        let within = namespace_of(node, address(&web)).expect("the pod has a network");
        eventually("the pod is closed in", async || {
            let answer = ask(&within, gateway, "www.example.net");
            let is_closed = answer == "egress denied: host_not_listed: www.example.net\n";
            is_closed.then_some(()).ok_or(answer)
        })
        .await;
        let answer = ask(&node.sandbox.network(), gateway, "www.example.com");
        assert_eq!(answer, "egress denied: source_unknown: no host\n");
        run(&node.cluster, "kubectl delete -f gateway.yaml", folder.path());
        node.delete_namespaces(&["fenced"]);
    });
}
