//! A cluster that restarts while nobody serves the webhook and its registration fails closed: situation 22 of the
//! conformance cases, against what the chart renders for high availability.

use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::{Value, json};

use crate::accepted::{apply, objects};
use crate::cluster::service::{change_entries, reach_on_loopback};
use crate::cluster::{Authority, Cluster, Reply, Verb, Webhook, WebhookOptions, call, create, poll, with_services};
use crate::conformance_folder::conformance;
use crate::helm::{helm, template};
use crate::program::outrigger;

/// The API server learns of a registration by a watch, in well under a second.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What the situation expects of a pod.
struct Expectation {
    pod: String,
    refused: bool,
}

/// Creates namespaces and accounts of the situation, and returns its pods with what is right for each.
async fn arrange(client: &Client, text: &str) -> Vec<(Value, Expectation)> {
    let mut pods = Vec::new();
    let expectations: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# expect: "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for object in objects(text, &[]) {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "Namespace" => {
                // kube-system is there.
                let reply = call(client, Verb::Create, "/api/v1/namespaces", Some(&object))
                    .await
                    .unwrap();
                assert!(reply.accepted() || name == "kube-system", "{}", reply.body);
                let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
                create(client, &accounts, &json!({"metadata": {"name": "default"}})).await;
            }
            "Pod" => {
                let pod = format!("Pod/{name}");
                let expected: Vec<_> = expectations.iter().filter(|it| it["workload"] == *pod).collect();
                let refused = expected.iter().any(|it| it["admitted"] == false);
                pods.push((object, Expectation { pod, refused }));
            }
            _ => {}
        }
    }
    pods
}

async fn attempt(client: &Client, pod: &Value) -> Reply {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    call(client, Verb::Create, &path, Some(pod)).await.unwrap()
}

/// Each pod as the situation wants it, while the Service has no endpoints.
async fn only_what_asks_for_the_mesh_waits(client: &Client, pods: &[(Value, Expectation)]) {
    for (pod, expectation) in pods {
        let reply = attempt(client, pod).await;
        let failed = "failed calling webhook \"linkerd-proxy-injector.linkerd.io\"";
        match expectation.refused {
            true => assert!(
                reply.code == 500 && reply.message().contains(failed),
                "{}: {}",
                expectation.pod,
                reply.body
            ),
            false => assert_eq!(reply.code, 201, "{}: {}", expectation.pod, reply.message()),
        }
    }
}

#[tokio::test]
async fn a_cluster_that_restarts_needs_nobody_to_serve_the_webhook() {
    let Some(folder) = conformance() else { return };
    let text = fs::read_to_string(folder.join("situations/22-failure-policy-deadlock.yaml")).unwrap();
    // Services have addresses of the loopback, where the API server reaches them without any network.
    let cluster = Cluster::start(with_services("127.97.0.0/16")).await.unwrap();
    let client = cluster.client().await;
    let pods = arrange(&client, &text).await;
    assert_eq!(pods.iter().filter(|(_, expectation)| expectation.refused).count(), 1);

    let authority = Authority::new();
    let bundle = STANDARD.encode(authority.certificate());
    let values = format!("certificates.mode=secret,certificates.caBundle={bundle}");
    let arguments = ["--values=outrigger/values-ha.yaml", "--set", &values];
    let rendered = objects(&template("outrigger", "linkerd", 36, &arguments), &[]);
    apply(&cluster, &rendered, &[]);
    let listen = reach_on_loopback(&client).await;
    let shop = pods.iter().find(|(_, expectation)| expectation.refused).unwrap();
    let refused = poll(LIMIT, async || {
        (attempt(&client, &shop.0).await.code == 500).then_some(())
    })
    .await;
    assert!(refused.is_some(), "{} waits", shop.1.pod);
    only_what_asks_for_the_mesh_waits(&client, &pods).await;
    services_never_wait(&client).await;
    opted_in_pods_of_opted_out_labels_wait(&client, &shop.0).await;

    // A platform writes into the selectors.
    rewrite(&client).await;
    only_what_asks_for_the_mesh_waits(&client, &pods).await;

    // One replica answers.
    let pair = authority.issue();
    let options = WebhookOptions {
        listen,
        pair: Some((pair.certificate, pair.key)),
        ..WebhookOptions::with_values("linkerdVersion: edge-26.11.1\n")
    };
    let webhook = Webhook::start(&cluster, options).await.unwrap();
    let created = poll(LIMIT, async || {
        let reply = attempt(&client, &shop.0).await;
        (reply.code == 201 && reply.body.to_string().contains("linkerd-proxy")).then_some(())
    });
    assert!(created.await.is_some(), "{}", webhook.log());
    the_test_of_the_chart_sees_it(&cluster, &arguments).await;
}

