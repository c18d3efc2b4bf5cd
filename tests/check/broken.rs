//! Each way in which the way to the webhook breaks, told apart.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::answer::{Answer, text};
use crate::cluster::{FailurePolicy, Installed};
use crate::installation::{INJECT, Installation, REGISTRATION, expired, foreign_bundle};

#[tokio::test]
async fn each_way_to_lose_the_webhook_has_a_line_of_its_own() {
    let installation = Installation::new("127.102.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    installation.meshed("shop", "privileged").await;
    let answer = Answer::until(&kubeconfig, &[], "dry_run_injected").await;
    assert_eq!((answer.status, answer.faults()), (Some(0), vec![]), "{answer:#?}");

    an_expired_certificate(&installation).await;
    another_authority(&installation).await;
    selectors(&installation).await;
    deadlock_and_order(&installation).await;
    away(installation).await;
}

async fn an_expired_certificate(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    installation.store(&expired()).await;
    let answer = Answer::to(&kubeconfig, &[]);
    assert_eq!(
        (answer.status, answer.faults()),
        (Some(1), vec!["serving_certificate_expired"])
    );
    let said = answer.says("serving_certificate_expired");
    assert!(said.starts_with("failed: the Secret's certificate ended "), "{said}");
    let hint = answer.line("serving_certificate_expired")["hint"].as_str().unwrap();
    assert!(hint.starts_with("renew it now"), "{hint}");
    installation.store("no certificate").await;
    assert_eq!(
        Answer::to(&kubeconfig, &[]).faults(),
        ["serving_certificate_unreadable"]
    );
    installation
        .store(&String::from_utf8(installation.certificate()).unwrap())
        .await;
    assert_eq!(Answer::to(&kubeconfig, &[]).faults(), [""; 0]);
}

/// The API server does not trust the webhook.
async fn another_authority(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    let bundle = foreign_bundle();
    installation
        .reregister(|entry| entry["clientConfig"]["caBundle"] = bundle.into())
        .await;
    let answer = Answer::until(&kubeconfig, &[], "dry_run_tls").await;
    let faults = ["serving_certificate_not_trusted", "handshake_failed", "dry_run_tls"];
    assert_eq!((answer.status, answer.faults()), (Some(1), faults.to_vec()));
    let said = answer.says("dry_run_tls");
    assert!(said.contains("x509: certificate signed by unknown authority"), "{said}");
    let said = answer.says("handshake_failed");
    assert!(
        said.contains("UnknownIssuer") && said.contains(&installation.address),
        "{said}"
    );
    installation.register(FailurePolicy::Fail);
    Answer::until(&kubeconfig, &[], "dry_run_injected").await;
}

/// Selectors that take no namespace, or not all.
async fn selectors(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    let opt_in = json!({"matchLabels": {INJECT.0: INJECT.1}});
    installation
        .reregister(|entry| entry["namespaceSelector"] = opt_in)
        .await;
    let answer = Answer::until(&kubeconfig, &[], "dry_run_not_injected").await;
    let faults = ["selector_never_matches", "dry_run_not_injected"];
    assert_eq!((answer.status, answer.faults()), (Some(1), faults.to_vec()));
    let said = answer.says("selector_never_matches");
    assert!(
        said.contains("shop: namespaceSelector wants linkerd.io/inject In [enabled]"),
        "{said}"
    );
    assert!(said.contains("which is here an annotation"), "{said}");

    let aks = json!({"matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "linkerd"]}]});
    installation.reregister(|entry| entry["namespaceSelector"] = aks).await;
    let labels = [("control-plane", "controller-manager")];
    crate::cluster::Namespace::create_named(&installation.client, "operator", &labels, &[INJECT]).await;
    let answer = Answer::until(&kubeconfig, &[], "dry_run_injected").await;
    assert_eq!(
        (answer.status, answer.faults()),
        (Some(0), vec!["namespaces_not_selected", "selector_rewritten"])
    );
    assert_eq!(answer.json["status"], "warning");
    let said = answer.says("namespaces_not_selected");
    assert!(
        said.contains("operator: namespaceSelector wants control-plane DoesNotExist"),
        "{said}"
    );
    let output = installation
        .cluster
        .kubectl(["delete", "namespace", "operator", "--wait=false"]);
    assert!(output.status.success());
    installation.register(FailurePolicy::Fail);
}

/// What the webhook needs goes to the webhook; and webhooks that come after it.
async fn deadlock_and_order(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    installation
        .reregister(|entry| {
            entry["namespaceSelector"] = json!({});
            entry["objectSelector"] = json!({});
            entry["reinvocationPolicy"] = "Never".into();
        })
        .await;
    installation.register_other("z-other", &json!({})).await;
    let answer = Answer::to(&kubeconfig, &[]);
    assert_eq!(answer.status, Some(1));
    let said = answer.says("failure_policy_deadlock");
    for place in [
        "kube-system",
        "linkerd/linkerd-proxy-injector",
        "linkerd-cni/outrigger-cni",
    ] {
        assert!(said.contains(place), "{said}");
    }
    let said = answer.says("webhook_not_reinvoked");
    assert!(said.contains("z-other: other.example.com"), "{said}");

    let component = json!({"linkerd.io/control-plane-component": "proxy-injector"});
    installation.register_other("linkerd-old", &component).await;
    let answer = Answer::to(&kubeconfig, &[]);
    let said = answer.says("webhook_registered_twice");
    assert!(said.contains("linkerd-old: ") && said.contains(REGISTRATION), "{said}");
    for other in ["z-other", "linkerd-old"] {
        installation.unregister(other);
    }
    installation.register(FailurePolicy::Fail);
    Answer::until(&kubeconfig, &[], "webhook_order").await;
}

/// Nobody listens; then somebody who never answers; then nobody is asked.
async fn away(installation: Installation) {
    let kubeconfig = installation.kubeconfig();
    let address = installation.address.clone();
    let Installed {
        cluster,
        client,
        webhook,
        ..
    } = installation.into_parts();
    let stopped = webhook.stop().await;
    let answer = Answer::until(&kubeconfig, &[], "dry_run_connection_refused").await;
    let faults = ["handshake_not_tried", "dry_run_connection_refused"];
    assert_eq!((answer.status, answer.faults()), (Some(1), faults.to_vec()));
    let said = answer.says("dry_run_connection_refused");
    assert!(said.contains("connect: connection refused"), "{said}");
    let (status, printed) = text(&kubeconfig, &[]);
    assert_eq!(status, Some(1));
    assert!(
        printed.contains("\n× the API server cannot ask the webhook: "),
        "{printed}"
    );
    assert!(printed.contains("\n    hint: nobody listens there"), "{printed}");
    assert!(printed.ends_with("Status check results are ×\n"), "{printed}");

    // Connections are accepted by the kernel, and nobody ever reads from them.
    let silent = TcpListener::bind(&address).unwrap();
    let answer = Answer::until(&kubeconfig, &[], "dry_run_timeout").await;
    let said = answer.says("dry_run_timeout");
    assert!(
        said.contains("context deadline exceeded") || said.contains("timeout"),
        "{said}"
    );
    let said = answer.says("handshake_broken");
    assert!(said.contains("no handshake within 3 s"), "{said}");
    drop(silent);

    let fails_open = cluster.kubectl([
        "patch",
        "mutatingwebhookconfiguration",
        REGISTRATION,
        "--type=json",
        "--patch",
        r#"[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]"#,
    ]);
    assert!(fails_open.status.success());
    let answer = Answer::until(&kubeconfig, &[], "dry_run_not_injected").await;
    assert_eq!(answer.status, Some(1));
    let output = cluster.kubectl(["delete", "mutatingwebhookconfiguration", REGISTRATION]);
    assert!(output.status.success());
    let answer = Answer::until(&kubeconfig, &[], "webhook_not_registered").await;
    assert_eq!(answer.status, Some(1), "{:?}", Value::Null);
    drop((client, stopped));
}
