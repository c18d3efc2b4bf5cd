//! What the agent may do in its container, and that this is enough.

use serde_json::{Value, json};

use crate::agent::{about, ask, process};
use crate::node::{Node, condition, ctr};
use crate::pods::{Rules, address, application, name, namespace, namespace_of, remove_rules, rules};
use crate::process::Standing;
use crate::{eventually, image, on_node};

/// `CAP_CHOWN`, `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`, by their numbers in linux/capability.h.
const CAPABILITIES: u64 = 1 | 1 << 12 | 1 << 21;

#[test]
fn the_agent_has_the_capabilities_of_its_manifest_and_no_others() {
    on_node(async |node| {
        let process = process(node).expect("there is an agent");
        assert_eq!(Standing::of(node, process), Standing::confined(0, CAPABILITIES));
    });
}

/// The container of the proxy, injected by hand.
pub(crate) fn proxy() -> Value {
    json!({
        "name": "linkerd-proxy",
        "image": format!("{}:{}", image::PROXY.0, image::PROXY.1),
        "imagePullPolicy": "Never",
        "restartPolicy": "Always",
        "env": [
            {"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:4143"},
            {"name": "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "value": "127.0.0.1:4140"},
            {"name": "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "value": "0.0.0.0:4191"},
        ],
        "securityContext": {"runAsUser": 2102},
    })
}

/// A meshed pod that waits before its validator runs, so that something may happen to its rules.
fn held() -> Value {
    let mut spec = application("late");
    spec["initContainers"] = json!([
        {"name": "hold", "image": image::POD, "imagePullPolicy": "Never", "args": ["pause"]},
        {
            "name": "linkerd-network-validator",
            "image": format!("outrigger:{}", env!("CARGO_PKG_VERSION")),
            "imagePullPolicy": "Never",
            "command": ["/usr/lib/linkerd/linkerd2-network-validator"],
            "args": ["--connect-addr", "1.1.1.1:20001", "--listen-addr", "0.0.0.0:4140", "--timeout", "2s"],
            "securityContext": {"runAsUser": 65534},
        },
        proxy(),
    ]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late", "namespace": "late", "annotations": {"linkerd.io/setup-iptables": "cni"}},
        "spec": spec,
    })
}

async fn late(node: &Node, met: impl Fn(&Value) -> bool) -> Value {
    eventually("the late pod gets on", async || {
        let pod = node.read("/api/v1/namespaces/late/pods/late").await;
        if met(&pod) {
            Ok(pod)
        } else {
            Err(pod["status"].to_string())
        }
    })
    .await
}

#[test]
fn repair_reaches_the_namespace_of_a_pod_that_came_after_the_agent() {
    on_node(async |node| {
        namespace(node, "late", &json!({}), &json!({})).await;
        node.apply(&held());
        let pod = late(node, |pod| {
            !pod["status"]["initContainerStatuses"][0]["state"]["running"].is_null()
                && pod["status"]["podIP"].is_string()
        })
        .await;
        let bound = namespace_of(node, address(&pod)).expect("the pod has a network");
        let bound = bound.file_name().unwrap().to_str().unwrap().to_owned();
        // The runtime has bound it on the node while the agent's container was there already.
        assert!(about(node, "mountinfo").contains(&format!("/host/run/netns/{bound} ")));
        remove_rules(node, address(&pod));
        let hold = pod["status"]["initContainerStatuses"][0]["containerID"]
            .as_str()
            .unwrap();
        let hold = hold.strip_prefix("containerd://").unwrap();
        ctr(&node.sandbox, &["tasks", "kill", "--signal", "SIGTERM", hold]);

        let pod = late(node, |pod| condition(pod, "Ready")).await;
        assert_eq!(rules(node, address(&pod)), Rules::There);
        eventually("people are told", async || {
            let events = node.read("/apis/events.k8s.io/v1/namespaces/late/events").await;
            let mut items = events["items"].as_array().into_iter().flatten();
            let found = items.any(|event| event["action"] == "Repairing" && event["regarding"]["name"] == name(&pod));
            if found { Ok(()) } else { Err(events.to_string()) }
        })
        .await;
        let metrics = ask("/metrics").await.1;
        assert!(
            !metrics.contains("outrigger_cni_repairs_total{outcome=\"failed\"}"),
            "{metrics}"
        );
        node.delete_namespaces(&["late"]);
        eventually("the binding is gone from the agent's container", async || {
            let mounts = about(node, "mountinfo");
            if mounts.contains(&bound) { Err(mounts) } else { Ok(()) }
        })
        .await;
    });
}
