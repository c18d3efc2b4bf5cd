//! A configuration that cannot be used, from the start: files that change are in `reload`.

use serde_json::json;

use crate::scene::{INJECT, Scene};
use crate::{mesh, pod};

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
