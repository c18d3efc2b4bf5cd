//! What the next pods of workloads would meet, what network policies do to them, and what runs.

use serde_json::{Value, json};

use crate::answer::{Answer, text};
use crate::cluster::{FailurePolicy, Namespace};
use crate::deployment;
use crate::installation::{ENFORCE, INJECT, Installation, post};

#[tokio::test]
async fn workloads_are_judged_by_what_their_next_pod_would_meet() {
    let installation = Installation::new("127.105.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    let shop = installation.meshed("shop", "privileged").await;
    post(&shop, "apis/apps/v1", "deployments", &deployment("web", &json!({}))).await;
    post(
        &shop,
        "apis/apps/v1",
        "daemonsets",
        &deployment("agent", &json!({"hostNetwork": true})),
    )
    .await;
    let answer = Answer::to(&kubeconfig, &[]);
    let said = answer.says("workload_left_alone");
    assert!(
        said.ends_with("shop/DaemonSet/agent: hostNetwork is enabled (host_network_enabled)"),
        "{said}"
    );
    assert_eq!((answer.status, answer.faults()), (Some(0), vec!["workload_left_alone"]));

    refused(&installation).await;
    users(&installation, &shop).await;
    network_policies(&installation, &shop).await;
    running_pods(&installation).await;
    many(&installation).await;
}

/// A namespace whose level refuses `linkerd-init`, and a workload that only fits where no plugin is.
async fn refused(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    let bare = json!({"metadata": {"name": "bare", "labels": {"kubernetes.io/os": "linux", "pool": "bare"}}});
    installation.create("/api/v1/nodes", &bare).await;
    let pinned = json!({"spec": {"template": {"spec": {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["bare"]}]}]}}}}}}});
    let path = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/outrigger-cni";
    installation.patch(path, &pinned).await;
    let bank = installation.meshed("bank", "baseline").await;
    let on_bare = json!({"nodeSelector": {"pool": "bare"}});
    post(&bank, "apis/apps/v1", "deployments", &deployment("ledger", &on_bare)).await;
    let answer = Answer::to(&kubeconfig, &["--namespace", "bank"]);
    assert_eq!(answer.status, Some(1));
    let said = answer.says("workload_refused");
    assert!(
        said.contains("bank/Deployment/ledger: ") && said.contains("(no_redirection_admitted)"),
        "{said}"
    );
    assert!(
        said.contains("linkerd-init") && said.contains("violates PodSecurity \"baseline:latest\""),
        "{said}"
    );
    let said = answer.says("cni_nodes_uncovered");
    assert!(said.ends_with("\nbare"), "{said}");
    let (_, printed) = text(&kubeconfig, &["--namespace", "bank"]);
    let row = printed.lines().find(|line| line.starts_with("  bank ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    let expected = [
        "bank",
        "Deployment/ledger",
        "deny",
        "none",
        "no",
        "baseline:latest",
        "label",
    ];
    assert_eq!(cells[..7], expected);
}

/// Containers that run as the proxy's user.
async fn users(installation: &Installation, shop: &Namespace) {
    let as_proxy = |name: &str| json!({"name": name, "image": "x", "securityContext": {"runAsUser": 2102}});
    let clash = json!({"containers": [as_proxy("web")]});
    post(shop, "apis/apps/v1", "deployments", &deployment("clash", &clash)).await;
    let exempt = json!({"initContainers": [as_proxy("setup")]});
    post(shop, "apis/apps/v1", "deployments", &deployment("exempt", &exempt)).await;
    let mut bare = deployment("bare", &exempt);
    bare["spec"]["template"]["metadata"]["annotations"] = json!({"linkerd.io/setup-iptables": "false"});
    post(shop, "apis/apps/v1", "deployments", &bare).await;
    let answer = Answer::to(&installation.kubeconfig(), &["--namespace", "shop"]);
    let said = answer.says("uid_clash");
    assert!(
        said.contains("shop/Deployment/clash: container \"web\" runs as user 2102"),
        "{said}"
    );
    let said = answer.says("uid_exempt_init_container");
    let expected = "warning: init containers of 1 workload run as the proxy's user\nshop/Deployment/exempt: setup";
    assert_eq!(said, expected, "nobody redirects the other one");
}

