//! Before an installation: `--pre`.

use kube::Client;
use serde_json::{Value, json};

use crate::answer::{Answer, text};
use crate::cluster::{Cluster, Namespace, Options, Verb, call};
use crate::deployment;
use crate::installation::{ENFORCE, INJECT, post};

#[tokio::test]
async fn before_an_installation_one_is_told_what_it_takes() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let kubeconfig = cluster.kubeconfig();

    let answer = Answer::to(&kubeconfig, &["--pre"]);
    assert_eq!((answer.status, answer.faults()), (Some(1), vec!["linkerd_missing"]));
    let answer = Answer::to(&kubeconfig, &[]);
    let faults = answer.faults();
    assert!(
        faults.contains(&"webhook_not_registered") && faults.contains(&"injector_missing"),
        "{faults:?}"
    );

    let linkerd = Namespace::create_named(&client, "linkerd", &[], &[]).await;
    linkerd_runs(&linkerd).await;
    let answer = Answer::to(&kubeconfig, &["--pre"]);
    assert_eq!((answer.status, answer.faults()), (Some(0), vec![]), "{answer:#?}");
    let said = answer.says("linkerd_injector");
    assert!(
        said.contains("linkerd/linkerd-proxy-injector (edge-26.1.1) stays as it is"),
        "{said}"
    );
    assert_eq!(
        answer.says("may_install"),
        "ok: you may create all that an installation consists of\n"
    );

    for (name, level) in [("open", "privileged"), ("bank", "baseline")] {
        let namespace = Namespace::create_named(&client, name, &[(ENFORCE, level)], &[INJECT]).await;
        post(
            &namespace,
            "apis/apps/v1",
            "deployments",
            &deployment("web", &json!({})),
        )
        .await;
    }
    let answer = Answer::to(&kubeconfig, &["--pre"]);
    assert_eq!(answer.status, Some(1));
    let said = answer.says("cni_needed");
    assert!(
        said.starts_with("warning: 1 of 2 workloads that ask for the mesh need"),
        "{said}"
    );
    assert!(said.ends_with("bank/Deployment/web: baseline:latest"), "{said}");
    let quota = json!({"metadata": {"name": "all"}, "spec": {"hard": {"pods": "9"}}});
    let bank = Namespace::create_named(&client, "vault", &[], &[]).await;
    post(&bank, "api/v1", "resourcequotas", &quota).await;
    let said = Answer::to(&kubeconfig, &["--pre"]).says("policies_present");
    assert!(said.contains("1 ResourceQuota"), "{said}");
    bad_levels(&client, &kubeconfig).await;
    odd_nodes(&client, &kubeconfig).await;
}

/// Linkerd's own injector, and its values.
async fn linkerd_runs(linkerd: &Namespace) {
    let values = json!({"metadata": {"name": "linkerd-config"},
        "data": {"values": "linkerdVersion: edge-26.1.1\nidentityTrustAnchorsPEM: anchors\n"}});
    post(linkerd, "api/v1", "configmaps", &values).await;
    let mut injector = deployment("linkerd-proxy-injector", &json!({}));
    let container = &mut injector["spec"]["template"]["spec"]["containers"][0];
    container["image"] = "cr.l5d.io/linkerd/controller:edge-26.1.1".into();
    container["args"] = json!(["proxy-injector"]);
    post(linkerd, "apis/apps/v1", "deployments", &injector).await;
}

async fn bad_levels(client: &Client, kubeconfig: &std::path::Path) {
    Namespace::create_named(client, "linkerd-cni", &[(ENFORCE, "restricted")], &[]).await;
    let said = Answer::to(kubeconfig, &["--pre"]).says("plugin_namespace_level");
    assert!(
        said.starts_with("warning: linkerd-cni enforces restricted:latest"),
        "{said}"
    );
}

/// Nodes on which nothing can be redirected.
async fn odd_nodes(client: &Client, kubeconfig: &std::path::Path) {
    let node = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    for node in [
        node("fargate", json!({"eks.amazonaws.com/compute-type": "fargate"})),
        node("windows", json!({"kubernetes.io/os": "windows"})),
    ] {
        let reply = call(client, Verb::Create, "/api/v1/nodes", Some(&node)).await.unwrap();
        assert_eq!(reply.code, 201, "{}", reply.body);
    }
    let (status, printed) = text(kubeconfig, &["--pre"]);
    assert_eq!(status, Some(1));
    assert!(
        printed.contains("× neither redirection works on any of 2 nodes (platform_unsupported)\n"),
        "{printed}"
    );
    assert!(
        printed.contains("    fargate: AWS Fargate\n    windows: Windows\n"),
        "{printed}"
    );
}
