//! Services carry the list of their opaque ports, and nothing else.

use serde_json::{Value, json};

use crate::mesh::annotation;
use crate::scene::{PLAIN, Scene};

const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";

fn service(name: &str, ports: &[u16], annotations: &Value) -> Value {
    let ports = ports
        .iter()
        .map(|port| json!({"name": format!("p{port}"), "port": port}));
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"ports": ports.collect::<Vec<_>>()},
    })
}

#[tokio::test]
async fn services_get_their_opaque_ports() {
    let scene = Scene::with_values(PLAIN).await;
    let plain = scene.namespace("services", &[], &[]).await;
    let listing = scene
        .namespace("services", &[], &[(OPAQUE_PORTS, "7000-7010, 9")])
        .await;
    for (namespace, name, ports, annotations, expected) in [
        (&plain, "database", &[80, 3306, 5432][..], json!({}), Some("3306,5432")),
        (&plain, "web", &[80], json!({}), None),
        (&plain, "own", &[3306], json!({OPAQUE_PORTS: "1"}), Some("1")),
        (&plain, "quoted", &[3306], json!({"note": "\"a\"\n\\b"}), Some("3306")),
        (&listing, "web", &[80], json!({}), Some("7000-7010, 9")),
    ] {
        let reply = namespace
            .post("api/v1", "services", &service(name, ports, &annotations))
            .await;
        assert_eq!(reply.code, 201, "{name}: {}", reply.message());
        assert_eq!(annotation(&reply.body, OPAQUE_PORTS), expected, "{name}");
        let kept = annotations.as_object().unwrap();
        for (key, value) in kept {
            assert_eq!(&reply.body["metadata"]["annotations"][key], value, "{name}");
        }
    }
}
