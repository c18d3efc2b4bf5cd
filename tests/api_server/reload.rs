//! Files of the webhook change between two requests: good ones come into use, bad ones do not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Namespace, Webhook, poll};
use crate::scene::{CNI, Scene};
use crate::{mesh, pod};

/// Changed files are looked for every ten seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The image of the proxy of a pod that is created now.
async fn image(namespace: &Namespace) -> Value {
    let mut pod = pod("", &json!({}));
    pod["metadata"] = json!({"generateName": "web-"});
    let created = namespace.create_pod(&pod).await;
    let proxy = mesh::containers(&created.body).find(|container| container["name"] == "linkerd-proxy");
    proxy.unwrap_or_else(|| panic!("{}", created.body))["image"].clone()
}

/// Waits until the webhook says whether `files` fail.
async fn until_failing(webhook: &Webhook, files: &str, failing: bool) {
    let series = format!("outrigger_reload_failing{{files=\"{files}\"}}");
    let noticed = async || ((webhook.metric(&series).await > 0.0) == failing).then_some(());
    poll(LIMIT, noticed)
        .await
        .unwrap_or_else(|| panic!("{files}: {}", webhook.log()));
}

#[tokio::test]
async fn files_change_between_two_requests() {
    let scene = Scene::with_values(CNI).await;
    let (webhook, namespace) = (&scene.webhook, scene.meshed("baseline").await);
    assert_eq!(image(&namespace).await, "cr.l5d.io/linkerd/proxy:edge-26.11.1");

    // A new certificate, and values that cannot be used.
    webhook.write_values("linkerdVersion: edge-26.11.2\nproxy: {uid: [1]}\n");
    webhook.rotate_certificate().await;
    until_failing(webhook, "configuration", true).await;
    assert_eq!(image(&namespace).await, "cr.l5d.io/linkerd/proxy:edge-26.11.1");
    let log = webhook.log();
    assert!(log.contains("values document: proxy.uid: "), "{log}");

    // New values, and a certificate that cannot be used.
    webhook.write_values("linkerdVersion: edge-26.11.3\ncniEnabled: true\n");
    let served = webhook.authority().served_by(webhook.address()).await;
    webhook.write_certificate("", "");
    until_failing(webhook, "configuration", false).await;
    until_failing(webhook, "certificate", true).await;
    assert_eq!(image(&namespace).await, "cr.l5d.io/linkerd/proxy:edge-26.11.3");
    assert!(served.is_some());
    assert_eq!(webhook.authority().served_by(webhook.address()).await, served);
}
