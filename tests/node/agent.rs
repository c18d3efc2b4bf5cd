//! The agent on the node: its process, its answers, and keeping it away.

use std::fs;

use serde_json::json;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::webhook::read;
use crate::cluster::{Verb, call};
use crate::eventually;
use crate::install::agent_is_ready;
use crate::node::Node;
use crate::process::{self, running};

/// Where the agent answers, `cni-admin` of its manifest.
const ADMIN: ([u8; 4], u16) = ([127, 0, 0, 1], 9996);

/// The image of the manifest, and one that nobody has.
const IMAGE: &str = "outrigger:0.1.0";
const NO_IMAGE: &str = "outrigger:none";

/// The number of the agent's process, as its machine sees it.
pub(crate) fn process(node: &Node) -> Option<u32> {
    running(node, &["/outrigger", "cni-agent"]).first().copied()
}

/// A file under `/proc` of the agent's process.
pub(crate) fn about(node: &Node, file: &str) -> String {
    process::read(node, process(node).expect("there is an agent"), file)
}

/// Kills the agent's process, which its kubelet starts again.
pub(crate) fn kill(node: &Node) {
    let process = process(node).expect("there is an agent");
    node.sandbox.run(&["sh", "-c", &format!("kill -s KILL {process}")]);
}

/// Has the agent go and none come in its place: a roll-out that goes wrong.
pub(crate) async fn keep_away(node: &Node) {
    set_image(node, NO_IMAGE);
    eventually("the agent is gone", async || {
        let pods = node.read("/api/v1/namespaces/linkerd-cni/pods").await;
        let pods = pods["items"].as_array().ok_or("the API server does not answer")?;
        let mut images = pods.iter().map(|pod| &pod["spec"]["containers"][0]["image"]);
        match images.all(|image| image == NO_IMAGE) && !pods.is_empty() && process(node).is_none() {
            true => Ok(()),
            false => Err(format!("{pods:?}")),
        }
    })
    .await;
}

/// Waits until the API server refuses the plugin's credentials; it remembers for a while that they were good.
pub(crate) async fn credentials_are_refused(node: &Node) {
    let text = fs::read_to_string(node.sandbox.path("/run/outrigger/kubeconfig")).expect("there are credentials");
    let file = Kubeconfig::from_yaml(&text).expect("they are a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("they are complete")).expect("they make a client");
    eventually("the plugin's credentials are refused", async || {
        let reply = call(&client, Verb::Get, "/api/v1/namespaces/default/pods/any", None).await;
        match reply.map_err(|error| error.to_string())? {
            reply if reply.code == 401 => Ok(()),
            reply => Err(reply.body.to_string()),
        }
    })
    .await;
}

/// Has the agent come back.
pub(crate) async fn bring_back(node: &Node) {
    set_image(node, IMAGE);
    // The pod that waits for its image would do so for minutes.
    node.kubectl(&["-n", "linkerd-cni", "delete", "pod", "--all", "--wait=false"]);
    agent_is_ready(node).await;
}

/// Installs what the agent needs, and its DaemonSet, but for the agent itself.
pub(crate) async fn announce(node: &Node) {
    for file in ["namespace.yaml", "rbac.yaml", "node-restriction.yaml"] {
        node.cluster.apply(&format!("cni-config/{file}"));
    }
    let file = crate::cluster::repository().join("cni-config/daemonset.yaml");
    let manifest = fs::read_to_string(file).expect("the manifest is there");
    let mut set: serde_json::Value = serde_saphyr::from_str(&manifest).expect("the manifest is YAML");
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(NO_IMAGE);
    node.apply(&set);
}

fn set_image(node: &Node, image: &str) {
    let container = format!("install-cni={image}");
    node.kubectl(&[
        "-n",
        "linkerd-cni",
        "set",
        "image",
        "daemonset/outrigger-cni",
        &container,
    ]);
}

/// What the agent answers to `path`; the status is 0 where it does not.
pub(crate) async fn ask(path: &str) -> (u16, String) {
    read(ADMIN.into(), path).await.unwrap_or_default()
}

/// Waits for an answer to `/ready` that has this status and these words.
pub(crate) async fn answers(status: u16, words: &str) {
    eventually(&format!("the agent answers {status} {words:?}"), async || {
        let (found, body) = ask("/ready").await;
        match found == status && body.contains(words) {
            true => Ok(()),
            false => Err(format!("{found} {body}")),
        }
    })
    .await;
}
