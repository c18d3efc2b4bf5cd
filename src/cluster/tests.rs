//! The cluster against a stand-in for the API server: an HTTP service that answers what the test says and counts what it
//! is asked.

use super::events::{Event, Events, Reason};
use super::*;
use crate::cluster::index::Freshness;
use crate::policy::Release;
use crate::policy::installed::Presence;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures::{StreamExt, stream};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// What the stand-in was asked: method, path and query, body.
type Question = (Method, String, Value);

/// A client of a stand-in whose answers `answer` makes from method, path and query.
fn client(
    answer: impl Fn(&Method, &str) -> Response + Clone + Send + Sync + 'static,
) -> (Client, mpsc::UnboundedReceiver<Question>) {
    let (asked, questions) = mpsc::unbounded_channel();
    let service = Router::new().fallback(async move |request: Request| {
        let (parts, body) = request.into_parts();
        let path = parts.uri.to_string();
        let answer = answer(&parts.method, &path);
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        asked
            .send((parts.method, path, serde_json::from_slice(&body).unwrap_or_default()))
            .unwrap();
        answer
    });
    (Client::new(service, "default"), questions)
}

fn json(value: &Value) -> Response {
    Response::new(Body::from(value.to_string()))
}

fn failure(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    let mut response = json(&status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn namespace(name: &str, value: &str) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "resourceVersion": "7", "labels": {"level": value}}})
}

fn list(items: &[Value]) -> Response {
    json(&json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}))
}

/// A watch that tells `events` and then stays open.
fn watch(events: &[(&str, Value)]) -> Response {
    let lines: Vec<_> = events
        .iter()
        .map(|(kind, object)| Ok::<_, String>(format!("{}\n", json!({"type": kind, "object": object}))))
        .collect();
    Response::new(Body::from_stream(stream::iter(lines).chain(stream::pending())))
}

/// Polls the watches until `done`, for ten seconds at most.
async fn watch_until(cluster: &Cluster, done: impl Fn(&Cluster) -> bool) {
    let condition = async {
        while !done(cluster) {
            tokio::task::yield_now().await;
        }
    };
    let watch = async {
        tokio::select! {
            () = cluster.watch() => {}
            () = condition => {}
        }
    };
    timeout(Duration::from_secs(10), watch)
        .await
        .expect("the condition never held");
}

#[tokio::test]
async fn watches_fill_the_index_and_what_is_forbidden_holds_nobody_up() {
    let (client, _questions) = client(|_, path| match path {
        "/version" => json(
            &json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "35",
            "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "",
            "compiler": "", "platform": ""}),
        ),
        path if path.starts_with("/api/v1/namespaces") && path.contains("watch=true") => {
            let events = [
                ("MODIFIED", namespace("a", "new")),
                ("DELETED", namespace("b", "old")),
                ("ADDED", namespace("c", "x")),
            ];
            watch(&events)
        }
        path if path.starts_with("/api/v1/namespaces") => list(&[namespace("a", "old"), namespace("b", "old")]),
        path if path.starts_with("/apis/apps/v1/daemonsets") && path.contains("watch=true") => watch(&[]),
        path if path.starts_with("/apis/apps/v1/daemonsets") => list(&[]),
        _ => failure(403, "Forbidden", "nodes is forbidden: User cannot list"),
    });
    let cluster = Cluster::connected(client);
    assert!(!cluster.settled());
    watch_until(&cluster, |cluster| {
        cluster.settled() && cluster.index().namespaces.get("c").is_some()
    })
    .await;

    let a = cluster.namespace("a").await.unwrap().unwrap();
    assert_eq!(a.labels["level"], "new");
    assert!(cluster.index().namespaces.get("b").is_none());
    let facts = cluster.facts(&Pod::new(&json!({})));
    let server = facts.server.unwrap();
    assert_eq!((server.release, server.emulated), (Release(36), Some(Release(35))));
    assert_eq!(facts.coverage, None);
    assert_eq!(
        facts.troubles,
        [("nodes", "nodes is forbidden: User cannot list".into())]
    );
    let status: Vec<_> = cluster
        .status()
        .into_iter()
        .map(|status| (status.resource, status.freshness))
        .collect();
    let expected = [
        ("namespaces", Freshness::Current),
        ("nodes", Freshness::Unavailable),
        ("daemonsets", Freshness::Current),
        ("limitranges", Freshness::Unavailable),
        ("resourcequotas", Freshness::Unavailable),
    ];
    assert_eq!(status, expected, "what the server does not tell of is not watched");
    let Presence::Unknown { why } = &facts.policies.limits else {
        panic!("{:?}", facts.policies.limits);
    };
    assert_eq!(**why, *"limitranges: nodes is forbidden: User cannot list");
}