async fn network_policies(installation: &Installation, shop: &Namespace) {
    let policy = |name: &str, app: &str, ports: Value| {
        json!({"metadata": {"name": name}, "spec": {
            "podSelector": {"matchLabels": {"app": app}}, "ingress": [{"ports": ports}]}})
    };
    for policy in [
        policy("web-only", "web", json!([{"port": 8080}])),
        policy("with-proxy", "exempt", json!([{"port": 8080}, {"port": 4143}])),
        policy("nobody", "nobody", json!([{"port": 8080}])),
    ] {
        post(shop, "apis/networking.k8s.io/v1", "networkpolicies", &policy).await;
    }
    let answer = Answer::to(&installation.kubeconfig(), &["--namespace", "shop"]);
    let said = answer.says("network_policy_without_proxy_port");
    assert!(said.ends_with("\nshop/web-only: Deployment/web"), "{said}");
    let said = answer.says("network_policy_void");
    assert!(said.ends_with("\nshop/with-proxy: Deployment/exempt"), "{said}");
}

/// Pods that run without a proxy, with an old one, and with a debug container that passes the proxy by.
async fn running_pods(installation: &Installation) {
    let kubeconfig = installation.kubeconfig();
    let quiet = Namespace::create_named(&installation.client, "quiet", &[(ENFORCE, "privileged")], &[]).await;
    let pod = |name: &str, containers: Value| json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    post(
        &quiet,
        "api/v1",
        "pods",
        &pod("early", json!([{"name": "web", "image": "web"}])),
    )
    .await;
    let proxy = json!({"name": "linkerd-proxy", "image": "cr.l5d.io/linkerd/proxy:edge-25.1.1",
        "securityContext": {"runAsUser": 2102}});
    let web = json!({"name": "web", "image": "web", "securityContext": {"runAsUser": 2102}});
    post(&quiet, "api/v1", "pods", &pod("bare", json!([proxy, web]))).await;
    let mut old = pod("old", json!([proxy, {"name": "web", "image": "web"}]));
    old["spec"]["initContainers"] = json!([{"name": "linkerd-init", "image": "init"}]);
    post(&quiet, "api/v1", "pods", &old).await;
    let debug = json!({"name": "debug", "image": "x", "securityContext": {"runAsUser": 2102}});
    let path = "/api/v1/namespaces/quiet/pods/old/ephemeralcontainers";
    installation
        .patch(path, &json!({"spec": {"ephemeralContainers": [debug]}}))
        .await;
    let mut on_node = pod("on-node", json!([{"name": "web", "image": "web"}]));
    on_node["spec"]["hostNetwork"] = true.into();
    post(&quiet, "api/v1", "pods", &on_node).await;
    let mut mirror = pod("mirror", json!([{"name": "web", "image": "web"}]));
    mirror["spec"]["nodeName"] = "n1".into();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    post(&quiet, "api/v1", "pods", &mirror).await;
    let annotate = json!({"metadata": {"annotations": {INJECT.0: INJECT.1}}});
    installation.patch("/api/v1/namespaces/quiet", &annotate).await;

    let answer = Answer::to(&kubeconfig, &["--proxy", "--namespace", "quiet"]);
    assert_eq!(answer.status, Some(1), "{answer:#?}");
    let said = answer.says("pod_without_proxy");
    assert!(said.starts_with("warning: 1 running pod without a proxy"), "{said}");
    assert!(said.contains("\nquiet/early: created 2"), "{said}");
    let said = answer.says("pod_left_alone");
    assert!(
        said.ends_with("\nquiet/on-node: hostNetwork is enabled (host_network_enabled)"),
        "the mirror of a static pod is the kubelet's: {said}"
    );
    let said = answer.says("proxy_version_skew");
    assert!(said.contains("\nquiet/old: edge-25.1.1, not edge-26.11.1"), "{said}");
    let said = answer.says("running_uid_clash");
    assert_eq!(
        said, "failed: containers of 1 pod run as their proxy's user\nquiet/old: debug",
        "nobody redirects the other one"
    );
    assert!(answer.has("proxy_not_ready"), "{answer:#?}");
    assert!(
        !Answer::to(&kubeconfig, &[]).has("pod_without_proxy"),
        "only where it is asked for"
    );
}

/// Many workloads are counted, not listed.
async fn many(installation: &Installation) {
    installation.register(FailurePolicy::Ignore);
    let crowd = installation.meshed("crowd", "privileged").await;
    for number in 0..21 {
        post(
            &crowd,
            "apis/apps/v1",
            "deployments",
            &deployment(&format!("web-{number}"), &json!({})),
        )
        .await;
    }
    let (status, printed) = text(&installation.kubeconfig(), &["--namespace", "crowd"]);
    assert_eq!(status, Some(0), "{printed}");
    let rows: Vec<_> = printed
        .lines()
        .filter(|line| line.contains("privileged:latest"))
        .collect();
    let cells: Vec<_> = rows[0].split_whitespace().collect();
    assert_eq!(
        (rows.len(), &cells[..3]),
        (1, &["21", "crowd", "inject"][..]),
        "{printed}"
    );
}
