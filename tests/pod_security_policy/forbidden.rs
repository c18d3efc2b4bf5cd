//! A webhook that may not read policies, from the start or from some time on: it says so, and decides all the same.

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Edition, Namespace, Options, Verb, call, poll};
use crate::scene::{CNI, INJECT, PLAIN, Scene};
use crate::site::{LIMIT, account, explain, grant, install, is_meshed, lax, seccomp_profiles, start};

const CONTROLLER: &str = "replicaset-controller";

const FAILING: &str = "outrigger_watch_failing{resource=\"podsecuritypolicies\"}";

const OBJECTS: &str = "outrigger_watch_objects{resource=\"podsecuritypolicies\"}";

fn pod() -> Value {
    json!({"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "web", "image": "web"}]}})
}

/// Takes the right to read policies from the webhook's account.
async fn forbid(client: &Client) {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/linkerd-linkerd-proxy-injector";
    let mut role = call(client, Verb::Get, path, None).await.unwrap().body;
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"][0] != "podsecuritypolicies");
    let reply = call(client, Verb::Patch, path, Some(&json!({"rules": rules})))
        .await
        .unwrap();
    assert!(reply.accepted(), "{}", reply.body);
}

#[tokio::test]
async fn policies_that_nobody_may_read_are_unknown_and_hold_nobody_up() {
    let cluster = start().await;
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    forbid(&client).await;
    for (values, redirection) in [(PLAIN, "init-container"), (CNI, "cni")] {
        let scene = Scene::in_cluster(&cluster, values).await;
        assert!(scene.webhook.metric(FAILING).await > 0.0);
        let namespace = scene.namespace("shop", &[], &[INJECT]).await;
        let [role, binding] = grant(&namespace.name, "privileged");
        install(&client, &[role, binding]).await;
        let namespace = namespace.seen_by(&cluster.client_as(Some(&account(CONTROLLER))).await);
        let meshed = async || is_meshed(&namespace.try_pod(&pod()).await, Some(redirection)).then_some(());
        poll(LIMIT, meshed).await.expect("the pod is admitted");
        let log = scene.webhook.log();
        let said = "watch failed, trying again resource=\"podsecuritypolicies\" error=\"podsecuritypolicies.policy is \
                    forbidden: ";
        assert_eq!(log.matches(said).count(), 1, "{log}");

        let kubeconfig = cluster.webhook_kubeconfig().await;
        let entry = explain(kubeconfig, CONTROLLER, &namespace.name, &pod(), CNI);
        let trace: Vec<_> = entry["trace"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let unknown = "pod-security-policy: unknown: podsecuritypolicies: podsecuritypolicies.policy is forbidden: ";
        assert!(trace.iter().any(|line| line.starts_with(unknown)), "{trace:#?}");
        assert_eq!(entry["redirection"], "cni");
    }
}

/// Whether a pod is meshed by linkerd-init, and no container has a profile of seccomp.
async fn without_profile(cluster: &Cluster, namespace: &Namespace) -> Option<()> {
    let creator = cluster.client_as(Some(&account(CONTROLLER))).await;
    let reply = namespace.seen_by(&creator).try_pod(&pod()).await;
    let fits = is_meshed(&reply, Some("init-container")) && seccomp_profiles(&reply.body).is_empty();
    fits.then_some(())
}

#[tokio::test]
async fn policies_that_were_read_once_count_for_as_long_as_nothing_newer_is_known() {
    let mut cluster = start().await;
    let client = cluster.client().await;
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let namespace = scene.namespace("shop", &[], &[INJECT]).await;
    // No profile of seccomp may be set: a detail that is seen only by those who know the policy.
    let mut policy = lax("no-profiles");
    policy["metadata"].as_object_mut().unwrap().remove("annotations");
    let [role, binding] = grant(&namespace.name, "no-profiles");
    install(&client, &[policy, role, binding]).await;
    let asked = async || without_profile(&cluster, &namespace).await;
    poll(LIMIT, asked).await.expect("the pod is admitted without a profile");
    assert_eq!(scene.webhook.metric(FAILING).await, 0.0);

    forbid(&client).await;
    let again = Options {
        edition: Edition::PodSecurityPolicy,
        ..Options::default()
    };
    cluster.restart_api_server(again).await.unwrap();
    let failing = async || (scene.webhook.metric(FAILING).await > 0.0).then_some(());
    poll(LIMIT, failing).await.expect("the watch of policies fails");
    assert_eq!(scene.webhook.metric(OBJECTS).await, 2.0);
    let asked = async || without_profile(&cluster, &namespace).await;
    poll(LIMIT, asked).await.expect("the pod is admitted as before");
    let said = "watch failed, trying again resource=\"podsecuritypolicies\"";
    assert_eq!(scene.webhook.log().matches(said).count(), 1, "{}", scene.webhook.log());
}
