//! `PodSecurityPolicy` for real: on Kubernetes 1.24 the pods of both charts are admitted under their policies, and not
//! without.

use serde_json::json;

use crate::accepted::{apply, objects, pods};
use crate::cluster::{Cluster, Edition, Namespace, Options, create, poll};
use crate::deadlock::LIMIT;
use crate::program::printed;

/// A controller makes pods: whoever may do all could use every policy.
const CONTROLLER: &str = "system:serviceaccount:kube-system:replicaset-controller";

async fn is_admitted_by_its_policy(cluster: &Cluster, command: &[&str], namespace: &Namespace, policy: &str) {
    let text = printed(command);
    let makers = namespace.seen_by(&cluster.client_as(Some(CONTROLLER)).await);
    let without = objects(&text, &["PodSecurityPolicy"]);
    apply(cluster, &without, &[]);
    let all = pods(&text);
    assert!(!all.is_empty());
    for pod in &all {
        let refused = makers.try_pod(pod).await;
        assert_eq!(refused.code, 403, "{}", refused.body);
        assert!(
            refused.message().contains("PodSecurityPolicy: "),
            "{}",
            refused.message()
        );
    }
    apply(cluster, &objects(&text, &[]), &[]);
    for pod in &all {
        let admitted = async || {
            let reply = makers.try_pod(pod).await;
            let by = &reply.body["metadata"]["annotations"]["kubernetes.io/psp"];
            (reply.code == 201 && by == policy).then_some(())
        };
        let admitted = poll(LIMIT, admitted).await;
        assert!(admitted.is_some(), "{}", makers.try_pod(pod).await.message());
    }
}

#[tokio::test]
async fn the_pods_of_both_charts_are_admitted_under_their_policies() {
    let cluster = Cluster::start(Options {
        edition: Edition::PodSecurityPolicy,
        ..Options::default()
    });
    let cluster = cluster.await.unwrap();
    let client = cluster.client().await;
    let [webhook, plugin, shop] =
        ["linkerd", "linkerd-cni", "shop"].map(|name| Namespace::create_named(&client, name, &[], &[]));
    let (webhook, plugin) = (webhook.await, plugin.await);
    shop.await;
    let probing = "--set=probe.enabled=true,probe.namespaces={shop}";
    let egress = "--set=egress.enabled=true,egress.controller.enabled=true,egress.gateway.enabled=true,\
                  egress.gateway.clusterNetworks={10.0.0.0/8}";
    let command = ["install", "--ha", "--server-version=1.24", probing, egress];
    is_admitted_by_its_policy(&cluster, &command, &webhook, "linkerd-linkerd-outrigger").await;
    for repair in ["repair=true", "repair=false"] {
        let command = ["install-cni", "--server-version=1.24", "--set", repair];
        if repair == "repair=false" {
            // The policy of another test would admit it.
            let gone = cluster.kubectl(["delete", "psp", "linkerd-linkerd-cni-outrigger-cni"]);
            assert!(gone.status.success());
        }
        is_admitted_by_its_policy(&cluster, &command, &plugin, "linkerd-linkerd-cni-outrigger-cni").await;
    }

    let described = cluster.kubectl(["describe", "psp", "-l", "linkerd.io/control-plane-ns=linkerd"]);
    let described = String::from_utf8(described.stdout).unwrap();
    let words: Vec<_> = described.split_whitespace().collect();
    let words = words.join(" ");
    for said in [
        "Name: linkerd-linkerd-outrigger ",
        "Spec: Allow Privilege Escalation: false Allowed Capabilities: NET_ADMIN NET_RAW Default",
        "Required Drop Capabilities: ALL ",
    ] {
        assert!(words.contains(said), "{said}: {described}");
    }

    // What Linkerd's control plane needs for its own init container, and no more.
    let account = json!({"metadata": {"name": "linkerd-identity"}});
    create(&client, "/api/v1/namespaces/linkerd/serviceaccounts", &account).await;
    let makers = webhook.seen_by(&cluster.client_as(Some(CONTROLLER)).await);
    let with = |capability: &str| {
        json!({"metadata": {"name": "identity"}, "spec": {"serviceAccountName": "linkerd-identity", "containers": [
            {"name": "identity", "image": "i", "securityContext": {
                "runAsUser": 65534, "capabilities": {"add": [capability], "drop": ["ALL"]}}}]}})
    };
    assert_eq!(makers.try_pod(&with("NET_ADMIN")).await.code, 201);
    assert_eq!(makers.try_pod(&with("SYS_ADMIN")).await.code, 403);
}
