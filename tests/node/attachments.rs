//! What the container runtime remembers of the pods that it set up: libcni's results on the node.
//!
//! This is known without an API server.

use std::fs;
use std::net::IpAddr;

use serde_json::Value;

use crate::eventually;
use crate::node::{NETWORK_NAME, Node};

/// A pod's sandbox that is attached to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Of the sandbox; containerd's task has the same.
    pub(crate) id: String,
    pub(crate) address: IpAddr,
    /// `namespace/name`.
    pod: String,
}

/// The attachments of the pods whose name begins with `name`.
fn of(node: &Node, namespace: &str, name: &str) -> Vec<Attachment> {
    let folder = fs::read_dir(node.sandbox.path("/var/lib/cni/results"))
        .into_iter()
        .flatten()
        .flatten();
    let texts = folder.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let documents = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    let wanted = format!("{namespace}/{name}");
    documents
        .filter_map(|document| read(&document))
        .filter(|found| found.pod.starts_with(&wanted))
        .collect()
}

fn read(document: &Value) -> Option<Attachment> {
    let argument = |name: &str| {
        let mut arguments = document["cniArgs"].as_array()?.iter();
        arguments.find(|pair| pair[0] == name)?[1].as_str().map(str::to_owned)
    };
    // The loop-back device of a sandbox is a network, too.
    if document["networkName"] != NETWORK_NAME {
        return None;
    }
    let address = document["result"]["ips"][0]["address"].as_str()?;
    Some(Attachment {
        id: document["containerId"].as_str()?.to_owned(),
        address: address.split('/').next()?.parse().ok()?,
        pod: format!("{}/{}", argument("K8S_POD_NAMESPACE")?, argument("K8S_POD_NAME")?),
    })
}

/// Whether no pod whose name begins with `name` is attached.
pub(crate) fn none(node: &Node, namespace: &str, name: &str) -> bool {
    of(node, namespace, name).is_empty()
}

/// Waits for the attachment of the one pod whose name begins with `name`, which is none of `old`.
pub(crate) async fn one(node: &Node, namespace: &str, name: &str, old: &[Attachment]) -> Attachment {
    eventually(&format!("{namespace}/{name} is attached"), async || {
        let found = of(node, namespace, name);
        let mut new = found.iter().filter(|found| !old.contains(found));
        new.next().cloned().ok_or_else(|| format!("{found:?}"))
    })
    .await
}
