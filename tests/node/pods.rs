//! Workloads, and what has become of them.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

use outrigger::redirect::apply::{self, Mode, Options, redirects_inbound};
use serde_json::{Value, json};

use crate::cluster::webhook::read;
use crate::eventually;
use crate::image::POD;
use crate::node::{Node, condition};
use crate::sandbox::{enter, try_enter};

/// The port of every application.
pub(crate) const PORT: u16 = 8080;

/// The rules of a pod, by what its network namespace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    There,
    Missing,
}

/// Makes a namespace and waits for the account that its pods run as.
pub(crate) async fn namespace(node: &Node, name: &str, labels: &Value, annotations: &Value) {
    let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
    node.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    eventually("the namespace has an account", async || {
        let account = node
            .read(&format!("/api/v1/namespaces/{name}/serviceaccounts/default"))
            .await;
        if account.is_null() {
            Err(name.to_owned())
        } else {
            Ok(())
        }
    })
    .await;
}

/// A namespace whose pods are meshed, at a level of Pod Security.
pub(crate) async fn meshed_namespace(node: &Node, name: &str, level: &str) {
    let labels = json!({"pod-security.kubernetes.io/enforce": level});
    namespace(node, name, &labels, &json!({"linkerd.io/inject": "enabled"})).await;
}

/// The specification of a pod that answers on [`PORT`] and is `restricted`.
pub(crate) fn application(name: &str) -> Value {
    json!({
        "containers": [{
            "name": name,
            "image": POD,
            "imagePullPolicy": "Never",
            "args": ["serve", PORT.to_string()],
            "ports": [{"containerPort": PORT}],
            "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": true,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }],
        "terminationGracePeriodSeconds": 1,
    })
}

/// Deploys [`application`] once, with annotations on its pod.
pub(crate) fn deploy(node: &Node, namespace: &str, name: &str, annotations: &Value) {
    node.apply(&json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": application(name),
            },
        },
    }));
}

/// The pod of the deployment `name`, which has one.
pub(crate) async fn pod_of(node: &Node, namespace: &str, name: &str) -> Result<Value, String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}");
    let pods = node.read(&path).await;
    let pods = pods["items"].as_array().ok_or("the API server does not answer")?;
    let living = pods.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    living.cloned().ok_or_else(|| format!("{namespace}/{name} has no pod"))
}

/// Waits until the pod of the deployment `name` is ready.
pub(crate) async fn ready(node: &Node, namespace: &str, name: &str) -> Value {
    eventually(&format!("{namespace}/{name} is ready"), async || {
        let pod = pod_of(node, namespace, name).await?;
        if condition(&pod, "Ready") {
            Ok(pod)
        } else {
            Err(pod["status"].to_string())
        }
    })
    .await
}

/// The name of a pod.
pub(crate) fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().expect("a pod has a name")
}

/// The address of a pod.
pub(crate) fn address(pod: &Value) -> IpAddr {
    let address = pod["status"]["podIP"].as_str().expect("the pod has an address");
    address.parse().expect("an address is one")
}

/// The network namespace of the pod that has this address now.
pub(crate) fn namespace_of(node: &Node, address: IpAddr) -> Option<PathBuf> {
    let namespaces = fs::read_dir(node.sandbox.path("/run/netns"))
        .into_iter()
        .flatten()
        .flatten();
    let mut paths = namespaces.map(|entry| entry.path());
    paths.find(|path| try_enter(path, || UdpSocket::bind((address, 0)).is_ok()) == Some(true))
}

/// Whether the pod with this address has redirect rules.
pub(crate) fn rules(node: &Node, address: IpAddr) -> Rules {
    let namespace = namespace_of(node, address).unwrap_or_else(|| panic!("no pod has the address {address}"));
    match try_enter(&namespace, redirects_inbound).flatten() {
        Some(true) => Rules::There,
        Some(false) => Rules::Missing,
        None => panic!("the rules in {} cannot be told", namespace.display()),
    }
}

/// Takes the rules of the pod with this address away.
pub(crate) fn remove_rules(node: &Node, address: IpAddr) {
    let namespace = namespace_of(node, address).expect("the pod has a network");
    let options = Options {
        mode: Mode::Auto,
        ..Options::default()
    };
    enter(&namespace, || apply::remove(options)).expect("rules can be removed");
}

/// The marks that proxies left on a request from the pod `client` to the application at `server`, in order.
pub(crate) fn marks(node: &Node, namespace: &str, client: &Value, server: IpAddr) -> Vec<String> {
    let url = format!("http://{server}:{PORT}/");
    let containers = client["spec"]["containers"].as_array().into_iter().flatten();
    let mut names = containers.filter_map(|container| container["name"].as_str());
    let container = names
        .find(|name| *name != "linkerd-proxy")
        .expect("the pod has an application");
    let answer = node.kubectl(&[
        "-n",
        namespace,
        "exec",
        name(client),
        "-c",
        container,
        "--",
        "/pod",
        "get",
        &url,
    ]);
    answer
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The marks on a request from the node itself to the application at `server`.
pub(crate) async fn marks_at(server: IpAddr) -> Result<Vec<String>, String> {
    let answer = read((server, PORT).into(), "/").await;
    let (status, text) = answer.map_err(|error| error.to_string())?;
    let marks = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    if status == 200 {
        Ok(marks)
    } else {
        Err(format!("{status} {text}"))
    }
}
