//! Events where owners are unusual, or their controllers do not give up.

use serde_json::{Value, json};

use crate::cluster::{Namespace, create as create_at};
use crate::owners::{events, injected};
use crate::scene::{CNI, Scene};
use crate::workload::{create, pod_of};
use crate::{mesh, pod};

/// The number of events of the namespace, whatever they are about.
async fn all(namespace: &Namespace) -> usize {
    let events = namespace.get("api/v1", "events").await.body["items"].take();
    events.as_array().map(Vec::len).unwrap()
}

fn owned_by(api_version: &str, kind: &str, name: &str) -> Value {
    let uid = "7d0c1e52-6a4e-4a0d-9d5e-000000000000";
    pod_of(&json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": uid}}))
}

#[tokio::test]
async fn a_controller_that_tries_again_and_again_makes_one_event() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let full = json!({"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}});
    assert_eq!(namespace.post("api/v1", "resourcequotas", &full).await.code, 201);
    let status = json!({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}});
    let path = format!("/api/v1/namespaces/{}/resourcequotas/full/status", namespace.name);
    let patched = crate::cluster::call(&scene.client, crate::cluster::Verb::Patch, &path, Some(&status)).await;
    assert!(patched.unwrap().accepted());
    let owner = create(&namespace, "StatefulSet", "ledger", None).await;
    for _ in 0..40 {
        let refused = namespace.create_pod(&pod_of(&owner)).await;
        assert!(refused.message().contains("exceeded quota"), "{}", refused.message());
    }
    let told = events(&namespace, &owner, 40).await;
    assert_eq!(told.len(), 1, "one event with a count: {told:?}");
    let sent = scene.webhook.metric("outrigger_events_total{outcome=\"sent\"}").await;
    assert!(sent >= 40.0, "{sent}");
}

#[tokio::test]
async fn nobody_is_told_where_linkerd_tells_nobody() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let mut bare = pod("bare", &json!({}));
    assert_eq!(mesh::redirection(&namespace.create_pod(&bare).await.body), Some("cni"));
    bare["metadata"] = json!({"generateName": "bare-"});
    assert_eq!(mesh::redirection(&namespace.create_pod(&bare).await.body), Some("cni"));
    for (api_version, kind) in [
        ("core.strimzi.io/v1beta2", "StrimziPodSet"),
        ("apps.kruise.io/v1alpha1", "StatefulSet"),
        ("v1", "Node"),
    ] {
        let created = namespace.create_pod(&owned_by(api_version, kind, "odd")).await;
        assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
    }
    // All wait in one queue: those of the others would be published before this one, or with it.
    let owner = create(&namespace, "DaemonSet", "last", None).await;
    namespace.create_pod(&pod_of(&owner)).await;
    assert_eq!(events(&namespace, &owner, 1).await, [injected("DaemonSet")]);
    assert_eq!(all(&namespace).await, 1);
}

#[tokio::test]
async fn the_replica_set_of_an_unknown_kind_is_told() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let rollout = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"name": "web", "uid": "7d0c1e52-6a4e-4a0d-9d5e-000000000000"},
    });
    let replica_set = create(&namespace, "ReplicaSet", "web-5d9c", Some(&rollout)).await;
    namespace.create_pod(&pod_of(&replica_set)).await;
    assert_eq!(events(&namespace, &replica_set, 1).await, [injected("ReplicaSet")]);
}

#[tokio::test]
async fn the_longest_name_fits() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    // A name of 253 characters, with a dot where the event's name has to be cut.
    let name = format!("{}.{}", "a".repeat(235), "b".repeat(17));
    let template = json!({"metadata": {"labels": {"app": "long"}}, "spec": pod("web", &json!({}))["spec"]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "long"}}, "template": template},
    });
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", namespace.name);
    let deployment = create_at(&scene.client, &path, &deployment).await;
    let replica_set = create(&namespace, "ReplicaSet", "long", Some(&deployment)).await;
    namespace.create_pod(&pod_of(&replica_set)).await;
    assert_eq!(events(&namespace, &deployment, 1).await, [injected("Deployment")]);
    let failed = scene.webhook.metric("outrigger_events_total{outcome=\"failed\"}").await;
    assert!(failed < 1.0, "{failed}");
}
