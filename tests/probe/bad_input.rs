//! Whatever goes wrong: nothing is decided wrongly, and nothing ends.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Options, Verb, call, poll, shared};
use crate::prober::{FINDINGS, Prober, finding, install, until_found};
use crate::scene::{INJECT, PLAIN, Scene};
use crate::validator::Validator;
use crate::{LIMIT, create, create_nodes, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_wrong_is_unknown_and_stops_nobody() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let client = scene.client.clone();
    create_nodes(&client).await;
    let slow = scene.namespace("slow", &[("test/slow", "yes")], &[INJECT]).await;
    let going = scene.namespace("going", &[], &[INJECT]).await;
    let shop = scene.namespace("shop", &[], &[INJECT]).await;
    // Nobody answers for pods of the probe, so that real ones show what is decided.
    let validator = Validator::start().await;
    let of_probe = json!({"app.kubernetes.io/name": "outrigger-probe"});
    let entry = validator.entry("hang.example.com", "/hang", &json!({"test/slow": "yes"}), &of_probe);
    let configuration = json!({"metadata": {"name": "hang"}, "webhooks": [entry]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    create(&client, path, &configuration).await;

    install(&cluster);
    let mut prober = Prober::start(&cluster, PLAIN).await;
    let hung = until_found(&client, &prober, &slow.name, |finding| {
        finding["plain"]["verdict"] == "unknown"
    })
    .await;
    assert_eq!(hung["plain"]["by"], "webhook_fails", "{hung}");
    let admitted = |finding: &Value| finding["init-container"]["verdict"] == "admitted";
    until_found(&client, &prober, &shop.name, admitted).await;
    for namespace in [&slow, &going, &shop] {
        until(namespace, "init-container", &scene.webhook).await;
    }
    prober
        .until("/metrics", "outrigger_probe_findings{state=\"unknown\"} 1")
        .await;

    // Nobody empties the namespace here, so it stays on its way for ever.
    let gone = cluster.kubectl(["delete", "namespace", &going.name, "--wait=false"]);
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    until_found(&client, &prober, &going.name, Value::is_null).await;
    assert_eq!(prober.ended(), None);

    assert!(prober.stop().await.success());
    let junk = json!({"data": {&shop.name: "{\"at\": 1e99}", "_odd": "", "x.y": "null"}});
    let reply = call(&client, Verb::Patch, FINDINGS, Some(&junk)).await.unwrap();
    assert!(reply.accepted(), "{}", reply.body);
    let unreadable = async || {
        let series = "outrigger_probe_findings{state=\"unreadable\"}";
        (scene.webhook.metric(series).await > 2.5).then_some(())
    };
    poll(LIMIT, unreadable).await.expect("what cannot be read is counted");
    until(&shop, "init-container", &scene.webhook).await;

    // A new probe mends it, and keeps what it can use.
    let prober = Prober::start(&cluster, PLAIN).await;
    until_found(&client, &prober, &shop.name, admitted).await;
    until_found(&client, &prober, "x.y", Value::is_null).await;
    assert_eq!(finding(&client, &slow.name).await["plain"]["verdict"], "unknown");
}

#[tokio::test]
async fn without_rights_it_waits_and_says_so() {
    let cluster = shared().await;
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    let account = json!({"metadata": {"name": "stranger"}});
    create(&client, "/api/v1/namespaces/linkerd/serviceaccounts", &account).await;
    let kubeconfig = cluster.account_kubeconfig("stranger").await;
    let mut prober = Prober::start_as(&kubeconfig, PLAIN, &[]);
    let (status, _) = prober
        .until("/ready", "not ready: namespaces: namespaces is forbidden: ")
        .await;
    assert_eq!(status, 500);
    for resource in [
        "namespaces",
        "validatingadmissionpolicies",
        "mutatingwebhookconfigurations",
    ] {
        let series = format!("outrigger_probe_watch_failing{{resource=\"{resource}\"}} 1");
        prober.until("/metrics", &series).await;
    }
    prober
        .until("/metrics", "outrigger_probe_publications_total{outcome=\"failed\"}")
        .await;
    assert_eq!((prober.read("/live").await.unwrap().0, prober.ended()), (200, None));
    let log = prober.log();
    let said = log.lines().filter(|line| line.contains("namespaces is forbidden"));
    assert_eq!(said.count(), 1, "{log}");
}
