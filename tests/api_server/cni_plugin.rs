//! The CNI plugin learns about a pod from a real API server, with the rights that its account has and no others.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Verb, call, shared};
use crate::netns::Netns;
use crate::runtime::{Run, config, has_rules};

/// A pod injected in CNI mode, as an API server takes it.
fn meshed() -> Value {
    let mut pod = crate::pod("meshed", &json!({}));
    pod["spec"]["initContainers"] = json!([{
        "name": "linkerd-proxy", "image": "proxy", "restartPolicy": "Always", "securityContext": {"runAsUser": 2102},
    }]);
    pod
}

/// Writes the credentials of an account: the cluster of the test's own, and `token`.
fn write_credentials(cluster: &Cluster, folder: &Path, token: &str) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["users"][0]["user"] = json!({"token": token});
    let path = folder.join("kubeconfig");
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

#[tokio::test]
async fn an_account_that_may_get_pods_is_enough() {
    let cluster = shared().await;
    let client = cluster.client().await;
    let namespace = Namespace::create(&client, "cni", &[], &[]).await;
    assert_eq!(namespace.create_pod(&meshed()).await.code, 201);
    let create = async |path: String, object: Value| {
        let reply = call(&client, Verb::Create, &path, Some(&object)).await.unwrap();
        assert!(reply.accepted(), "{path}: {}", reply.message());
        reply.body
    };
    let account = format!("/api/v1/namespaces/{}/serviceaccounts/default/token", namespace.name);
    let issued = create(account, json!({"spec": {}})).await;
    let token = issued["status"]["token"].as_str().unwrap();

    let folder = TempDir::new().unwrap();
    let pod = Netns::new();
    let add = |token: &str| {
        let kubeconfig = write_credentials(cluster, folder.path(), token);
        let config = config(Path::new("/nonexistent/socket"), &kubeconfig);
        Run::new("ADD", &pod.path(), &format!("{}/meshed", namespace.name), &config).run()
    };
    assert!(add(&format!("{token}x")).failed(11).contains("status 401"));
    assert!(add(token).failed(11).contains("status 403"));
    assert!(!has_rules(&pod));

    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": format!("{}-get-pods", namespace.name)});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    create(
        format!("{rbac}/clusterroles"),
        json!({"metadata": metadata, "rules": rules}),
    )
    .await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]});
    let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": namespace.name});
    let binding = json!({"metadata": metadata, "roleRef": role, "subjects": [subject]});
    create(format!("{rbac}/clusterrolebindings"), binding).await;
    // The authorizer learns of it by a watch.
    let granted = crate::cluster::poll(std::time::Duration::from_secs(30), async || {
        add(token).status.success().then_some(())
    });
    granted.await.expect("the account may get pods now");
    assert!(has_rules(&pod));
}
