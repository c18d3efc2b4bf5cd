//! Pods that started before the plugin was there.

use std::os::unix::fs::symlink;

use outrigger::redirect::apply::redirects_inbound;
use serde_json::{Value, json};

use crate::agent::{LIMIT, Node, install, kubectl};
use crate::cluster::{Cluster, Namespace, poll, shared};
use crate::meshed;
use crate::netns::Netns;

/// A status in which the validator found no rules, again and again.
fn failing(address: &str) -> Value {
    json!({"phase": "Pending", "podIP": address, "podIPs": [{"ip": address}], "initContainerStatuses": [{
        "name": "linkerd-network-validator", "ready": false, "restartCount": 2, "image": "v", "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 95, "reason": "Error"}},
    }]})
}

fn set_status(cluster: &Cluster, namespace: &str, pod: &str, status: &Value) {
    let patch = json!({"status": status}).to_string();
    let arguments = [
        "-n",
        namespace,
        "patch",
        "pod",
        pod,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    kubectl(cluster, &arguments);
}

fn events(cluster: &Cluster, namespace: &str) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(&kubectl(
        cluster,
        &["-n", namespace, "get", "events.events.k8s.io", "-o", "json"],
    ))
    .unwrap();
    let text = |event: &Value, pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|event| (text(event, "/regarding/name"), text(event, "/action")))
        .collect()
}

#[tokio::test]
async fn rules_that_are_missing_are_written_in_place() {
    let cluster = shared().await;
    install(cluster);
    let client = cluster.client().await;
    let node = Node::create(cluster, &json!([])).await;
    let namespace = Namespace::create(&client, "repair", &[], &[]).await;
    let (pod, other) = (Netns::new(), Netns::new());
    for (netns, address) in [(&pod, "10.123.0.7/24"), (&other, "10.123.0.8/24")] {
        netns.ip(&["link", "add", "eth0", "type", "bridge"]);
        netns.ip(&["address", "add", address, "dev", "eth0"]);
        symlink(netns.path(), node.path("netns").join(netns.name())).unwrap();
    }
    for name in ["lost", "plain"] {
        let mut object = meshed(name, &node.name);
        if name == "plain" {
            object["spec"]["initContainers"] = json!([]);
        }
        assert!(namespace.create_pod(&object).await.accepted());
    }
    set_status(cluster, &namespace.name, "lost", &failing("10.123.0.7"));
    set_status(
        cluster,
        &namespace.name,
        "plain",
        &json!({"phase": "Running", "podIP": "10.123.0.8", "podIPs": [{"ip": "10.123.0.8"}]}),
    );
    let agent = node.start(cluster, &[]).await;
    let repaired = async || (pod.inside(redirects_inbound) == Some(true)).then_some(());
    assert!(poll(LIMIT, repaired).await.is_some(), "{}", agent.log_tail());
    let told = async || {
        events(cluster, &namespace.name)
            .contains(&("lost".to_owned(), "Repairing".to_owned()))
            .then_some(())
    };
    assert!(poll(LIMIT, told).await.is_some(), "{}", agent.log_tail());
    assert_eq!(other.inside(redirects_inbound), Some(false));
    assert!(namespace.pod("lost").await.body["metadata"]["deletionTimestamp"].is_null());
    let metrics = node.ask("/metrics").await.1;
    assert!(
        metrics.contains("outrigger_cni_repairs_total{outcome=\"in_place\"} 1\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn nothing_is_written_where_two_namespaces_have_the_address() {
    let cluster = shared().await;
    install(cluster);
    let client = cluster.client().await;
    let node = Node::create(cluster, &json!([])).await;
    let namespace = Namespace::create(&client, "twice", &[], &[]).await;
    let spaces = [Netns::new(), Netns::new()];
    for netns in &spaces {
        // Twice under another name is no other.
        for name in [netns.name().to_owned(), format!("{}-again", netns.name())] {
            symlink(netns.path(), node.path("netns").join(name)).unwrap();
        }
    }
    let [pod, neighbour] = spaces;
    pod.ip(&["link", "add", "eth0", "type", "bridge"]);
    pod.ip(&["address", "add", "10.125.0.7/24", "dev", "eth0"]);
    neighbour.ip(&["address", "add", "10.125.0.7/32", "dev", "lo"]);
    assert!(namespace.create_pod(&meshed("lost", &node.name)).await.accepted());
    set_status(cluster, &namespace.name, "lost", &failing("10.125.0.7"));
    let agent = node.start(cluster, &[]).await;
    // It says so, once it has looked.
    let metrics = async || node.ask("/metrics").await.1;
    let looked = async || metrics().await.contains("outrigger_cni_repairs_total{").then_some(());
    assert!(poll(LIMIT, looked).await.is_some(), "{}", agent.log_tail());
    let metrics = metrics().await;
    assert!(metrics.contains("{outcome=\"left_alone\"} 1\n"), "{metrics}");
    assert_eq!(
        [&pod, &neighbour].map(|it| it.inside(redirects_inbound)),
        [Some(false); 2]
    );
    // With the address gone there, it is repaired.
    neighbour.ip(&["address", "del", "10.125.0.7/32", "dev", "lo"]);
    let repaired = async || (pod.inside(redirects_inbound) == Some(true)).then_some(());
    assert!(poll(LIMIT, repaired).await.is_some(), "{}", agent.log_tail());
    assert_eq!(neighbour.inside(redirects_inbound), Some(false));
}

#[tokio::test]
async fn a_pod_that_cannot_be_repaired_is_deleted_only_where_another_takes_its_place() {
    let cluster = shared().await;
    install(cluster);
    let client = cluster.client().await;
    let node = Node::create(cluster, &json!([])).await;
    let namespace = Namespace::create(&client, "delete", &[], &[]).await;
    let owned = |name: &str, kind: &str, version: &str| {
        let mut pod = meshed(name, &node.name);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true}]);
        pod
    };
    let pods = [
        owned("web", "ReplicaSet", "apps/v1"),
        owned("job", "Job", "batch/v1"),
        meshed("bare", &node.name),
    ];
    for pod in &pods {
        assert!(namespace.create_pod(pod).await.accepted());
        set_status(
            cluster,
            &namespace.name,
            pod["metadata"]["name"].as_str().unwrap(),
            &failing("10.124.0.9"),
        );
    }
    let agent = node.start(cluster, &[]).await;
    let expected = [("bare", "Repairing"), ("job", "Repairing"), ("web", "Deleting")]
        .map(|(pod, action)| (pod.to_owned(), action.to_owned()));
    let told = async || {
        let events = events(cluster, &namespace.name);
        expected.iter().all(|event| events.contains(event)).then_some(())
    };
    assert!(
        poll(LIMIT, told).await.is_some(),
        "{:?}; {}",
        events(cluster, &namespace.name),
        agent.log_tail()
    );
    // Without a kubelet a pod that is deleted stays, with a time stamp.
    let deleted = async |name: &str| {
        let pod = namespace.pod(name).await;
        pod.code == 404 || !pod.body["metadata"]["deletionTimestamp"].is_null()
    };
    let gone = async || deleted("web").await.then_some(());
    assert!(poll(LIMIT, gone).await.is_some(), "{}", agent.log_tail());
    assert!(!deleted("job").await && !deleted("bare").await);
}