#[tokio::test]
async fn a_missing_namespace_costs_one_question_however_many_ask() {
    let (client, mut questions) = client(|_, path| match path {
        "/api/v1/namespaces/new?" | "/api/v1/namespaces/new" => json(&namespace("new", "x")),
        _ => failure(404, "NotFound", "not found"),
    });
    let cluster = Cluster::connected(client);
    let answers = futures::future::join_all((0..10).map(|_| cluster.namespace("new"))).await;
    assert_eq!(answers.len(), 10);
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.unwrap().unwrap().labels["level"] == "x")
    );
    assert_eq!(
        questions.recv().await.unwrap().1.trim_end_matches('?'),
        "/api/v1/namespaces/new"
    );
    assert!(questions.try_recv().is_err(), "asked once");

    assert!(cluster.namespace("none").await.unwrap().is_none());
    questions.recv().await.unwrap();
    for name in ["../secrets", "a/b", "a?b", "", ".", "Ä"] {
        assert!(cluster.namespace(name).await.unwrap().is_none());
    }
    assert!(questions.try_recv().is_err(), "no such name is put into a path");
}

#[tokio::test]
async fn a_silent_server_delays_nobody_past_the_deadline() {
    let never = Arc::new(Notify::new());
    let service = Router::new().fallback(async move || never.notified().await);
    let cluster = Cluster::connected(Client::new(service, "default"));
    // One after the other, ten would take five seconds.
    let all = futures::future::join_all((0..10).map(|_| cluster.namespace("new")));
    let answers = timeout(4 * lookup::DEADLINE, all)
        .await
        .expect("the callers waited for one another");
    assert!(answers.iter().all(|answer| matches!(answer, Err(LookupError::Late))));
}

fn pod_of(api_version: &str, kind: &str, name: &str) -> Value {
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("{name}-uid"), "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [owner]}})
}

/// Metadata of `name`, owned by what `owner` says.
fn owned(name: &str, owner: &Value) -> Response {
    let metadata = json!({"name": name, "uid": format!("{name}-uid"), "ownerReferences": owner});
    json(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}))
}

