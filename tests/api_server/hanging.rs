//! An API server that hangs: what the webhook knows it goes on answering from.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Options};
use crate::pod;
use crate::scene::{PLAIN, Scene};

/// The review of a pod of a ReplicaSet's that nobody knows, in `namespace`.
fn review(namespace: &str, owner: &str) -> Vec<u8> {
    let mut pod = pod("", &json!({}));
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "1", "controller": true});
    pod["metadata"] = json!({"generateName": "web-", "ownerReferences": [owner]});
    let request = json!({
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": namespace,
        "operation": "CREATE", "object": pod,
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}

#[tokio::test]
async fn namespaces_that_are_known_get_the_same_answer_from_a_server_that_hangs() {
    let cluster = Cluster::start(Options::default()).await;
    let cluster = cluster.unwrap_or_else(|message| panic!("{message}"));
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let namespace = scene.meshed("privileged").await;
    let ask = async |namespace: &str, owner: &str| scene.webhook.post(review(namespace, owner)).await.unwrap();
    let (status, before) = ask(&namespace.name, "web-1").await;
    assert_eq!(status, 200, "{before}");
    assert!(
        before.parse::<Value>().unwrap()["response"]["patch"].is_string(),
        "{before}"
    );

    let hanging = cluster.hang_api_server();
    assert_eq!(ask(&namespace.name, "web-1").await, (200, before.clone()));
    // Nobody tells whose an owner is: it stands for itself, as it did before.
    assert_eq!(ask(&namespace.name, "web-2").await.0, 200);
    // What nobody knows is for the failure policy, before the API server's patience ends.
    let (status, text) = ask("nobody-knows", "web-1").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("namespace"), "{text}");
    drop(hanging);
    assert_eq!(ask(&namespace.name, "web-1").await, (200, before));
}
