//! From a new node to an uninstalled plugin.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::agent::{LIMIT, LIST, Node, install, kubectl};
use crate::cluster::{Cluster, Namespace, Options, Verb, call, poll, shared};
use crate::meshed;

const TAINTS: &str = r#"[{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"},
    {"key": "outrigger.linkerd.io/cni-not-ready", "effect": "NoSchedule"}]"#;

/// What the account of the plugin's credentials gets for a path.
async fn with_plugins_credentials(node: &Node, path: &str) -> u16 {
    with_credentials(node, "run/kubeconfig", path).await
}

/// What those of a file of the node get.
async fn with_credentials(node: &Node, file: &str, path: &str) -> u16 {
    let file = Kubeconfig::from_yaml(&node.text(file)).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    call(&client, Verb::Get, path, None).await.unwrap().code
}

#[tokio::test]
async fn a_new_node_becomes_ready_and_the_plugin_learns_about_its_pods_alone() {
    let cluster = shared().await;
    install(cluster);
    let client = cluster.client().await;
    let node = Node::create(cluster, &serde_json::from_str(TAINTS).unwrap()).await;
    let namespace = Namespace::create(&client, "facts", &[], &[]).await;
    for (name, node) in [("mine", node.name.as_str()), ("elsewhere", "another-node")] {
        let created = namespace.create_pod(&meshed(name, node)).await;
        assert!(created.accepted(), "{}", created.message());
    }
    let agent = node.start(cluster, &[]).await;
    node.ready(&agent).await;

    let untainted = async || (node.taints(cluster).await == ["ebs.csi.aws.com/agent-not-ready"]).then_some(());
    poll(LIMIT, untainted)
        .await
        .expect("the start-up taint goes, and no other");

    let ask = |name: &str| node.question(&json!({"namespace": namespace.name, "name": name, "sandbox": "s"}));
    let pod = ask("mine");
    assert_eq!(
        pod["pod"]["spec"]["initContainers"][1]["securityContext"]["runAsUser"], 2102,
        "{pod}"
    );
    assert!(!pod.to_string().contains("PRIVATE"), "{pod}");
    assert!(ask("elsewhere")["error"].is_string());
    // One that comes later is known before the plugin gives up.
    assert!(namespace.create_pod(&meshed("later", &node.name)).await.accepted());
    assert!(ask("later")["pod"].is_object());

    let mode = fs::metadata(node.path("run/kubeconfig")).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    assert_eq!(with_plugins_credentials(&node, &format!("{pods}/mine")).await, 200);
    assert_eq!(with_plugins_credentials(&node, &pods).await, 403);
    assert_eq!(
        with_plugins_credentials(&node, &format!("/api/v1/nodes/{}", node.name)).await,
        403
    );

    let metrics = node.ask("/metrics").await.1;
    for line in ["outrigger_cni_ready 1", "outrigger_cni_taints_removed_total 1"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert!(
        metrics.contains("outrigger_cni_credentials_expiry_timestamp_seconds "),
        "{metrics}"
    );
    assert!(!agent.log_tail().contains("ERROR"), "{}", agent.log_tail());
}

#[tokio::test]
async fn it_is_not_ready_while_an_add_would_fail() {
    let cluster = shared().await;
    install(cluster);
    let node = Node::create(cluster, &serde_json::from_str(TAINTS).unwrap()).await;
    fs::remove_file(node.path("net.d/10-net.conflist")).unwrap();
    let agent = node.start(cluster, &[]).await;
    let said = async |why: &str| {
        let found = poll(LIMIT, async || {
            let (status, body) = node.ask("/ready").await;
            (status == 500 && body.contains(why)).then_some(())
        });
        let found = found.await;
        assert!(found.is_some(), "{:?}; {}", node.ask("/ready").await, agent.log_tail());
    };
    said("no network configuration that can hold the plugin").await;
    assert_eq!(node.ask("/live").await.0, 200);
    assert_eq!(node.taints(cluster).await.len(), 2);
    fs::write(node.path("net.d/10-net.conflist"), LIST).unwrap();
    node.ready(&agent).await;
    // A program that is broken is put right, a folder that cannot hold it is said.
    fs::remove_dir_all(node.path("bin")).unwrap();
    said("outrigger-cni-api: No such file or directory").await;
    fs::create_dir(node.path("bin")).unwrap();
    node.ready(&agent).await;
    // Nobody else's file is touched, and ours comes back within seconds.
    fs::write(node.path("net.d/10-net.conflist"), LIST).unwrap();
    let back = async || {
        node.text("net.d/10-net.conflist")
            .contains("outrigger-cni")
            .then_some(())
    };
    poll(LIMIT, back).await.expect("the entry comes back");
}

#[tokio::test]
async fn a_token_file_is_copied_when_it_changes() {
    let cluster = shared().await;
    install(cluster);
    let node = Node::create(cluster, &json!([])).await;
    let file = node.path("token");
    fs::write(&file, "first-token\n").unwrap();
    let agent = node
        .start(cluster, &["--plugin-token-file", file.to_str().unwrap()])
        .await;
    node.ready(&agent).await;
    let has = |token: &str| {
        node.text("run/kubeconfig")
            .contains(&format!("\"token\": \"{token}\""))
            .then_some(())
    };
    poll(LIMIT, async || has("first-token"))
        .await
        .expect("the token is installed");
    fs::write(node.path("token.new"), "second-token\n").unwrap();
    fs::rename(node.path("token.new"), &file).unwrap();
    poll(LIMIT, async || has("second-token"))
        .await
        .expect("the new token is installed");
}

/// What an installed plugin consists of.
fn installed(node: &Node) -> [bool; 5] {
    let there = |name: &str| node.path(name).exists();
    let entry = node.text("net.d/10-net.conflist") != LIST;
    [
        entry,
        there("run/kubeconfig"),
        there("bin/outrigger-cni"),
        there("bin/outrigger-cni-api"),
        there("run/cni.sock"),
    ]
}

#[tokio::test]
async fn the_plugin_stays_while_its_daemon_set_does_and_goes_with_it() {
    // A server of its own: the DaemonSet goes.
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let node = Node::create(&cluster, &json!([])).await;
    install(&cluster);
    let agent = node.start(&cluster, &[]).await;
    node.ready(&agent).await;
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [true; 5]);
    let before = node.text("net.d/10-net.conflist");

    let agent = node.start(&cluster, &[]).await;
    node.ready(&agent).await;
    assert_eq!(node.text("net.d/10-net.conflist"), before);
    kubectl(
        &cluster,
        &[
            "-n",
            "linkerd-cni",
            "delete",
            "daemonset",
            "outrigger-cni",
            "--cascade=background",
        ],
    );
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [false; 5]);

    // Told so, without a question.
    let agent = node.start(&cluster, &["--remove-on-exit"]).await;
    node.ready(&agent).await;
    assert_eq!(installed(&node), [true; 5]);
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [false; 5]);
    let left: Vec<Value> = fs::read_dir(node.path("net.d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into())
        .collect();
    assert_eq!(left, ["10-net.conflist"]);
}

#[tokio::test]
async fn the_plugin_stays_while_the_agent_is_refused_and_goes_when_its_daemon_set_does() {
    // A server of its own: the accounts go.
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let node = Node::create(&cluster, &json!([])).await;
    install(&cluster);
    let delete = |what: &[&str]| kubectl(&cluster, &[&["-n", "linkerd-cni", "delete"], what].concat());

    let token = node.bound_token(&cluster).await;
    let agent = node.start_as(&cluster, &token, &[]);
    node.ready(&agent).await;
    delete(&["pod", "agent", "--force", "--grace-period=0"]);
    refused(&node, "agent-kubeconfig").await;
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [true; 5]);

    // Its account alone says nothing either.
    let agent = node.start(&cluster, &[]).await;
    node.ready(&agent).await;
    let accounts = ["serviceaccount", "outrigger-cni", "outrigger-cni-plugin"];
    delete(&accounts);
    for file in ["agent-kubeconfig", "run/kubeconfig"] {
        refused(&node, file).await;
    }
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [true; 5]);

    // All at once, and the DaemonSet last.
    install(&cluster);
    let agent = node.start(&cluster, &[]).await;
    node.ready(&agent).await;
    delete(&accounts);
    refused(&node, "agent-kubeconfig").await;
    delete(&["role", "outrigger-cni"]);
    delete(&["daemonset", "outrigger-cni", "--cascade=background"]);
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [false; 5]);
}

#[tokio::test]
async fn the_plugin_stays_when_the_api_server_has_lost_its_keys() {
    let mut cluster = Cluster::start(Options::default()).await.unwrap();
    let node = Node::create(&cluster, &json!([])).await;
    install(&cluster);
    let agent = node.start(&cluster, &[]).await;
    node.ready(&agent).await;
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(cluster.file("service-account.key"), key.serialize_pem()).unwrap();
    fs::write(cluster.file("service-account.pub"), key.public_key_pem()).unwrap();
    cluster.restart_api_server(Options::default()).await.unwrap();
    for file in ["agent-kubeconfig", "run/kubeconfig"] {
        refused(&node, file).await;
    }
    assert!(agent.stop().await.success());
    assert_eq!(installed(&node), [true; 5]);
}

/// Waits until the API server knows the token of `file` no more; it remembers for a while whom it knows.
async fn refused(node: &Node, file: &str) {
    let refused = async || (with_credentials(node, file, "/version/none").await == 401).then_some(());
    poll(LIMIT, refused)
        .await
        .expect("the API server knows the token no more");
}