#[tokio::test]
async fn owners_are_looked_up_once_and_remembered() {
    let (client, mut questions) = client(|_, path| {
        let reference =
            |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "top", "uid": "t"}]);
        match path.trim_end_matches('?') {
            "/apis/apps/v1/namespaces/shop/replicasets/web-1" => owned("web-1", &reference("apps/v1", "Deployment")),
            "/apis/apps/v1/namespaces/shop/replicasets/argo" => {
                owned("argo", &reference("argoproj.io/v1alpha1", "Rollout"))
            }
            "/apis/apps/v1/namespaces/shop/replicasets/young" => owned("another", &reference("apps/v1", "Deployment")),
            "/apis/batch/v1/namespaces/shop/jobs/nightly-1" => owned("nightly-1", &reference("batch/v1", "CronJob")),
            _ => failure(404, "NotFound", "not found"),
        }
    });
    let cluster = Cluster::connected(client);
    let owner = async |version: &str, kind: &str, name: &str| {
        let owner = cluster.owner("shop", &pod_of(version, kind, name)).await.unwrap();
        format!("{}/{}", owner.kind, owner.name)
    };
    assert_eq!(owner("apps/v1", "ReplicaSet", "web-1").await, "Deployment/top");
    assert_eq!(owner("apps/v1", "ReplicaSet", "web-1").await, "Deployment/top");
    assert_eq!(owner("batch/v1", "Job", "nightly-1").await, "CronJob/top");
    assert_eq!(owner("apps/v1", "ReplicaSet", "argo").await, "ReplicaSet/argo");
    assert_eq!(
        owner("apps/v1", "ReplicaSet", "young").await,
        "ReplicaSet/young",
        "another object of that name"
    );
    assert_eq!(owner("apps/v1", "ReplicaSet", "gone").await, "ReplicaSet/gone");
    assert_eq!(
        owner("apps/v1", "ReplicaSet", "../../secrets/x").await,
        "ReplicaSet/../../secrets/x"
    );
    assert_eq!(owner("apps/v1", "StatefulSet", "db").await, "StatefulSet/db");
    assert_eq!(owner("batch.volcano.sh/v1alpha1", "Job", "train").await, "Job/train");
    assert_eq!(cluster.owner("shop", &json!({"metadata": {}})).await, None);
    let mut asked = Vec::new();
    while let Ok((_, path, _)) = questions.try_recv() {
        asked.push(path.trim_end_matches('?').rsplit('/').next().unwrap().to_owned());
    }
    assert_eq!(asked, ["web-1", "nightly-1", "argo", "young", "gone"]);
}

#[tokio::test]
async fn an_owner_that_cannot_exist_is_neither_asked_for_nor_told() {
    let (client, mut questions) = client(|_, _| failure(404, "NotFound", "not found"));
    let cluster = Cluster::connected(client.clone());
    let pod = |key: &str, length: usize| {
        let mut pod = pod_of("apps/v1", "ReplicaSet", "web-1");
        let text = pod["metadata"]["ownerReferences"][0][key].as_str().unwrap().to_owned();
        pod["metadata"]["ownerReferences"][0][key] = format!("{text}{}", "x".repeat(length)).into();
        pod
    };
    let (events, _publisher) = Events::through(None);
    for (key, limit) in [("uid", 128), ("apiVersion", 317), ("kind", 63), ("name", 253)] {
        let pod = pod(key, limit);
        let owner = cluster.owner("shop", &pod).await.unwrap();
        assert_eq!(owner, Owner::of(&pod).unwrap(), "stands for its own owner");
        for _ in 0..300 {
            let owner = owner.clone();
            events.publish(Event { owner, ..event("done") });
        }
    }
    assert!(questions.try_recv().is_err());
    assert_eq!(events.counts().dropped.load(Ordering::Relaxed), 0, "nothing was queued");
    // As long as it may be.
    cluster.owner("shop", &pod("uid", 128 - "web-1-uid".len())).await;
    assert!(questions.try_recv().is_ok());
}

#[tokio::test]
async fn manifests_have_owners_too() {
    let replica_set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "shop",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "t"}]}});
    let cluster = Cluster::of_manifests(&[replica_set], Some(Release(30).into())).unwrap();
    let owner = cluster
        .owner("shop", &pod_of("apps/v1", "ReplicaSet", "web-1"))
        .await
        .unwrap();
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Deployment", "web"));
    assert!(cluster.namespace("shop").await.unwrap().is_none());
    assert_eq!(
        cluster.facts(&Pod::new(&Value::Null)).server.unwrap().release,
        Release(30)
    );
    cluster.watch().await;
}

