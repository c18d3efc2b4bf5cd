//! The charts, by the real helm, and the documents' steps as they are written, on a node that has pods to mesh.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Verb, call};
use crate::guide::{blocks, run, shell};
use crate::install::{
    agent, agent_is_gone, agent_is_ready, control_plane, no_pod_is_left, taint_is_gone, uninstall, webhook,
    webhook_is_called, webhook_is_ready,
};
use crate::life::network;
use crate::node::Node;
use crate::on_node;
use crate::pods::{Rules, address, application, deploy, marks, meshed_namespace, name, namespace, ready, rules};

/// Pods that are created while the webhook is rolled, at least.
const CREATED: usize = 200;

/// Namespaces of the sample application, and what they enforce.
const LEVELS: [(&str, Option<&str>); 2] = [("open", None), ("held", Some("restricted"))];

/// Deploys the sample application with a client of it, in a namespace without a level and in one that is `restricted`, and
/// waits until both are meshed and answer through their proxies.
async fn mesh_the_sample(node: &Node) {
    for (place, level) in LEVELS {
        match level {
            Some(level) => meshed_namespace(node, place, level).await,
            None => namespace(node, place, &json!({}), &json!({"linkerd.io/inject": "enabled"})).await,
        }
        for workload in ["web", "client"] {
            deploy(node, place, workload, &json!({}));
        }
    }
    for (place, _) in LEVELS {
        let (web, client) = (ready(node, place, "web").await, ready(node, place, "client").await);
        assert_eq!(rules(node, address(&web)), Rules::There, "{web}");
        let passed = marks(node, place, &client, address(&web));
        let expected = [("4140", &client), ("4143", &web)].map(|(port, pod)| format!("{port} {} for 8080", name(pod)));
        assert_eq!(passed, expected, "{place}");
    }
}

/// Creates pods, `least` of them and more until `condition` is met, and returns them. None is ever scheduled: it is the
/// creation that matters.
async fn create_pods(node: &Node, name: &str, least: usize, mut condition: impl FnMut() -> bool) -> Vec<Value> {
    let client = node.cluster.client().await;
    let mut created = Vec::new();
    while created.len() < least || !condition() {
        let mut spec = application("created");
        spec["schedulerName"] = "nobody".into();
        let pod = json!({"metadata": {"name": format!("{name}-{}", created.len())}, "spec": spec});
        let reply = call(&client, Verb::Create, "/api/v1/namespaces/open/pods", Some(&pod)).await;
        let reply = reply.expect("the API server answers");
        assert!(reply.accepted(), "pod {} of {name}: {}", created.len(), reply.body);
        created.push(reply.body);
    }
    created
}

/// Runs a block while pods are created, `least` at least; both must succeed.
async fn run_while_pods_are_created(node: &Node, block: &str, least: usize, pods: &str) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let mut child = shell(&node.cluster, block, folder.path()).spawn().unwrap();
    let mut ended = None;
    let created = create_pods(node, pods, least, || {
        ended = ended.or_else(|| child.try_wait().unwrap());
        ended.is_some()
    })
    .await;
    let status = ended.expect("pods are created until it has");
    assert!(status.success(), "{block}: {status}");
    created
}

fn is_meshed(pod: &Value) -> bool {
    pod["spec"].to_string().contains("\"linkerd-proxy\"")
}

#[test]
fn helm_installs_tests_upgrades_and_uninstalls_both_charts() {
    on_node(async |node| {
        uninstall(node).await;
        control_plane(node).await;
        let folder = TempDir::new().unwrap();
        for document in ["charts/outrigger-cni/README.md", "charts/outrigger/README.md"] {
            let blocks = blocks(document);
            assert_eq!(blocks.len(), 1, "{document}: {blocks:#?}");
            let printed = run(&node.cluster, &blocks[0], folder.path());
            assert!(
                printed.contains("STATUS: deployed") && printed.contains("Phase:          Succeeded"),
                "{printed}"
            );
        }
        agent_is_ready(node).await;
        webhook_is_ready(node).await;
        mesh_the_sample(node).await;

        let upgrade = |values: &str| {
            format!("helm upgrade outrigger charts/outrigger --namespace linkerd --wait --reuse-values --set {values}")
        };
        run(&node.cluster, &upgrade("webhook.failurePolicy=Fail"), folder.path());
        let rolled = run_while_pods_are_created(node, &upgrade("webhook.logLevel=debug"), CREATED, "rolled").await;
        println!("{} pods were created while the webhook was rolled", rolled.len());
        assert!(rolled.len() >= CREATED && rolled.iter().all(is_meshed));
        let arguments = node.kubectl(&[
            "-n",
            "linkerd",
            "get",
            "pods",
            "--output=jsonpath={.items[*].spec.containers[*].args}",
        ]);
        assert!(arguments.contains("--log-level=debug"), "{arguments}");

        // As docs/install.md says: an API server learns of the two deletions one by one.
        run(&node.cluster, &upgrade("webhook.failurePolicy=Ignore"), folder.path());
        for (release, place) in [("outrigger", "linkerd"), ("outrigger-cni", "linkerd-cni")] {
            let uninstall = format!("helm uninstall {release} --namespace {place} --wait");
            run_while_pods_are_created(node, &uninstall, 1, &format!("without-{release}")).await;
        }
        let [late] = &create_pods(node, "late", 1, || true).await[..] else {
            panic!("one was asked for");
        };
        assert!(!is_meshed(late), "{late}");
        agent_is_gone(node).await;
        deploy(node, "open", "plain", &json!({}));
        let plain = ready(node, "open", "plain").await;
        assert_eq!(rules(node, address(&plain)), Rules::Missing);
        put_back(node).await;
    });
}

#[test]
fn the_steps_of_the_readme_mesh_an_application() {
    on_node(async |node| {
        uninstall(node).await;
        control_plane(node).await;
        stand_in_injector(node);
        let folder = TempDir::new().unwrap();
        let steps = blocks("README.md");
        assert!(
            steps.len() == 2 && steps.iter().all(|step| step.contains("outrigger install")),
            "{steps:#?}"
        );
        for step in steps {
            run(&node.cluster, &step, folder.path());
        }
        agent_is_ready(node).await;
        taint_is_gone(node).await;
        webhook_is_ready(node).await;
        webhook_is_called(node).await;
        mesh_the_sample(node).await;

        let guide = blocks("docs/install.md");
        let away = guide
            .iter()
            .find(|block| block.contains("outrigger uninstall"))
            .unwrap();
        run(&node.cluster, away, folder.path());
        agent_is_gone(node).await;
        deploy(node, "open", "plain", &json!({}));
        let plain = ready(node, "open", "plain").await;
        assert_eq!(rules(node, address(&plain)), Rules::Missing);
        put_back(node).await;
    });
}

/// A Deployment of the name of Linkerd's injector, which the steps take away.
fn stand_in_injector(node: &Node) {
    let labels = json!({"linkerd.io/control-plane-component": "proxy-injector"});
    let metadata = json!({"name": "linkerd-proxy-injector", "namespace": "linkerd", "labels": labels});
    let template = json!({"metadata": {"labels": labels}, "spec": application("proxy-injector")});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    node.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}));
}

/// Checks that pods end without the agent and that the runtime is left as it was, and installs what the other tests need.
async fn put_back(node: &Node) {
    node.kubectl(&["delete", "namespace", "open", "held", "linkerd", "linkerd-cni"]);
    no_pod_is_left(node).await;
    assert_eq!(network(node), node.network);
    agent(node).await;
    webhook(node).await;
}
