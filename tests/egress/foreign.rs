//! The resources of Linkerd and of the Gateway API.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cluster::built;

/// The definitions of Linkerd's, which are among the conformance cases of `folder`.
pub(crate) fn linkerd(folder: &Path) -> Vec<Value> {
    documents(&folder.join("crds/linkerd-policy.yaml"))
}

/// The definitions of a release of the Gateway API, its experimental channel.
pub(crate) fn gateway_api(release: &str) -> Vec<Value> {
    let folder = built("gateway-api").unwrap().join(release);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| documents(file)).collect()
}

/// The documents of a file.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents.retain(|document| !document.is_null());
    documents
}
