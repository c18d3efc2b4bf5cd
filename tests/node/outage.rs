//! A node that lacks the agent, the plugin's credentials or the API server: what it needs starts, and no meshed pod ever runs
//! without its rules.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{bring_back, credentials_are_refused, keep_away, kill};
use crate::attachments::{self, Attachment};
use crate::image::POD;
use crate::node::{Node, STATIC_PODS, condition, ctr};
use crate::pods::{Rules, address, application, deploy, marks_at, meshed_namespace, name, pod_of, ready, rules};
use crate::{eventually, on_node};

/// A pod of the kind that a node needs itself, in kube-system.
fn system_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"containers": [{"name": "system", "image": POD, "imagePullPolicy": "Never"}], "terminationGracePeriodSeconds": 1},
    })
}

async fn system_pod_runs(node: &Node, name: &str) {
    node.apply(&system_pod(name));
    eventually(&format!("kube-system/{name} is ready"), async || {
        let pod = node.read(&format!("/api/v1/namespaces/kube-system/pods/{name}")).await;
        if condition(&pod, "Ready") {
            Ok(())
        } else {
            Err(pod["status"].to_string())
        }
    })
    .await;
    node.kubectl(&["-n", "kube-system", "delete", "pod", name]);
}

#[test]
fn pods_start_as_they_should_while_the_agent_is_away() {
    on_node(async |node| {
        meshed_namespace(node, "away", "restricted").await;
        kill(node);
        deploy(node, "away", "killed", &json!({}));
        let pod = ready(node, "away", "killed").await;
        assert_eq!(rules(node, address(&pod)), Rules::There);

        // A roll-out that fails: the plugin stays, and asks the API server.
        keep_away(node).await;
        deploy(node, "away", "meshed", &json!({}));
        deploy(node, "away", "plain", &json!({"linkerd.io/inject": "disabled"}));
        let meshed = ready(node, "away", "meshed").await;
        assert_eq!(rules(node, address(&meshed)), Rules::There);
        let plain = ready(node, "away", "plain").await;
        assert_eq!(rules(node, address(&plain)), Rules::Missing);

        // Its token is none any more, for the account is another one.
        node.kubectl(&["-n", "linkerd-cni", "delete", "serviceaccount", "outrigger-cni-plugin"]);
        node.cluster.apply("cni-config/rbac.yaml");
        credentials_are_refused(node).await;
        deploy(node, "away", "refused", &json!({}));
        eventually("the kubelet is told why", async || {
            let events = node
                .read("/api/v1/namespaces/away/events?fieldSelector=reason%3DFailedCreatePodSandBox")
                .await;
            let text = events.to_string();
            match text.contains("outrigger-cni") && text.contains("401") && text.contains("away/refused-") {
                true => Ok(()),
                false => Err(text),
            }
        })
        .await;
        system_pod_runs(node, "needed").await;
        let waiting = pod_of(node, "away", "refused").await.unwrap();
        assert!(waiting["status"]["podIP"].is_null(), "{waiting}");
        assert!(attachments::none(node, "away", "refused"));

        bring_back(node).await;
        let pod = ready(node, "away", "refused").await;
        assert_eq!(rules(node, address(&pod)), Rules::There);
        node.delete_namespaces(&["away"]);
    });
}

/// Kills a sandbox behind the kubelet's back.
fn kill_sandbox(node: &Node, attachment: &Attachment) {
    let id = &attachment.id;
    ctr(&node.sandbox, &["tasks", "kill", "--signal", "SIGKILL", id]);
}

/// Gives the kubelet a static pod.
fn static_pod(node: &Node, pod: &Value) {
    let file = node.sandbox.path(STATIC_PODS).join(format!("{}.json", name(pod)));
    fs::write(file, pod.to_string()).unwrap();
}

/// A pod that somebody has meshed by hand.
fn meshed_by_hand(pod: &str) -> Value {
    let mut spec = application(pod);
    let proxy = crate::rights::proxy();
    spec["initContainers"] = json!([proxy]);
    let metadata = json!({"name": pod, "namespace": "offline", "annotations": {"linkerd.io/setup-iptables": "cni"}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

#[test]
fn pods_come_back_with_their_rules_while_the_api_server_is_away() {
    on_node(async |node| {
        meshed_namespace(node, "offline", "privileged").await;
        deploy(node, "offline", "meshed", &json!({}));
        deploy(node, "offline", "plain", &json!({"linkerd.io/inject": "disabled"}));
        let meshed = ready(node, "offline", "meshed").await;
        ready(node, "offline", "plain").await;
        let old = [
            attachments::one(node, "offline", "meshed", &[]).await,
            attachments::one(node, "offline", "plain", &[]).await,
        ];
        node.cluster.stop_api_server().await;
        for attachment in &old {
            kill_sandbox(node, attachment);
        }
        let again = attachments::one(node, "offline", "meshed", &old).await;
        assert_eq!(rules(node, again.address), Rules::There);
        let plain = attachments::one(node, "offline", "plain", &old).await;
        assert_eq!(rules(node, plain.address), Rules::Missing);
        eventually("the application answers behind its proxy", async || {
            let marks = marks_at(again.address).await?;
            match marks == [format!("4143 {} for 8080", name(&meshed))] {
                true => Ok(()),
                false => Err(format!("{marks:?}")),
            }
        })
        .await;

        // Nobody knows these but the kubelet.
        static_pod(node, &meshed_by_hand("by-hand"));
        static_pod(node, &system_pod("static"));
        attachments::one(node, "kube-system", "static", &[]).await;
        eventually("the meshed one is refused for now", async || {
            let log = fs::read_to_string(node.sandbox.logs().join("containerd.log")).unwrap();
            let refused = log
                .lines()
                .any(|line| line.contains("by-hand-node") && line.contains("outrigger-cni"));
            if refused {
                Ok(())
            } else {
                Err("containerd does not say so".to_owned())
            }
        })
        .await;
        assert!(attachments::none(node, "offline", "by-hand"));

        node.start_api_server().await;
        let late = attachments::one(node, "offline", "by-hand", &[]).await;
        assert_eq!(rules(node, late.address), Rules::There);
        eventually("it answers behind its proxy", async || {
            let marks = marks_at(late.address).await?;
            if marks.len() == 1 {
                Ok(())
            } else {
                Err(format!("{marks:?}"))
            }
        })
        .await;
        for pod in ["by-hand", "static"] {
            fs::remove_file(node.sandbox.path(STATIC_PODS).join(format!("{pod}.json"))).unwrap();
        }
        node.delete_namespaces(&["offline"]);
    });
}
