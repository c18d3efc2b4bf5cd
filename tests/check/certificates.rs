//! A look at the certificate where the webhook is reached another way than by its Service, and one that no CA has issued.

use std::fs;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::answer::{Answer, run};
use crate::cluster::{Port, poll};
use crate::installation::{Installation, expired, own_authority};

/// The webhook looks for a new certificate every ten seconds.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_webhook_is_looked_at_where_one_says() {
    let installation = Installation::new("127.103.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    let answer = Answer::to(&kubeconfig, &["--webhook-address", &installation.address]);
    let said = answer.says("handshake");
    assert!(
        said.contains(&format!("the webhook at {}", installation.address)),
        "{said}"
    );
    let said = answer.says("dry_run_not_tried");
    assert!(said.starts_with("unknown: no namespace in which"), "{said}");
    assert_eq!((answer.status, answer.faults()), (Some(0), vec!["dry_run_not_tried"]));

    let nobody = Port::reserve();
    let answer = Answer::to(&kubeconfig, &["--webhook-address", &nobody.address().to_string()]);
    let line = answer.line("handshake_not_tried");
    assert!(line["hint"].as_str().unwrap().contains("port-forward"), "{line}");
    assert_eq!(answer.status, Some(0));

    for flags in [
        &["--webhook-address", "nowhere"][..],
        &["--pre", "--proxy"],
        &["-o", "yaml"],
    ] {
        assert_eq!(run(&kubeconfig, flags).status.code(), Some(2), "{flags:?}");
    }
}

/// What `openssl req -x509` makes: a server's certificate that is its own authority. The API server takes it.
#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_taken_where_the_api_server_takes_it() {
    let installation = Installation::new("127.108.0.0/16").await;
    installation.meshed("shop", "privileged").await;
    let (certificate, key) = own_authority();
    installation.webhook.write_certificate(&certificate, &key);
    installation.store(&certificate).await;
    let bundle = STANDARD.encode(&certificate);
    installation
        .reregister(|entry| entry["clientConfig"]["caBundle"] = bundle.into())
        .await;
    let kubeconfig = installation.kubeconfig();
    let well = async || Some(Answer::to(&kubeconfig, &[])).filter(|answer| answer.faults().is_empty());
    let answer = poll(LIMIT, well).await;
    let answer = answer.unwrap_or_else(|| panic!("{:#?}", Answer::to(&kubeconfig, &[])));
    for code in ["serving_certificate", "handshake", "dry_run_injected"] {
        assert!(answer.has(code), "{code}: {answer:#?}");
    }
}

/// The chart's default: the replicas look after the certificate, in a Secret of its own, with rights that others need not have.
#[tokio::test]
async fn where_the_replicas_look_after_the_certificate_their_secret_and_rights_are_looked_at() {
    let installation = Installation::new("127.109.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    let before = Answer::to(&kubeconfig, &[]);
    assert!(
        before.has("webhook_rights") && before.has("serving_certificate"),
        "{before:#?}"
    );

    let secret =
        json!({"metadata": {"name": "outrigger-certificates"}, "data": {"tls.crt": STANDARD.encode(expired())}});
    installation.create("/api/v1/namespaces/linkerd/secrets", &secret).await;
    let deployment = printed(&[
        "install",
        "--server-version=1.36",
        "--show-only=templates/deployment.yaml",
    ]);
    let deployment: Value = serde_saphyr::from_str(&deployment).unwrap();
    let path = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";
    installation.patch(path, &json!({"spec": deployment["spec"]})).await;
    let answer = Answer::to(&kubeconfig, &[]);
    assert!(answer.has("serving_certificate_expired"), "{answer:#?}");
    let said = answer.says("webhook_lacks_rights");
    for right in [
        "patch secrets/outrigger-certificates in linkerd",
        "patch mutatingwebhookconfigurations.admissionregistration.k8s.io/linkerd-proxy-injector-webhook-config",
    ] {
        assert!(said.lines().any(|line| line == right), "{right}: {said}");
    }

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rbac.yaml");
    let roles = printed(&["install", "--server-version=1.36", "--show-only=templates/rbac.yaml"]);
    fs::write(&file, roles).unwrap();
    let applied = installation
        .cluster
        .kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let answer = Answer::until(&kubeconfig, &[], "webhook_rights").await;
    assert!(answer.has("serving_certificate_expired"), "{answer:#?}");
}

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
