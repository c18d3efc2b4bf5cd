//! A network configuration of somebody else's that is broken and comes before the one that can be used.

use std::fs;

use serde_json::json;

use crate::agent::answers;
use crate::install::taint_is_gone;
use crate::node::{NAME, NETWORK, TAINT, condition};
use crate::pods::{Rules, address, deploy, meshed_namespace, ready, rules};
use crate::{eventually, on_node};

#[test]
fn the_agent_judges_by_the_configuration_that_the_runtime_uses() {
    on_node(async |node| {
        let broken = node.sandbox.path(NETWORK).with_file_name("00-broken.conflist");
        fs::write(&broken, "{\"name\": \"half").unwrap();
        // The runtime goes on to no other file, and says so.
        eventually("the runtime has no network", async || {
            let object = node.read(&format!("/api/v1/nodes/{NAME}")).await;
            let said = object["status"]["conditions"].to_string();
            match !condition(&object, "Ready") && said.contains("NetworkPluginNotReady") {
                true => Ok(()),
                false => Err(said),
            }
        })
        .await;
        answers(500, "no network configuration while 00-broken.conflist is the first").await;
        node.kubectl(&["taint", "node", NAME, &format!("{TAINT}:NoSchedule")]);
        meshed_namespace(node, "broken", "restricted").await;
        deploy(node, "broken", "web", &json!({}));
        let object = node.read(&format!("/api/v1/nodes/{NAME}")).await;
        assert!(object["spec"]["taints"].to_string().contains(TAINT), "{object}");

        fs::remove_file(&broken).unwrap();
        answers(200, "").await;
        taint_is_gone(node).await;
        let web = ready(node, "broken", "web").await;
        assert_eq!(rules(node, address(&web)), Rules::There);
        node.delete_namespaces(&["broken"]);
    });
}
