//! A healthy installation has nothing but ticks, and prints what the documentation shows.

use std::fs;

use serde_json::json;

use crate::answer::{Answer, text};
use crate::cluster::repository;
use crate::deployment;
use crate::installation::{Installation, post};

#[tokio::test]
async fn a_healthy_installation_is_all_ticks() {
    let installation = Installation::new("127.101.0.0/16").await;
    let shop = installation.meshed("shop", "baseline").await;
    post(&shop, "apis/apps/v1", "deployments", &deployment("web", &json!({}))).await;
    post(&shop, "apis/apps/v1", "statefulsets", &deployment("ledger", &json!({}))).await;
    let kubeconfig = installation.kubeconfig();

    let answer = Answer::until(&kubeconfig, &["--proxy"], "dry_run_injected").await;
    assert_eq!(answer.faults(), [""; 0], "{answer:#?}");
    assert_eq!((answer.status, answer.said.as_str()), (Some(0), ""));
    assert_eq!(answer.json["status"], "ok");
    for code in [
        "api_server",
        "native_sidecars",
        "linkerd_configuration",
        "injector_running",
        "injector_version",
        "webhook_rights",
        "ca_bundle",
        "serving_certificate",
        "handshake",
        "trust_anchors",
        "webhook_registered",
        "selector_fits",
        "no_deadlock",
        "webhook_order",
        "cni_ready",
        "workloads_admitted",
        "network_policies",
        "proxies_present",
    ] {
        assert!(answer.has(code), "{code}: {answer:#?}");
    }
    let workload = &answer.json["workloads"][0];
    let expected = json!({
        "workload": "StatefulSet/ledger", "namespace": "shop", "outcome": "inject", "reason": "cni_covers_every_node",
        "message": "the CNI plugin is on every node that the pod can land on", "redirection": "cni", "admitted": true,
        "policy": "baseline:latest", "learned_from": "label", "objections": [], "warnings": [],
    });
    assert_eq!(*workload, expected);

    as_documented(&installation, "<!-- healthy -->\n```console\n$ outrigger check\n", &[]);
    let restricted = json!({"containers": [{"name": "web", "image": "web", "securityContext": {"runAsUser": 2102}}]});
    post(&shop, "apis/apps/v1", "deployments", &deployment("clash", &restricted)).await;
    as_documented(
        &installation,
        "<!-- refused -->\n```console\n$ outrigger check --namespace shop\n",
        &["--namespace", "shop"],
    );
}

/// Compares what is printed with what the documentation shows after `start`. Addresses are the test's own.
fn as_documented(installation: &Installation, start: &str, flags: &[&str]) {
    let (_, printed) = text(&installation.kubeconfig(), flags);
    let printed = printed.replace(&installation.address, "10.96.0.10:443");
    let printed: Vec<_> = printed.lines().map(without_days).collect();
    let document = fs::read_to_string(repository().join("docs/check.md")).unwrap();
    let shown = document.split(start).nth(1).unwrap_or_else(|| panic!("no {start}"));
    let shown: Vec<_> = shown.split("```\n").next().unwrap().lines().map(without_days).collect();
    assert_eq!(
        shown,
        printed,
        "docs/check.md shows another text:\n{}",
        printed.join("\n")
    );
}

/// The line with another number of days, which grow fewer.
fn without_days(line: &str) -> String {
    let Some((before, after)) = line.split_once(" days") else {
        return line.to_owned();
    };
    let kept = before.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("{kept}N days{after}")
}
