//! The control plane itself: that it is the real thing, and stays so.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, shared};
use crate::pod;

#[tokio::test]
async fn a_dry_run_leaves_nothing() {
    let client = shared().await.client().await;
    let namespace = Namespace::create(&client, "dry-run", &[], &[]).await;
    let tried = namespace.try_pod(&pod("web", &json!({}))).await;
    assert_eq!(tried.code, 201);
    assert_eq!(namespace.pod("web").await.code, 404);
}

#[tokio::test]
async fn pods_get_the_default_service_account_and_its_token() {
    let client = shared().await.client().await;
    let namespace = Namespace::create(&client, "account", &[], &[]).await;
    let spec = namespace.create_pod(&pod("web", &json!({}))).await.body["spec"].take();
    assert_eq!(spec["serviceAccountName"], "default");
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
}

#[tokio::test]
async fn kubectl_shows_what_the_server_would_make() {
    let cluster = shared().await;
    let namespace = Namespace::create(&cluster.client().await, "kubectl", &[], &[]).await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("web.json");
    fs::write(&file, pod("web", &json!({})).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let arguments = [
        "apply",
        "--dry-run=server",
        "--output=name",
        "--namespace",
        &namespace.name,
        "--filename",
        file,
    ];
    let output = cluster.kubectl(arguments);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "pod/web\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let options = Options {
        flags: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let error = Cluster::start(options).await.unwrap_err();
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}
