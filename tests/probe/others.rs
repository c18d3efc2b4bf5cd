//! Policies that only the API server or others can judge.

use kube::Client;
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, Namespace, Options, Verb, call};
use crate::installed::client_of;
use crate::prober::{Prober, finding, install, until_found};
use crate::scene::{INJECT, PLAIN, Scene};
use crate::validator::Validator;
use crate::{create, create_nodes, pod, until};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy for pods of the namespaces that have the label `test/policy` with its name.
async fn create_policy(client: &Client, name: &str, expression: &str) {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let policy = json!({"metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "message": "not for you"}]}});
    create(client, &format!("{REGISTRATION}/validatingadmissionpolicies"), &policy).await;
    let selector = json!({"namespaceSelector": {"matchLabels": {"test/policy": name}}});
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name, "validationActions": ["Deny"], "matchResources": selector}});
    create(
        client,
        &format!("{REGISTRATION}/validatingadmissionpolicybindings"),
        &binding,
    )
    .await;
}

/// CEL: no init container adds `NET_ADMIN`.
const NO_NET_ADMIN: &str = "!has(object.spec.initContainers) || object.spec.initContainers.all(c, \
    !has(c.securityContext) || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add) || \
    !('NET_ADMIN' in c.securityContext.capabilities.add))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_others_are_found_out_and_heeded() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let client = scene.client.clone();
    create_nodes(&client).await;
    let of = async |policy| scene.namespace(policy, &[("test/policy", policy)], &[INJECT]).await;
    let (by_policy, by_webhook) = (of("no-net-admin").await, of("webhook").await);
    let (unrelated, free) = (of("team").await, of("free").await);
    let (demanding, full) = (of("quota").await, of("no-net-admin").await);
    create_quota(
        &client,
        &demanding,
        &json!({"limits.cpu": "10", "limits.memory": "10Gi"}),
    )
    .await;
    // Less than the plain pod asks for, and what no pod of the probe says.
    create_quota(&client, &full, &json!({"limits.cpu": "500m"})).await;
    let mute = of("quota").await;
    create_quota(&client, &mute, &json!({"requests.ephemeral-storage": "1Gi"})).await;
    install(&cluster);
    let prober = Prober::start(&cluster, PLAIN).await;
    // Nothing is refused yet, and that is found out first: what comes next must be noticed.
    for namespace in [&by_policy, &by_webhook, &unrelated, &free, &demanding, &full, &mute] {
        let admitted = |finding: &Value| finding["init-container"]["verdict"] == "admitted";
        until_found(&client, &prober, &namespace.name, admitted).await;
    }
    for namespace in [&by_policy, &by_webhook, &unrelated, &free] {
        until(namespace, "init-container", &scene.webhook).await;
    }

    create_policy(&client, "no-net-admin", NO_NET_ADMIN).await;
    create_policy(
        &client,
        "team",
        "has(object.metadata.labels) && 'team' in object.metadata.labels",
    )
    .await;
    let validator = Validator::start().await;
    let entry = validator.entry(
        "deny.example.com",
        "/deny",
        &json!({"test/policy": "webhook"}),
        &json!({}),
    );
    let configuration = json!({"metadata": {"name": "deny"}, "webhooks": [entry]});
    create(
        &client,
        &format!("{REGISTRATION}/validatingwebhookconfigurations"),
        &configuration,
    )
    .await;

    until(&by_policy, "cni", &scene.webhook).await;
    until(&by_webhook, "cni", &scene.webhook).await;
    let refuser = async |namespace: &Namespace| {
        let found = finding(&client, &namespace.name).await;
        let said = &found["init-container"];
        (said["by"].to_string(), said["policy"].to_string())
    };
    let expected = |by: &str, policy: &str| (format!("{by:?}"), format!("{policy:?}"));
    assert_eq!(
        refuser(&by_policy).await,
        expected("validating-admission-policy", "no-net-admin")
    );
    assert_eq!(refuser(&by_webhook).await, expected("webhook", "deny.example.com"));
    // A quota refuses the others in that namespace, and is asked after the policy.
    let refused = |finding: &Value| {
        finding["init-container"]["policy"] == "no-net-admin" && finding["cni"]["verdict"] == "admitted"
    };
    until_found(&client, &prober, &full.name, refused).await;

    // A policy that refuses the plain pod too says nothing of the others: a pod that heeds it is meshed as ever.
    until_found(&client, &prober, &unrelated.name, |finding| {
        finding["plain"]["verdict"] == "refused"
    })
    .await;
    until(&unrelated, "init-container", &scene.webhook).await;
    until(&free, "init-container", &scene.webhook).await;
    no_real_pod(&cluster, &free).await;
}

/// A quota of which nothing is used, as the controller-manager would have noted it: it demands these figures of every
/// container.
async fn create_quota(client: &Client, namespace: &Namespace, hard: &Value) {
    let quota = json!({"metadata": {"name": "demanding"}, "spec": {"hard": hard}});
    let path = format!("/api/v1/namespaces/{}/resourcequotas", namespace.name);
    create(client, &path, &quota).await;
    let used: Map<_, _> = hard
        .as_object()
        .unwrap()
        .keys()
        .map(|key| (key.clone(), "0".into()))
        .collect();
    let status = json!({"status": {"hard": hard, "used": used}});
    let reply = call(client, Verb::Patch, &format!("{path}/demanding/status"), Some(&status)).await;
    assert!(reply.unwrap().accepted());
}

/// With the probe's token nobody creates anything.
async fn no_real_pod(cluster: &Cluster, namespace: &Namespace) {
    let token = cluster.account_kubeconfig("outrigger-probe").await;
    let as_probe = namespace.seen_by(&client_of(&token).await);
    let mut pod = pod();
    pod["metadata"]["labels"]["linkerd.io/control-plane-component"] = "outrigger-probe".into();
    let tried = as_probe.try_pod(&pod).await;
    assert_eq!(tried.code, 201, "{}", tried.message());
    let created = as_probe.create_pod(&pod).await;
    assert!(
        created.code == 422
            && created.message().contains(
                "ValidatingAdmissionPolicy 'outrigger-probe-dry-run-only' with binding 'outrigger-probe-dry-run-only' \
                 denied request: the probe may create no pod but in a dry run"
            ),
        "{}",
        created.body
    );
    let client = cluster.client().await;
    let path = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let pods = call(&client, Verb::Get, &path, None).await.unwrap().body;
    assert_eq!(pods["items"], json!([]));
}
