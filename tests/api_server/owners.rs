//! What a pod belongs to: the label that names it, and the events that it gets.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Namespace, Reply, poll};
use crate::scene::{CNI, INJECT, Scene};
use crate::workload::{create, pod_of};
use crate::{mesh, pod};

/// Events are published beside the answers, in milliseconds on an idle machine.
const EVENT_LIMIT: Duration = Duration::from_secs(30);

fn label<'a>(reply: &'a Reply, kind: &str) -> Option<&'a str> {
    reply.body["metadata"]["labels"][format!("linkerd.io/proxy-{kind}")].as_str()
}

/// The events on `object`, once they have happened `times` times in all: kind, reason and message of each.
pub(crate) async fn events(namespace: &Namespace, object: &Value, times: i64) -> Vec<(String, String, String)> {
    let told = async || {
        let events = namespace.get("api/v1", "events").await.body["items"].take();
        let events = events.as_array().cloned().unwrap_or_default();
        let about: Vec<_> = events
            .into_iter()
            .filter(|event| event["involvedObject"]["uid"] == object["metadata"]["uid"])
            .collect();
        let count: i64 = about.iter().filter_map(|event| event["count"].as_i64()).sum();
        assert!(count <= times, "{about:#?}");
        (count == times).then_some(about)
    };
    let events = poll(EVENT_LIMIT, told).await.expect("the events are published");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let words = |event: &Value| {
        assert_eq!(event["source"]["component"], "linkerd-proxy-injector");
        assert_eq!(event["type"], "Normal", "as all of Linkerd's are");
        let kind = text(&event["involvedObject"]["kind"]);
        (kind, text(&event["reason"]), text(&event["message"]))
    };
    events.iter().map(words).collect()
}

pub(crate) fn injected(kind: &str) -> (String, String, String) {
    let message = "Linkerd sidecar proxy injected (cni_covers_every_node)";
    (kind.to_owned(), "Injected".to_owned(), message.to_owned())
}

#[tokio::test]
async fn a_pod_of_a_replica_set_belongs_to_the_deployment() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let deployment = create(&namespace, "Deployment", "shop", None).await;
    let replica_set = create(&namespace, "ReplicaSet", "shop-5d9c", Some(&deployment)).await;

    // A dry run comes first: had it an event, the count would tell.
    let tried = namespace.try_pod(&pod_of(&replica_set)).await;
    assert_eq!(label(&tried, "deployment"), Some("shop"), "{}", tried.body);
    for _ in 0..2 {
        let created = namespace.create_pod(&pod_of(&replica_set)).await;
        assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
        assert_eq!(label(&created, "deployment"), Some("shop"));
        assert_eq!(label(&created, "replicaset"), None);
        let name = created.body["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("shop-5d9c-"), "{name}");
    }
    assert_eq!(events(&namespace, &deployment, 2).await, [injected("Deployment")]);
    assert_eq!(events(&namespace, &replica_set, 0).await, []);
}

#[tokio::test]
async fn a_pod_that_is_left_alone_is_told_of() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("privileged").await;
    let deployment = create(&namespace, "Deployment", "agent", None).await;
    let replica_set = create(&namespace, "ReplicaSet", "agent-1", Some(&deployment)).await;
    let mut pod = pod_of(&replica_set);
    pod["spec"]["hostNetwork"] = true.into();
    assert_eq!(mesh::redirection(&namespace.create_pod(&pod).await.body), None);
    let message = "Linkerd sidecar proxy injection skipped: hostNetwork is enabled (host_network_enabled)";
    let expected = ("Deployment", "InjectionSkipped", message);
    let [(kind, reason, message)] = &*events(&namespace, &deployment, 1).await else {
        panic!("one event was expected")
    };
    assert_eq!((&**kind, &**reason, &**message), expected);
}

#[tokio::test]
async fn owners_of_every_kind_are_named() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    for kind in ["StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"] {
        let owner = create(&namespace, kind, "own", None).await;
        let created = namespace.create_pod(&pod_of(&owner)).await;
        assert_eq!(label(&created, &kind.to_lowercase()), Some("own"), "{}", created.body);
        assert_eq!(events(&namespace, &owner, 1).await, [injected(kind)]);
    }
    // As with Linkerd, a Job of a CronJob is told of there, and leaves no label.
    let cron_job = create(&namespace, "CronJob", "nightly", None).await;
    let job = create(&namespace, "Job", "nightly-1", Some(&cron_job)).await;
    let created = namespace.create_pod(&pod_of(&job)).await;
    assert_eq!(mesh::redirection(&created.body), Some("cni"));
    assert_eq!((label(&created, "job"), label(&created, "cronjob")), (None, None));
    assert_eq!(events(&namespace, &cron_job, 1).await, [injected("CronJob")]);
}

#[tokio::test]
async fn an_owner_that_is_not_there_keeps_its_name() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let gone = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "gone", "uid": "00000000-0000-0000-0000-000000000000"},
    });
    let created = namespace.create_pod(&pod_of(&gone)).await;
    assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
    assert_eq!(label(&created, "replicaset"), Some("gone"));
}

#[tokio::test]
async fn a_pod_may_come_right_after_its_namespace() {
    let scene = Scene::with_values(CNI).await;
    for _ in 0..20 {
        let namespace = scene.namespace("new", &[], &[INJECT]).await;
        let mut pod = pod("", &json!({}));
        pod["metadata"] = json!({"generateName": "web-"});
        let created = namespace.create_pod(&pod).await;
        assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
    }
}