#[test]
fn of_several_owners_the_controller_counts() {
    let owner = |references: Value| Owner::of(&json!({"metadata": {"ownerReferences": references}})).map(|it| it.name);
    let plain = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name});
    let mut controller = plain("job");
    controller["controller"] = true.into();
    assert_eq!(owner(json!([plain("a"), controller, plain("b")])).unwrap(), "job");
    assert_eq!(owner(json!([plain("a")])).unwrap(), "a");
    assert_eq!(owner(json!([plain("a"), plain("b")])), None);
    assert_eq!(owner(json!([])), None);
}

fn event(message: &str) -> Event {
    Event {
        owner: Owner::of(&pod_of("apps/v1", "Deployment", "web")).unwrap(),
        namespace: "shop".to_owned(),
        reason: Reason::Injected,
        message: message.to_owned(),
    }
}

/// Runs `publisher` until the stand-in was asked once more.
async fn published(
    publisher: &mut (impl Future<Output = ()> + Unpin),
    questions: &mut mpsc::UnboundedReceiver<Question>,
) -> Question {
    let asked = async {
        tokio::select! {
            () = publisher => panic!("the publisher ended"),
            question = questions.recv() => question.unwrap(),
        }
    };
    timeout(Duration::from_secs(10), asked)
        .await
        .expect("nothing was published")
}

#[tokio::test]
async fn equal_events_are_counted_up() {
    let (client, mut questions) =
        client(|_, _| json(&json!({"apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}})));
    let (events, publisher) = Events::through(Some(client));
    let mut publisher = Box::pin(publisher);
    events.publish(event("done"));
    events.publish(event("done"));
    let (method, path, body) = published(&mut publisher, &mut questions).await;
    assert_eq!(
        (method, path.trim_end_matches('?')),
        (Method::POST, "/api/v1/namespaces/shop/events")
    );
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("web."), "{name}");
    assert_eq!(body["source"]["component"], "linkerd-proxy-injector");
    assert_eq!(body["involvedObject"]["uid"], "web-uid");
    assert_eq!(
        (&body["count"], &body["type"], &body["reason"]),
        (&json!(2), &json!("Normal"), &json!("Injected"))
    );

    events.publish(event("done"));
    let (method, path, body) = published(&mut publisher, &mut questions).await;
    assert_eq!(
        (method, path.trim_end_matches('?')),
        (Method::PATCH, format!("/api/v1/namespaces/shop/events/{name}").as_str())
    );
    assert_eq!(body["count"], 3);

    events.publish(event(&"é".repeat(1 << 20)));
    let (_, _, body) = published(&mut publisher, &mut questions).await;
    assert_eq!(body["message"].as_str().unwrap().chars().count(), 1024);
}

#[tokio::test]
async fn an_expired_event_is_published_anew_and_a_refused_one_is_counted() {
    let (client, mut questions) = client(|method, path| match (method, path) {
        (&Method::POST, path) if path.contains("/namespaces/shop/") => {
            json(&json!({"apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}}))
        }
        (&Method::PATCH, _) => failure(404, "NotFound", "gone"),
        _ => failure(403, "Forbidden", "no"),
    });
    let (events, publisher) = Events::through(Some(client));
    let mut publisher = Box::pin(publisher);
    events.publish(event("done"));
    published(&mut publisher, &mut questions).await;
    events.publish(event("done"));
    assert_eq!(published(&mut publisher, &mut questions).await.0, Method::PATCH);
    assert_eq!(published(&mut publisher, &mut questions).await.0, Method::POST);
    events.publish(Event {
        namespace: "../x".to_owned(),
        ..event("lost")
    });
    events.publish(Event {
        namespace: "locked".to_owned(),
        ..event("lost")
    });
    published(&mut publisher, &mut questions).await;
    events.publish(event("done"));
    published(&mut publisher, &mut questions).await;
    assert_eq!(events.counts().failed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_full_queue_drops_events_and_counts_them() {
    let (events, _publisher) = Events::through(None);
    for number in 0..300 {
        events.publish(event(&number.to_string()));
    }
    assert_eq!(events.counts().dropped.load(Ordering::Relaxed), 44);
}
