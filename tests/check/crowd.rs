//! A cluster of 2,000 namespaces takes no request per namespace.

use futures::{StreamExt, stream};
use kube::Client;
use serde_json::json;

use crate::answer::{Answer, text};
use crate::cluster::{Cluster, Options, Verb, call};
use crate::deployment;
use crate::installation::INJECT;

const NAMESPACES: usize = 2000;

/// Requests under way at once: enough to keep the server's cores busy.
const CONCURRENCY: usize = 16;

/// More lists than one check takes, pages and what the API server asks itself included; far fewer than namespaces.
const LISTS: f64 = 200.0;

#[tokio::test]
async fn many_namespaces_take_few_requests() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let names: Vec<_> = (0..NAMESPACES).map(|number| format!("team-{number:04}")).collect();
    stream::iter(&names)
        .for_each_concurrent(CONCURRENCY, async |name| {
            let annotations = json!({INJECT.0: INJECT.1});
            let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
            create(&client, "/api/v1/namespaces", &namespace).await;
        })
        .await;
    for name in names.iter().step_by(50) {
        let path = format!("/apis/apps/v1/namespaces/{name}/deployments");
        create(&client, &path, &deployment("web", &json!({}))).await;
    }

    let before = lists(&client).await;
    let answer = Answer::to(&cluster.kubeconfig(), &["--proxy"]);
    let taken = lists(&client).await - before;
    assert!(answer.has("workloads_admitted"), "{answer:#?}");
    assert_eq!(answer.json["workloads"].as_array().unwrap().len(), NAMESPACES / 50);
    assert!(taken > 10.0 && taken < LISTS, "{taken} lists");

    let (_, printed) = text(&cluster.kubeconfig(), &[]);
    assert!(
        printed.contains("  40         team-0000 and 39 more  inject "),
        "{printed}"
    );
    assert!(printed.lines().count() < 80, "{printed}");
}

async fn create(client: &Client, path: &str, object: &serde_json::Value) {
    let reply = call(client, Verb::Create, path, Some(object)).await.unwrap();
    assert_eq!(reply.code, 201, "{path}: {}", reply.body);
}

/// How many lists the API server has answered.
async fn lists(client: &Client) -> f64 {
    let metrics = call(client, Verb::Get, "/metrics", None).await.unwrap().body;
    let counted = metrics
        .as_str()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{") && line.contains("verb=\"LIST\""));
    counted
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}
