//! The optional policy that narrows the agent's rights on nodes down.

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use outrigger::cni::agent::taint::remove;
use serde_json::json;

use crate::agent::{LIMIT, Node, apply, kubectl};
use crate::cluster::{Cluster, Options, Verb, call, poll};

const OURS: &str = "outrigger.linkerd.io/cni-not-ready";

/// The agent's client on `node`: its token is bound to a pod there, as the kubelet's are.
async fn agent_on(cluster: &Cluster, node: &Node) -> Client {
    let admin = cluster.client().await;
    let create = async |path: &str, object: serde_json::Value| {
        let reply = call(&admin, Verb::Create, path, Some(&object)).await.unwrap();
        assert!(reply.accepted(), "{path}: {}", reply.message());
        reply.body
    };
    let pod = json!({"metadata": {"name": "agent"}, "spec": {"serviceAccountName": "outrigger-cni", "nodeName": node.name,
        "containers": [{"name": "install-cni", "image": "i"}]}});
    let pod = create("/api/v1/namespaces/linkerd-cni/pods", pod).await;
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "agent", "uid": pod["metadata"]["uid"]}}});
    let issued = create(
        "/api/v1/namespaces/linkerd-cni/serviceaccounts/outrigger-cni/token",
        bound,
    )
    .await;
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": issued["status"]["token"]})).unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn an_agent_takes_its_taint_off_its_own_node_and_nothing_else() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    for file in ["namespace.yaml", "rbac.yaml", "node-restriction.yaml"] {
        apply(&cluster, file);
    }
    let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": OURS, "effect": "NoSchedule"}]);
    let (own, foreign) = (
        Node::create(&cluster, &taints).await,
        Node::create(&cluster, &taints).await,
    );
    let agent = agent_on(&cluster, &own).await;
    // The policy takes a moment to be in force.
    let refused = async || {
        let error = remove(&agent, &foreign.name, "a").await.err()?.to_string();
        error.contains("the agent may change its own node only").then_some(())
    };
    // Until then the taint goes, and comes back for another try.
    let restored = async || {
        let refused = refused().await;
        if refused.is_none() {
            let patch = json!({"spec": {"taints": taints}}).to_string();
            kubectl(
                &cluster,
                &["patch", "node", &foreign.name, "--type=merge", "-p", &patch],
            );
        }
        refused
    };
    poll(LIMIT, restored).await.expect("the policy comes into force");
    let error = remove(&agent, &own.name, "a").await.unwrap_err().to_string();
    assert!(error.contains("the start-up taint away and nothing else"), "{error}");
    assert_eq!(remove(&agent, &own.name, OURS).await.unwrap(), 1);
    assert_eq!(own.taints(&cluster).await, ["a"]);
}
