//! With few rights, what is unknown is said by name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::answer::Answer;
use crate::deployment;
use crate::installation::{Installation, VALUES, post};

#[tokio::test]
async fn what_may_not_be_read_is_unknown() {
    let installation = Installation::new("127.104.0.0/16").await;
    let shop = installation.meshed("shop", "privileged").await;
    post(&shop, "apis/apps/v1", "deployments", &deployment("web", &json!({}))).await;
    let folder = TempDir::new().unwrap();
    let as_user = |user: &str| kubeconfig(&installation, folder.path(), user);

    let stranger = Answer::to(&as_user("stranger"), &[]);
    assert_eq!(stranger.status, Some(1), "{stranger:#?}");
    let unreadable = stranger
        .faults()
        .into_iter()
        .filter(|code| *code == "not_readable")
        .count();
    assert!(unreadable > 10, "{stranger:#?}");
    let said = stranger.says("not_readable");
    assert!(
        said.starts_with(
            "failed: namespaces cannot be read, so unknown: which workloads ask for the mesh\nnamespaces is forbidden: "
        ),
        "{said}"
    );
    assert!(!stranger.has("webhook_not_registered") && !stranger.has("injector_missing"));
    let (pre, missing) = (
        Answer::to(&as_user("stranger"), &["--pre"]),
        "create deployments.apps in linkerd",
    );
    assert!(pre.says("may_not_install").contains(missing), "{pre:#?}");

    let said = stranger.says("workloads_none");
    assert!(
        said.starts_with("unknown: no workload asks for the mesh; not looked at: namespaces, "),
        "{said}"
    );

    // Whoever may see one namespace is told about that one.
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        {"apiGroups": ["apps", "batch", "networking.k8s.io"], "resources": ["*"], "verbs": ["list"]},
    ]);
    grant(&installation, "developer", &rules).await;
    let answer = Answer::to(&as_user("developer"), &["--namespace", "shop"]);
    assert_eq!(answer.status, Some(0), "{answer:#?}");
    assert!(
        answer.has("workloads_admitted") && answer.has("network_policies"),
        "{answer:#?}"
    );
    assert_eq!(answer.json["workloads"][0]["workload"], "Deployment/web");
    let said = answer.says("dry_run_not_tried");
    assert!(said.contains("cannot create resource \"pods\""), "{said}");
    let unknown: Vec<_> = answer.json["checks"].as_array().unwrap().iter().collect();
    let nodes = unknown
        .iter()
        .find(|line| line["message"].as_str().unwrap().starts_with("nodes cannot be read"));
    assert!(nodes.is_some_and(|line| line["status"] == "unknown"), "{answer:#?}");

    assert_eq!(answer.json["workloads"][0]["redirection"], "init-container");
    with_a_role_in_one_namespace(&installation, &as_user("owner")).await;
    let values = json!({"data": {"values": "linkerdVersion: edge-26.11.1\ncniEnabled: true\n"}});
    let path = "/api/v1/namespaces/linkerd/configmaps/linkerd-config";
    installation.patch(path, &values).await;
    let declared = Answer::to(&as_user("developer"), &["--namespace", "shop"]);
    assert_eq!(
        declared.json["workloads"][0]["reason"], "cni_covers_every_node",
        "the values say what no node can: {declared:#?}"
    );

    the_webhooks_own(&installation).await;
    let nobody = TempDir::new().unwrap();
    let missing = Answer::to(&nobody.path().join("none"), &[]);
    assert_eq!(missing.status, Some(2), "{}", missing.said);
}

/// Whoever may do everything in one namespace, and nothing elsewhere.
async fn with_a_role_in_one_namespace(installation: &Installation, kubeconfig: &Path) {
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "owner"}, "rules": all});
    let place = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    installation.create(&format!("{place}/roles"), &role).await;
    let binding = json!({
        "metadata": {"name": "owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "owner"}],
    });
    installation.create(&format!("{place}/rolebindings"), &binding).await;
    let agent = deployment("agent", &json!({}));
    installation
        .create("/apis/apps/v1/namespaces/shop/daemonsets", &agent)
        .await;

    let answer = Answer::to(kubeconfig, &["--namespace", "shop", "--proxy"]);
    assert_eq!(answer.status, Some(0), "{answer:#?}");
    let workloads: Vec<_> = answer.json["workloads"].as_array().unwrap().iter().collect();
    let found: Vec<_> = workloads.iter().map(|it| it["workload"].as_str().unwrap()).collect();
    assert_eq!(found, ["Deployment/web", "DaemonSet/agent"], "{answer:#?}");
    let all = answer.json["checks"].as_array().unwrap();
    let withheld = all.iter().filter(|line| line["code"] == "not_readable");
    let withheld: Vec<_> = withheld.map(|line| line["message"].as_str().unwrap()).collect();
    assert!(
        withheld.contains(&"deployments of linkerd cannot be read, so unknown: the injector's Deployment"),
        "{withheld:#?}"
    );
    assert!(
        !withheld.iter().any(|line| line.contains("their pods")),
        "{withheld:#?}"
    );
    // What the webhook decides cannot be foretold from here, and differs from nothing.
    let said = answer.says("dry_run_injected");
    assert_eq!(said, "ok: a pod in shop is injected, with cni\n", "{answer:#?}");
    assert!(answer.has("proxies_present"), "{answer:#?}");
}

/// The webhook's account loses a right.
async fn the_webhooks_own(installation: &Installation) {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/linkerd-linkerd-proxy-injector";
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}]);
    installation.patch(path, &json!({"rules": rules})).await;
    for namespace in ["linkerd", "linkerd-cni"] {
        let deleted =
            installation
                .cluster
                .kubectl(["--namespace", namespace, "delete", "role", "linkerd-proxy-injector"]);
        assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    }
    let values = json!({"data": {"values": VALUES}});
    let path = "/api/v1/namespaces/linkerd/configmaps/linkerd-config";
    installation.patch(path, &values).await;
    let answer = Answer::until(&installation.kubeconfig(), &[], "webhook_lacks_rights").await;
    let said = answer.says("webhook_lacks_rights");
    assert!(
        said.starts_with("warning: linkerd/linkerd-proxy-injector lacks "),
        "{said}"
    );
    for right in [
        "list nodes",
        "watch configmaps/outrigger-probe-findings in linkerd",
        "list pods in linkerd-cni",
    ] {
        assert!(said.lines().any(|line| line == right), "{right}: {said}");
    }
    // Nobody needs what this server has not.
    assert!(!said.contains("policy") && !said.contains("roles"), "{said}");
}

async fn grant(installation: &Installation, user: &str, rules: &Value) {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": user}, "rules": rules});
    installation.create(&format!("{RBAC}/clusterroles"), &role).await;
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    installation
        .create(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await;
}

/// The cluster's kubeconfig, in which one acts as `user`.
fn kubeconfig(installation: &Installation, folder: &Path, user: &str) -> PathBuf {
    let text = fs::read_to_string(installation.kubeconfig()).unwrap();
    let mut configuration: Value = serde_json::from_str(&text).unwrap();
    configuration["users"][0]["user"]["as"] = user.into();
    let file = folder.join(format!("{user}.json"));
    fs::write(&file, configuration.to_string()).unwrap();
    file
}
