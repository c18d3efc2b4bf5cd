//! `webhook-config` as somebody installs it, in a cluster of its own, and what becomes of it.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{
    Cluster, FailurePolicy, Installed, Namespace, Options, Reply, UNASKED, Verb, call, plugin, poll, with_services,
};
use crate::conformance_folder::conformance;
use crate::fixtures::{LATEST, ask, questions, release};
use crate::scene::{ENFORCE, INJECT, PLAIN};
use crate::{announce, mesh, pod};

/// A watch that failed is tried again after half a minute at most.
const LIMIT: Duration = Duration::from_secs(90);

/// Waits until a pod that is created in `namespace` gets `redirection`.
async fn until(installed: &Installed, namespace: &Namespace, redirection: &str) -> Value {
    let meshed = async || {
        let tried = namespace.try_pod(&pod("web", &json!({}))).await;
        (mesh::redirection(&tried.body) == Some(redirection)).then_some(tried.body)
    };
    let body = poll(LIMIT, meshed).await;
    body.unwrap_or_else(|| panic!("no {redirection} in {}: {}", namespace.name, installed.webhook.log()))
}

#[tokio::test]
async fn what_is_installed_works_and_survives_the_api_server() {
    let cluster = Cluster::start(options()).await.unwrap();
    let client = cluster.client().await;
    create_nodes(&client).await;
    let mut installed = Installed::new(cluster, PLAIN).await;
    installed.register(FailurePolicy::Ignore, &[]);
    let quiet = Namespace::create(&client, "quiet", &[(ENFORCE, "baseline")], &[]).await;
    let meshed = Namespace::create(&client, "meshed", &[(ENFORCE, "baseline")], &[INJECT]).await;
    until(&installed, &meshed, "cni").await;
    let tried = installed.register(FailurePolicy::Fail, &["--dry-run=server"]);
    assert_eq!(String::from_utf8_lossy(&tried.stderr), "", "no warning");
    the_deployment_is_restricted_clean(&client).await;
    clean_pods_are_meshed(&client).await;

    installed.cluster.restart_api_server(options()).await.unwrap();
    // What changes now is told by watches that have failed in the meantime.
    quiet.label(&[INJECT]).await;
    until(&installed, &quiet, "cni").await;
    create_node(&client, "bare", &json!({"kubernetes.io/os": "linux"})).await;
    let free = Namespace::create(&client, "free", &[], &[INJECT]).await;
    until(&installed, &free, "init-container").await;
    let held = until(&installed, &quiet, "cni").await;
    assert_eq!(held["spec"]["nodeSelector"], json!({"cni": "yes"}));

    installed.register(FailurePolicy::Fail, &[]);
    let Installed { webhook, cluster, .. } = installed;
    assert!(webhook.stop().await.status.success());
    nobody_but_meshed_pods_needs_the_webhook(&client, &quiet).await;
    drop(cluster);
}

fn options() -> Options {
    with_services("127.96.0.0/16")
}

async fn create(client: &Client, path: &str, object: &Value) -> Reply {
    let reply = call(client, Verb::Create, path, Some(object)).await.unwrap();
    assert_eq!(reply.code, 201, "{}", reply.body);
    reply
}

async fn create_node(client: &Client, name: &str, labels: &Value) {
    create(
        client,
        "/api/v1/nodes",
        &json!({"metadata": {"name": name, "labels": labels}}),
    )
    .await;
}

/// A node with Linkerd's CNI plugin, and one that runs Windows.
async fn create_nodes(client: &Client) {
    create_node(client, "covered", &json!({"kubernetes.io/os": "linux", "cni": "yes"})).await;
    create_node(client, "windows", &json!({"kubernetes.io/os": "windows"})).await;
    let namespace = Namespace::create_named(client, "linkerd-cni", &[UNASKED], &[]).await;
    let somewhere = json!({"nodeSelector": {"cni": "yes"}, "tolerations": [{"operator": "Exists"}]});
    let daemon_set = plugin(false, &somewhere);
    let reply = namespace.post("apis/apps/v1", "daemonsets", &daemon_set).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
}

/// Creates a pod as the webhook's own Deployment makes them where `restricted` is enforced.
async fn the_deployment_is_restricted_clean(client: &Client) {
    let path = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";
    let deployment = call(client, Verb::Get, path, None).await.unwrap().body;
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["name"] = "injector".into();
    let namespace = Namespace::create(client, "control-plane", &[(ENFORCE, "restricted")], &[]).await;
    let account = json!({"metadata": {"name": "linkerd-proxy-injector"}});
    namespace.post("api/v1", "serviceaccounts", &account).await;
    let created = namespace.create_pod(&pod).await;
    assert_eq!(created.code, 201, "{}", created.message());
}

/// The property that names the product, with the CNI plugin found on the nodes instead of in the values.
async fn clean_pods_are_meshed(client: &Client) {
    let Some(folder) = conformance() else { return };
    let mut questions = questions(&folder, release(client).await);
    questions.retain(|question| question.version == LATEST);
    let injected = ask(client, &questions, &[], &[INJECT]).await;
    let meshed = |reply: &Reply| mesh::redirection(&reply.body) == Some("cni");
    let (of, admitted) = (injected.len(), injected.iter().filter(|reply| reply.accepted()).count());
    let proxies = injected.iter().filter(|reply| meshed(reply)).count();
    let found = "clean pods admitted at latest where DaemonSets show the CNI plugin";
    announce(&format!("{found}: {admitted} of {of}, {proxies} of them meshed"));
    for (question, reply) in questions.iter().zip(&injected) {
        assert_eq!(reply.code, 201, "{}: {}", question.name, reply.message());
        assert_eq!(meshed(reply), !question.is_for_windows(), "{}", question.name);
    }
}

/// What a cluster needs to start again comes up while nobody answers and the configuration fails closed.
async fn nobody_but_meshed_pods_needs_the_webhook(client: &Client, meshed: &Namespace) {
    let reply = meshed.create_pod(&pod("web", &json!({}))).await;
    let reason = "failed calling webhook \"linkerd-proxy-injector.linkerd.io\"";
    assert!(reply.code == 500 && reply.message().contains(reason), "{}", reply.body);

    // Where there is no controller-manager, nobody else makes these.
    let account = json!({"metadata": {"name": "default"}});
    for namespace in ["kube-system", "default"] {
        create(
            client,
            &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            &account,
        )
        .await;
    }
    for (namespace, label) in [
        ("kube-system", ("k8s-app", "kube-dns")),
        ("linkerd", ("linkerd.io/control-plane-component", "proxy-injector")),
        ("linkerd-cni", ("linkerd.io/cni-resource", "true")),
        ("default", ("linkerd.io/control-plane-component", "identity")),
    ] {
        let mut pod = pod("critical", &json!({}));
        pod["metadata"]["labels"] = json!({label.0: label.1});
        create(client, &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await;
    }
}
