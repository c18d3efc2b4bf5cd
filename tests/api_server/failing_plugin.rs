//! The CNI plugin that has been failing on nodes, as its pods tell: watched with a right on the pods of its namespace alone.
//! And one that is none.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Namespace, Options, Reply, Verb, call, create, plugin, poll};
use crate::mesh;
use crate::pod;
use crate::scene::{PLAIN, Scene};

/// The webhook looks every few seconds.
const LIMIT: Duration = Duration::from_secs(60);

async fn patch(client: &Client, path: &str, patch: &Value) {
    let reply = call(client, Verb::Patch, path, Some(patch)).await.unwrap();
    assert!(reply.accepted(), "{path}: {} {}", reply.code, reply.body);
}

/// Two nodes, and the agent's DaemonSet with a pod on each.
async fn furnish(cluster: &Cluster, client: &Client) {
    for file in ["namespace.yaml", "rbac.yaml"] {
        cluster.apply(&format!("cni-config/{file}"));
    }
    let labels = json!({"app.kubernetes.io/name": "outrigger-cni"});
    let pod = json!({"serviceAccountName": "outrigger-cni", "containers": [{"name": "agent", "image": "agent"}],
        "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]});
    let agents = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets";
    let daemon_set = json!({
        "metadata": {"name": "outrigger-cni", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    create(client, agents, &daemon_set).await;
    for node in ["n1", "n2"] {
        create(client, "/api/v1/nodes", &json!({"metadata": {"name": node}})).await;
        // The server taints a new node as one that is not ready, and there is no kubelet to take that away.
        patch(
            client,
            &format!("/api/v1/nodes/{node}"),
            &json!({"spec": {"taints": null}}),
        )
        .await;
        let mut spec = pod.clone();
        spec["nodeName"] = node.into();
        let pod = json!({"metadata": {"name": format!("agent-{node}"), "labels": labels}, "spec": spec});
        create(client, "/api/v1/namespaces/linkerd-cni/pods", &pod).await;
    }
}

/// Says of the agent on `node` that it is ready or not, for as long as anybody can remember.
async fn report(client: &Client, node: &str, ready: &str) {
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let path = format!("/api/v1/namespaces/linkerd-cni/pods/agent-{node}/status");
    patch(client, &path, &json!({"status": {"conditions": [condition]}})).await;
}

/// Asks about a pod of `namespace` until the answer is as `wanted`.
async fn until(scene: &Scene, namespace: &Namespace, wanted: impl Fn(&Reply) -> bool) {
    let (mut last, pod) = (None, pod("web", &json!({})));
    let found = poll(LIMIT, async || {
        let reply = namespace.try_pod(&pod).await;
        let done = wanted(&reply);
        last = Some(reply);
        done.then_some(())
    });
    let found = found.await;
    let last = last.unwrap();
    let (_, metrics) = scene.webhook.read("/metrics").await.unwrap();
    let of_pods: Vec<_> = metrics.lines().filter(|line| line.contains("\"pods\"")).collect();
    assert!(found.is_some(), "{} {:?} {of_pods:#?}", last.message(), last.warnings);
}

fn is_meshed(reply: &Reply, redirection: &str) -> bool {
    reply.accepted() && mesh::redirection(&reply.body) == Some(redirection)
}

/// Whether somebody is told that the plugin is failing.
fn is_warned(reply: &Reply) -> bool {
    reply.warnings.iter().any(|warning| warning.contains("cni_failing"))
}

#[tokio::test]
async fn where_the_plugin_fails_for_long_nobody_counts_on_it() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    furnish(&cluster, &client).await;
    for node in ["n1", "n2"] {
        report(&client, node, "True").await;
    }
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let (open, closed) = (scene.meshed("privileged").await, scene.meshed("baseline").await);
    for namespace in [&open, &closed] {
        until(&scene, namespace, |reply| is_meshed(reply, "cni") && !is_warned(reply)).await;
    }

    report(&client, "n1", "False").await;
    until(&scene, &open, |reply| is_meshed(reply, "init-container")).await;
    // Where `linkerd-init` is refused most nodes are better than none.
    until(&scene, &closed, |reply| is_meshed(reply, "cni") && is_warned(reply)).await;

    report(&client, "n2", "False").await;
    let words = "cni: the CNI plugin has been failing for 5 minutes on 2 of 2 nodes that it is meant for";
    until(&scene, &closed, |reply| {
        reply.code == 403 && reply.message().contains(words)
    })
    .await;
    let metric = async |name: &str| {
        let series = format!("outrigger_watch_{name}{{resource=\"pods\"}}");
        scene.webhook.metric(&series).await
    };
    assert_eq!((metric("failing").await, metric("objects").await), (0.0, 2.0));

    for node in ["n1", "n2"] {
        report(&client, node, "True").await;
    }
    for namespace in [&open, &closed] {
        until(&scene, namespace, |reply| is_meshed(reply, "cni") && !is_warned(reply)).await;
    }
}

#[tokio::test]
async fn who_could_not_write_to_nodes_is_not_taken_for_the_plugin() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    create(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let level = [("pod-security.kubernetes.io/enforce", "baseline")];
    let tenant = Namespace::create_named(&client, "tenant", &level, &[]).await;
    let daemon_set = plugin(false, &json!({"tolerations": [{"operator": "Exists"}]}));
    let created = tenant.post("apis/apps/v1", "daemonsets", &daemon_set).await;
    assert_eq!(created.code, 201, "Pod Security only warns of it: {}", created.body);

    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let open = scene.meshed("privileged").await;
    let reply = open.try_pod(&pod("web", &json!({}))).await;
    assert!(
        is_meshed(&reply, "init-container"),
        "{} {:?}",
        reply.message(),
        reply.warnings
    );
    let log = scene.webhook.log();
    let said = |words: &str| {
        log.lines()
            .any(|line| line.contains("tenant/linkerd-cni") && line.contains(words))
    };
    assert!(said("namespace tenant enforces baseline:latest"), "{log}");

    // Once its namespace admits it, it could do as it says.
    tenant
        .label(&[("pod-security.kubernetes.io/enforce", "privileged")])
        .await;
    until(&scene, &open, |reply| is_meshed(reply, "cni")).await;
}