/// What the pod of `helm test` finds out, with the rights of its account.
async fn the_test_of_the_chart_sees_it(cluster: &Cluster, arguments: &[&str]) {
    let mut all = vec![
        "template",
        "outrigger",
        "outrigger",
        "--namespace=linkerd",
        "--kube-version=1.36",
    ];
    all.extend(["--show-only=templates/tests/check.yaml"]);
    all.extend(arguments);
    let hooks = objects(&String::from_utf8(helm(&all).stdout).unwrap(), &["Pod"]);
    apply(cluster, &hooks, &[]);
    let kubeconfig = cluster.account_kubeconfig("outrigger-test").await;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let output = outrigger(&["check", "--linkerd-namespace=linkerd", &kubeconfig]);
    let said = String::from_utf8_lossy(&output.stdout);
    for seen in [
        "√ the webhook is of this version",
        "√ caBundle holds 1 certificate",
        " presents a certificate of caBundle, good for ",
        "√ linkerd-proxy-injector-webhook-config sends pods to the injector, failurePolicy Fail",
        "√ kube-system, the webhook and the CNI plugin start without the webhook",
    ] {
        assert!(
            said.contains(seen),
            "{seen}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // What no controller has done here, and nobody installed.
    let missing = ["linkerd_missing", "injector_not_ready", "webhook_without_endpoints"];
    let failed: Vec<_> = said.lines().filter(|line| line.starts_with('×')).collect();
    assert!(
        failed.iter().all(|line| missing.iter().any(|code| line.contains(code))),
        "{failed:#?}"
    );
}

/// AKS adds this to every selector of namespaces (Azure/AKS#1771).
async fn rewrite(client: &Client) {
    let added = json!({"key": "control-plane", "operator": "DoesNotExist"});
    let push = |entry: &mut Value| {
        let expressions = entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap();
        expressions.push(added.clone());
    };
    change_entries(client, push).await;
}

async fn services_never_wait(client: &Client) {
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let path = "/api/v1/namespaces/shop/services?dryRun=All";
    let reply = call(client, Verb::Create, path, Some(&service)).await.unwrap();
    assert_eq!(reply.code, 201, "{}", reply.message());
}

/// The annotation counts before the label, and a label where there is no annotation.
async fn opted_in_pods_of_opted_out_labels_wait(client: &Client, shop: &Value) {
    for (annotation, label, waits) in [
        (Some("disabled"), None, false),
        (None, Some("disabled"), false),
        (Some("disabled"), Some("enabled"), false),
        (Some("enabled"), Some("disabled"), true),
        (Some("enabled"), None, true),
        (None, Some("enabled"), true),
        (Some("Disabled"), None, true),
    ] {
        let mut pod = shop.clone();
        let map = |value: Option<&str>| value.map_or_else(|| json!({}), |value| json!({"linkerd.io/inject": value}));
        pod["metadata"]["annotations"] = map(annotation);
        pod["metadata"]["labels"] = map(label);
        let reply = attempt(client, &pod).await;
        let found = reply.code == 500;
        assert_eq!(
            found,
            waits,
            "{annotation:?} {label:?}: {} {}",
            reply.code,
            reply.message()
        );
    }
}

/// Where it fails open the pod is there all the same, without a proxy, and is named once the webhook is back.
#[tokio::test]
async fn what_came_up_without_a_proxy_is_named_afterwards() {
    let Some(folder) = conformance() else { return };
    let text = fs::read_to_string(folder.join("situations/22-failure-policy-deadlock.yaml")).unwrap();
    let cluster = Cluster::start(with_services("127.98.0.0/16")).await.unwrap();
    let client = cluster.client().await;
    let pods = arrange(&client, &text).await;
    apply(&cluster, &objects(&template("outrigger", "linkerd", 36, &[]), &[]), &[]);
    let values = json!({"metadata": {"name": "linkerd-config"}, "data": {"values": "linkerdVersion: edge-26.11.1\n"}});
    create(&client, "/api/v1/namespaces/linkerd/configmaps", &values).await;
    for (pod, expectation) in &pods {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        let mut pod = pod.clone();
        // Its quota of critical pods is a controller's to count.
        pod["spec"].as_object_mut().unwrap().remove("priorityClassName");
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let reply = call(&client, Verb::Create, &path, Some(&pod)).await.unwrap();
        assert_eq!(reply.code, 201, "{}: {}", expectation.pod, reply.message());
        assert!(!reply.body.to_string().contains("linkerd-proxy\""), "{}", reply.body);
    }
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let output = outrigger(&["check", "--proxy", "--output=json", &kubeconfig]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = answer["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["code"] == "pod_without_proxy");
    let named = line.unwrap_or_else(|| panic!("{answer:#}"))["details"]
        .as_array()
        .unwrap();
    let [named] = &named[..] else { panic!("{named:?}") };
    assert!(named.as_str().unwrap().starts_with("shop/shop-web-x: "), "{named}");
}

/// The webhook's own pods: at least one starts after a restart, whatever is left of the cluster, and needs nobody else.
#[test]
fn the_first_replica_needs_nothing_but_a_node() {
    let rendered = objects(
        &template("outrigger", "linkerd", 36, &["--values=outrigger/values-ha.yaml"]),
        &[],
    );
    let one = |kind: &str| rendered.iter().find(|object| object["kind"] == kind).unwrap();
    let deployment = one("Deployment");
    let spec = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(one("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    // Kubernetes makes this class itself.
    assert_eq!(spec["priorityClassName"], "system-cluster-critical");
    // A constraint on skew leaves the first pod every node; an affinity that is required might not.
    assert!(spec["affinity"].is_null());
    let spread = spec["topologySpreadConstraints"].as_array().unwrap();
    assert!(spread.iter().all(|constraint| constraint["maxSkew"] == 1));
    // By default no other component makes the certificate.
    let kinds: Vec<_> = rendered.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert!(
        !kinds.contains(&"Certificate") && kinds.contains(&"Secret"),
        "{kinds:?}"
    );
    for entry in one("MutatingWebhookConfiguration")["webhooks"].as_array().unwrap() {
        let expressions = entry["namespaceSelector"]["matchExpressions"].as_array().unwrap();
        let by_name = expressions
            .iter()
            .find(|it| it["key"] == "kubernetes.io/metadata.name")
            .unwrap();
        let names = by_name["values"].as_array().unwrap();
        assert!(
            by_name["operator"] == "NotIn"
                && ["kube-system", "linkerd"]
                    .iter()
                    .all(|name| names.contains(&json!(name)))
        );
    }
}
