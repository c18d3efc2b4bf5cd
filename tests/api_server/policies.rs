//! What the webhook knows of admission policies: watched where the server has them, and unknown where it may not read them.

use std::time::Duration;

use kube::Client;
use serde_json::json;

use crate::cluster::{Cluster, Options, Verb, Webhook, WebhookOptions, call, create, poll};
use crate::pod;
use crate::scene::{CNI, INJECT, Scene};

/// A watch tells within milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

const CONSTRAINTS: &str = "/apis/security.openshift.io/v1";

/// Lets the server have OpenShift's `SecurityContextConstraints`: as OpenShift does it, by a definition.
pub(crate) async fn serve_constraints(client: &Client) {
    let names = json!({"plural": "securitycontextconstraints", "singular": "securitycontextconstraints",
        "kind": "SecurityContextConstraints"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "securitycontextconstraints.security.openshift.io"},
        "spec": {"group": "security.openshift.io", "scope": "Cluster", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(client, path, &definition).await;
    let served = async || {
        let reply = call(
            client,
            Verb::Get,
            &format!("{CONSTRAINTS}/securitycontextconstraints"),
            None,
        )
        .await;
        reply.is_ok_and(|reply| reply.accepted()).then_some(())
    };
    poll(LIMIT, served).await.expect("the definition is served");
}

/// Waits until `webhook` knows `count` objects of `resource` and watches them.
async fn until_known(webhook: &Webhook, resource: &str, count: f64) {
    let known = async || {
        let objects = webhook
            .metric(&format!("outrigger_watch_objects{{resource=\"{resource}\"}}"))
            .await;
        let failing = webhook
            .metric(&format!("outrigger_watch_failing{{resource=\"{resource}\"}}"))
            .await;
        ((objects, failing) == (count, 0.0)).then_some(())
    };
    let known = poll(LIMIT, known).await;
    assert!(known.is_some(), "{resource}: {:?}", webhook.read("/metrics").await);
}

#[tokio::test]
async fn policies_are_watched_where_the_server_has_them() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let start = async || {
        Webhook::start(&cluster, WebhookOptions::with_values(CNI))
            .await
            .unwrap()
    };
    let webhook = start().await;
    for (resource, spec) in [
        (
            "limitranges",
            json!({"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
        ),
        ("resourcequotas", json!({"hard": {"pods": "3"}})),
    ] {
        until_known(&webhook, resource, 0.0).await;
        let object = json!({"metadata": {"name": "bounds"}, "spec": spec});
        create(&client, &format!("/api/v1/namespaces/default/{resource}"), &object).await;
        until_known(&webhook, resource, 1.0).await;
    }
    let (_, metrics) = webhook.read("/metrics").await.unwrap();
    assert!(!metrics.contains("securitycontextconstraints"), "{metrics}");
    assert!(!metrics.contains("roles"), "{metrics}");

    serve_constraints(&client).await;
    let path = format!("{CONSTRAINTS}/securitycontextconstraints");
    let constraint = json!({"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
        "metadata": {"name": "nonroot"}, "runAsUser": {"type": "MustRunAsNonRoot"}});
    create(&client, &path, &constraint).await;
    let webhook = start().await;
    until_known(&webhook, "securitycontextconstraints", 1.0).await;
    // Of the roles that every server has, one is about the use of policies: it lets one do anything.
    until_known(&webhook, "clusterroles", 1.0).await;
    until_known(&webhook, "roles", 0.0).await;
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_holds_nobody_up() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    serve_constraints(&client).await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/linkerd-linkerd-proxy-injector";
    let mut role = call(&client, Verb::Get, path, None).await.unwrap().body;
    let rules = role["rules"].as_array_mut().unwrap();
    let of_policies = ["limitranges", "securitycontextconstraints", "roles"];
    rules.retain(|rule| !of_policies.iter().any(|resource| rule["resources"][0] == *resource));
    let reply = call(&client, Verb::Patch, path, Some(&json!({"rules": rules})))
        .await
        .unwrap();
    assert!(reply.accepted(), "{}", reply.body);

    let scene = Scene::in_cluster(&cluster, CNI).await;
    let namespace = scene.namespace("shop", &[], &[INJECT]).await;
    let reply = namespace.create_pod(&pod("web", &json!({}))).await;
    assert_eq!(reply.code, 201, "{}", reply.message());
    assert_eq!(
        reply.body["metadata"]["annotations"]["linkerd.io/setup-iptables"],
        "cni"
    );
    for resource in [
        "limitranges",
        "resourcequotas",
        "securitycontextconstraints",
        "rolebindings",
    ] {
        let series = format!("outrigger_watch_failing{{resource=\"{resource}\"}}");
        assert!(scene.webhook.metric(&series).await > 0.0, "{resource}");
        let log = scene.webhook.log();
        let said = log
            .lines()
            .filter(|line| line.contains(&format!("watch failed, trying again resource=\"{resource}\"")));
        assert_eq!(said.count(), 1, "{resource}: {log}");
    }
}
