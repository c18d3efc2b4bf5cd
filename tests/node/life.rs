//! From the first moment of the product on a node to the last.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{announce, ask, bring_back};
use crate::install::{agent, taint_is_gone, uninstall, uninstall_agent, webhook};
use crate::node::{NAME, NETWORK, Node, TAINT, condition};
use crate::pods::{Rules, address, deploy, meshed_namespace, namespace, pod_of, ready, rules};
use crate::{eventually, on_node};

/// What is installed of the product on the node, by path.
fn installed(node: &Node) -> Vec<String> {
    let is_there = |path: &&str| node.sandbox.path(path).exists();
    let paths = [
        "/opt/cni/bin/outrigger-cni",
        "/opt/cni/bin/outrigger-cni-api",
        "/run/outrigger/cni.sock",
        "/run/outrigger/kubeconfig",
    ];
    paths
        .iter()
        .filter(|path| is_there(path))
        .map(|path| (*path).to_owned())
        .collect()
}

/// The network configuration of the node, which must be the only file in its folder.
pub(crate) fn network(node: &Node) -> String {
    let folder = node.sandbox.path(NETWORK);
    let folder = folder.parent().unwrap();
    let names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    fs::read_to_string(node.sandbox.path(NETWORK)).unwrap()
}

/// Waits until the validator of a pod has found that there are no rules.
async fn is_stopped_by_its_validator(node: &Node, namespace: &str, name: &str) -> Value {
    eventually("the validator stops the pod", async || {
        let pod = pod_of(node, namespace, name).await?;
        let stopped = pod["status"]["initContainerStatuses"]
            .to_string()
            .contains("\"exitCode\":95");
        if stopped {
            Ok(pod)
        } else {
            Err(pod["status"].to_string())
        }
    })
    .await
}

#[test]
fn pods_that_are_there_before_the_agent_end_well() {
    on_node(async |node| {
        meshed_namespace(node, "before", "restricted").await;
        deploy(node, "before", "kept", &json!({}));
        let kept = ready(node, "before", "kept").await;
        uninstall_agent(node).await;
        assert_eq!(network(node), node.network);
        // The pod keeps its rules, and the runtime the programs that it needs for the end of that pod.
        assert_eq!(rules(node, address(&kept)), Rules::There);
        assert_eq!(
            installed(node),
            ["/opt/cni/bin/outrigger-cni", "/opt/cni/bin/outrigger-cni-api"]
        );

        // As at boot: pods are made for the plugin, which is not there yet.
        announce(node).await;
        deploy(node, "before", "early", &json!({}));
        let early = is_stopped_by_its_validator(node, "before", "early").await;
        assert_eq!(rules(node, address(&early)), Rules::Missing);
        assert!(
            early["status"]["containerStatuses"][0]["state"]["running"].is_null(),
            "{early}"
        );
        node.kubectl(&["taint", "node", NAME, &format!("{TAINT}:NoSchedule")]);
        deploy(node, "before", "late", &json!({}));
        eventually("the taint keeps the late pod off", async || {
            let pod = pod_of(node, "before", "late").await?;
            let conditions = pod["status"]["conditions"].to_string();
            if conditions.contains("untolerated taint") {
                Ok(())
            } else {
                Err(conditions)
            }
        })
        .await;

        bring_back(node).await;
        taint_is_gone(node).await;
        for name in ["early", "late"] {
            let pod = ready(node, "before", name).await;
            assert_eq!(rules(node, address(&pod)), Rules::There, "{name}");
        }
        let metrics = ask("/metrics").await.1;
        assert!(
            metrics.contains("outrigger_cni_repairs_total{outcome=\"in_place\"}"),
            "{metrics}"
        );
        node.delete_namespaces(&["before"]);
    });
}

#[test]
fn what_is_uninstalled_leaves_the_node_as_it_was() {
    on_node(async |node| {
        uninstall(node).await;
        assert_eq!(network(node), node.network);
        assert_eq!(installed(node), [""; 0]);
        // Of the node's own rules there are those of the test alone.
        let tables = node.sandbox.run(&["nft", "list", "tables"]);
        assert_eq!(tables.trim(), "table ip services");

        namespace(node, "after", &json!({}), &json!({})).await;
        deploy(node, "after", "plain", &json!({}));
        let plain = ready(node, "after", "plain").await;
        assert_eq!(rules(node, address(&plain)), Rules::Missing);
        node.delete_namespaces(&["after"]);

        agent(node).await;
        webhook(node).await;
        assert!(condition(&node.read(&format!("/api/v1/nodes/{NAME}")).await, "Ready"));
    });
}
