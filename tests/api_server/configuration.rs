//! Configurations that cannot be used, from the start or from one moment on.

use std::time::Duration;

use serde_json::json;

use crate::cluster::poll;
use crate::scene::{CNI, INJECT, Scene};
use crate::{mesh, pod};

/// Changed files are looked for every ten seconds.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

const FAILING: &str = "outrigger_reload_failing{files=\"configuration\"}";

#[tokio::test]
async fn values_that_turn_bad_do_not_replace_those_in_use() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    let image = async |name| {
        let reply = namespace.create_pod(&pod(name, &json!({}))).await;
        let proxy = mesh::containers(&reply.body).find(|container| container["name"] == "linkerd-proxy");
        proxy.unwrap_or_else(|| panic!("{}", reply.body))["image"].clone()
    };
    let becomes = async |failing: &str| {
        let state = async || (scene.webhook.metric(FAILING).await.to_string() == failing).then_some(());
        poll(RELOAD_LIMIT, state).await.expect("the webhook notices the change");
    };
    assert_eq!(image("before").await, "cr.l5d.io/linkerd/proxy:edge-26.11.1");

    scene
        .webhook
        .write_values("linkerdVersion: edge-26.11.2\nproxy: {uid: [1]}\n");
    becomes("1").await;
    assert_eq!(image("meanwhile").await, "cr.l5d.io/linkerd/proxy:edge-26.11.1");
    let log = scene.webhook.log();
    assert!(log.contains("values document: proxy.uid: "), "{log}");

    scene
        .webhook
        .write_values("linkerdVersion: edge-26.11.3\ncniEnabled: true\n");
    becomes("0").await;
    assert_eq!(image("after").await, "cr.l5d.io/linkerd/proxy:edge-26.11.3");
}

#[tokio::test]
async fn an_unusable_configuration_keeps_out_only_pods_that_would_be_injected() {
    let scene = Scene::with_values("cniEnabled: true\n").await;
    let meshed = scene.meshed("baseline").await;
    let reply = meshed.create_pod(&pod("web", &json!({}))).await;
    assert_eq!(
        (reply.code, reply.message()),
        (
            403,
            "admission webhook \"linkerd-proxy-injector.linkerd.io\" denied the request: values document: \
             linkerdVersion and proxy.image.version are both missing: one of them must name the proxy's version"
        )
    );
    let plain = scene.namespace("plain", &[], &[]).await;
    let host = scene.namespace("host", &[], &[INJECT]).await;
    let disabled = json!({"linkerd.io/inject": "disabled"});
    for (namespace, annotations, host_network) in [
        (&meshed, &disabled, false),
        (&plain, &json!({}), false),
        (&host, &json!({}), true),
    ] {
        let mut pod = pod("other", &json!({}));
        pod["metadata"]["annotations"] = annotations.clone();
        pod["spec"]["hostNetwork"] = host_network.into();
        let reply = namespace.create_pod(&pod).await;
        let outcome = (reply.code, mesh::redirection(&reply.body));
        assert_eq!(outcome, (201, None), "{}: {}", namespace.name, reply.message());
    }
    let service = json!({"metadata": {"name": "database"}, "spec": {"ports": [{"port": 3306}]}});
    let reply = meshed.post("api/v1", "services", &service).await;
    assert_eq!(
        mesh::annotation(&reply.body, "config.linkerd.io/opaque-ports"),
        Some("3306")
    );
}
