//! No pod is refused for our sake whatever is replaced or restarted in turn: replicas, certificates, the API server.

mod balancer;
mod cold_start;
mod creations;
mod deployment;

use std::sync::atomic::Ordering;
use std::time::Duration;

use creations::{Creations, stored};
use deployment::Deployment;

use crate::announce;
use crate::cluster::Namespace;
use crate::cluster::service::entries;
use crate::scene::INJECT;

/// What takes seconds on an idle machine: a start of the API server most of all.
const LIMIT: Duration = Duration::from_secs(120);

/// Pods that are created.
const WANTED: usize = 1000;

/// Pods that are created before, between and after what happens, at least.
const BETWEEN: usize = 50;

#[tokio::test]
async fn every_pod_is_created_while_replicas_certificates_and_the_api_server_are_replaced() {
    let mut deployment = Deployment::install().await;
    let client = deployment.client.clone();
    let policies: Vec<_> = entries(&client)
        .await
        .iter()
        .map(|it| it["failurePolicy"].clone())
        .collect();
    assert_eq!(policies, ["Fail", "Ignore"], "pods, and what nobody waits for");
    Namespace::create_named(&client, "shop", &[], &[INJECT]).await;
    let creations = Creations::start(&client, WANTED);
    creations.more(BETWEEN).await;

    let old = deployment.age().await;
    deployment.roll().await;
    deployment.renewed(&old).await;
    creations.more(BETWEEN).await;

    let old = deployment.age().await;
    deployment.restart_api_server().await;
    deployment.renewed(&old).await;
    creations.more(BETWEEN).await;

    deployment.roll().await;
    creations.more(BETWEEN).await;
    let told = creations.finish().await;

    let failed = told.failed.lock().unwrap().clone();
    let [created, retried] = [&told.created, &told.retried].map(|count| count.load(Ordering::Relaxed));
    announce(&format!(
        "pods created with failurePolicy Fail while {} certificates came into use, {} replicas were replaced one by one and the \
         API server restarted: {created}, {} failed by us, {retried} tried again while there was no API server",
        deployment.certificates.len(),
        deployment.replaced,
        failed.len(),
    ));
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(created >= WANTED, "{created}");
    assert_eq!(
        stored(&client).await,
        (created, created),
        "all, and those with one proxy"
    );
    assert!(retried > 0, "the API server was away");
}
