//! The start-up taint goes while another writer changes the taints: nobody's change is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::PostParams;
use outrigger::cni::agent::taint::remove;
use serde_json::json;

use crate::agent::Node;
use crate::cluster::shared;

const OURS: &str = "outrigger.linkerd.io/cni-not-ready";

/// Adds and removes taints by reading and replacing the node, as controllers do, and returns the keys that it left.
async fn write(api: &Api<v1::Node>, name: &str, stop: &AtomicBool) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    let mut round = 0_u32;
    // It stops after a round that was accepted.
    while !stop.load(Ordering::Relaxed) || round < 3 {
        let mut node = api.get(name).await.unwrap();
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        let key = format!("example.com/{round}");
        let mut next = left.clone();
        if round % 3 == 2 && !next.is_empty() {
            let gone = next.remove(0);
            taints.retain(|taint| taint.key != gone);
        }
        next.insert(0, key.clone());
        let taint = v1::Taint {
            key,
            effect: "NoExecute".to_owned(),
            ..v1::Taint::default()
        };
        taints.insert(0, taint);
        match api.replace(name, &PostParams::default(), &node).await {
            Ok(_) => {
                left = next;
                round += 1;
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
        if round.is_multiple_of(8) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    left.sort();
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_another_writer_is_lost() {
    let cluster = shared().await;
    let client = cluster.client().await;
    let api = Api::<v1::Node>::all(client.clone());
    for _ in 0..10 {
        let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": OURS, "effect": "NoSchedule"},
            {"key": OURS, "effect": "NoExecute"}, {"key": "z", "value": "v", "effect": "NoSchedule"}]);
        let node = Node::create(cluster, &taints).await;
        let stop = AtomicBool::new(false);
        let removal = async {
            let mut removed = 0;
            // Contested for a while is no defeat.
            while removed < 2 {
                removed += remove(&client, &node.name, OURS).await.unwrap_or_default();
                if !node.taints(cluster).await.iter().any(|key| key == OURS) {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        };
        let (written, ()) = tokio::join!(write(&api, &node.name, &stop), removal);
        let mut expected = written;
        expected.extend(["a".to_owned(), "z".to_owned()]);
        expected.sort();
        let mut found = node.taints(cluster).await;
        found.sort();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_node_without_the_taint_is_left_alone() {
    let cluster = shared().await;
    let client = cluster.client().await;
    let node = Node::create(cluster, &json!([{"key": "a", "effect": "NoSchedule"}])).await;
    assert_eq!(remove(&client, &node.name, OURS).await.unwrap(), 0);
    assert_eq!(node.taints(cluster).await, ["a"]);
    let error = remove(&client, "no-such-node", OURS).await.unwrap_err().to_string();
    assert!(error.contains("no-such-node") && error.contains("not found"), "{error}");
}
