//! The optional policy that narrows the agent's rights on nodes down.

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use outrigger::cni::agent::taint::remove;
use serde_json::{Value, json};

use crate::agent::{LIMIT, Node, apply, kubectl};
use crate::cluster::{Cluster, Options, Verb, call, poll};

const OURS: &str = "outrigger.linkerd.io/cni-not-ready";

/// The agent's client on `node`.
async fn agent_on(cluster: &Cluster, node: &Node) -> Client {
    let token = node.bound_token(cluster).await;
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": token})).unwrap();
    Client::try_from(config).unwrap()
}

/// The taints of `node`, among them the API server's own, and one more.
async fn and(cluster: &Cluster, node: &Node, taint: Value) -> Value {
    let path = format!("/api/v1/nodes/{}", node.name);
    let found = call(&cluster.client().await, Verb::Get, &path, None).await.unwrap();
    let mut taints = found.body["spec"]["taints"].clone();
    taints.as_array_mut().unwrap().push(taint);
    json!({"spec": {"taints": taints}})
}

/// The agent puts no taint on its `node`, its own included, and changes nothing else.
async fn changes_nothing_else(cluster: &Cluster, agent: &Client, node: &Node) {
    let refused = async |patch: Value, why: &str| {
        let path = format!("/api/v1/nodes/{}", node.name);
        let reply = call(agent, Verb::Patch, &path, Some(&patch)).await.unwrap();
        let (code, message) = (reply.code, reply.message());
        assert!(code == 422 && message.contains(why), "{patch}: {code} {message}");
    };
    for patch in [
        // Pods that do not tolerate it are thrown off the node.
        and(cluster, node, json!({"key": OURS, "effect": "NoExecute"})).await,
        and(cluster, node, json!({"key": "b", "effect": "NoSchedule"})).await,
        json!({"spec": {"unschedulable": true}}),
        json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
        json!({"spec": {"providerID": "cloud://another"}}),
    ] {
        refused(patch, "the start-up taint away and nothing else").await;
    }
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "none", "uid": "none"}]);
    for metadata in [
        json!({"labels": {"a": "b"}}),
        json!({"annotations": {"a": "b"}}),
        json!({"finalizers": ["example.com/stay"]}),
        json!({"ownerReferences": owner}),
    ] {
        refused(json!({"metadata": metadata}), "the agent may not change labels").await;
    }
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
    changes_nothing_else(&cluster, &agent, &own).await;
    assert_eq!(remove(&agent, &own.name, OURS).await.unwrap(), 1);
    assert_eq!(own.taints(&cluster).await, ["a"]);
    changes_nothing_else(&cluster, &agent, &own).await;
}
