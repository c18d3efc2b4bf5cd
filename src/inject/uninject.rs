//! Taking out of a manifest what injection put in, by whichever version of Linkerd or of this program.
//!
//! The rest of the pod is left as it is, mounts and environment of the application included. `linkerd.io/inject:
//! disabled` stays, because its author wrote it. Configuration annotations (`config.linkerd.io/…`) stay as well: they
//! say how to inject, not that it was done. Applying this twice changes nothing more.

use super::{DEBUG, NETWORK_VALIDATOR, PROXY, PROXY_INIT, volumes};
use crate::config::annotation::{CNI_RESOURCE, CONTROL_PLANE_COMPONENT, INJECT, NODE_SELECTOR, OWNER_NAME};
use crate::config::values::LOCK_VOLUME;
use crate::pod::label::SERVICE_ACCOUNT;
use crate::pod::workload::Kind;
use crate::pod::{Pod, container_name, list, text};
use serde_json::{Map, Value};

/// Containers that injection adds.
const CONTAINERS: [&str; 4] = [PROXY, PROXY_INIT, NETWORK_VALIDATOR, DEBUG];

/// Volumes that injection adds under names of its own; the last two are those of Linkerd before 2.3, whose TLS was optional.
const VOLUMES: [&str; 6] = [
    volumes::END_ENTITY,
    volumes::IDENTITY_TOKEN,
    volumes::PODINFO,
    LOCK_VOLUME,
    "linkerd-trust-anchors",
    "linkerd-secrets",
];

/// Keys that mark parts of Linkerd, and say nothing of injection.
const MARKS: [&str; 4] = [
    CNI_RESOURCE,
    "linkerd.io/extension",
    "linkerd.io/helm-release-version",
    "linkerd.io/is-control-plane",
];

/// Where the proxy has its files. What is mounted below is the proxy's, whatever its name: that of the downward API was
/// `podinfo` for a time, and anybody may call a volume so.
const PROXY_FILES: [&str; 2] = ["var/run/linkerd/", "var/run/secrets/tokens"];

/// Takes injection out of `object`. Returns whether it held a container or an annotation of injection's; labels alone
/// do not count, as they do not for Linkerd.
pub fn uninject(object: &mut Value) -> bool {
    let Some(kind) = Kind::of(object) else { return false };
    let pointer = kind.template_pointer();
    // The annotation that tells of it goes with the others.
    if let Some(template) = pointer.and_then(|pointer| object.pointer_mut(pointer)) {
        clear_node_selector(template);
    }
    let mut found = clear_metadata(object);
    if let Some(template) = pointer.and_then(|pointer| object.pointer_mut(pointer)) {
        found |= kind != Kind::Pod && clear_metadata(template);
        found |= template.get_mut("spec").is_some_and(clear_spec);
    }
    found
}

/// Takes the entry out of the node selector that the annotation names, and the selector with the last of them.
fn clear_node_selector(template: &mut Value) {
    let key = Pod::new(template).annotation(NODE_SELECTOR).map(str::to_owned);
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    let (Some(key), Some(spec)) = (key, spec) else { return };
    if let Some(selector) = spec.get_mut("nodeSelector").and_then(Value::as_object_mut) {
        selector.remove(&key);
        if selector.is_empty() {
            spec.remove("nodeSelector");
        }
    }
}

/// Takes out annotations and labels, unless the object is part of the control plane, whose labels are its own.
fn clear_metadata(object: &mut Value) -> bool {
    let Some(metadata) = object.get_mut("metadata") else {
        return false;
    };
    let labels = metadata.get("labels");
    if labels.is_some_and(|labels| labels.get(CONTROL_PLANE_COMPONENT).is_some()) {
        return false;
    }
    clear_entries(metadata, "labels");
    clear_entries(metadata, "annotations")
}

/// Takes entries of injection's out of the map `key`, and the map with the last of them.
fn clear_entries(metadata: &mut Value, key: &str) -> bool {
    let ours = |key: &str, value: &Value| {
        let written = key.starts_with("linkerd.io") || [OWNER_NAME, NODE_SELECTOR, SERVICE_ACCOUNT].contains(&key);
        written && !MARKS.contains(&key) && !(key == INJECT && value == "disabled")
    };
    let Some(map) = metadata.as_object_mut() else {
        return false;
    };
    let Some(entries) = map.get_mut(key).and_then(Value::as_object_mut) else {
        return false;
    };
    let before = entries.len();
    entries.retain(|key, value| !ours(key, value));
    let (emptied, found) = (entries.is_empty(), entries.len() < before);
    if emptied && found {
        map.remove(key);
    }
    found
}

/// Takes out containers and volumes.
fn clear_spec(spec: &mut Value) -> bool {
    let own: Vec<String> = own_volumes(spec).map(str::to_owned).collect();
    let Some(spec) = spec.as_object_mut() else { return false };
    let mut found = false;
    for key in ["initContainers", "containers"] {
        found |= clear_list(spec, key, |container| CONTAINERS.contains(&container_name(container)));
    }
    let mounted: Vec<String> = mounts(spec).map(str::to_owned).collect();
    clear_list(spec, "volumes", |volume| {
        let name = text(volume, "name").unwrap_or_default();
        VOLUMES.contains(&name) || own.iter().any(|own| own == name) && !mounted.iter().any(|it| it == name)
    });
    found
}

/// Takes the items that are `ours` out of the list `key`, and the list with the last of them.
fn clear_list(spec: &mut Map<String, Value>, key: &str, ours: impl Fn(&Value) -> bool) -> bool {
    let Some(items) = spec.get_mut(key).and_then(Value::as_array_mut) else {
        return false;
    };
    let before = items.len();
    items.retain(|item| !ours(item));
    let (emptied, found) = (items.is_empty(), items.len() < before);
    if emptied && found {
        spec.remove(key);
    }
    found
}

/// The volumes that are injection's where nobody else mounts them: those of the proxy's files, and the empty ones of
/// `linkerd-init`, one of which is the lock, whose name the values may change.
fn own_volumes(spec: &Value) -> impl Iterator<Item = &str> {
    let empty = |name: &str| {
        list(spec, "volumes").any(|volume| text(volume, "name") == Some(name) && volume.get("emptyDir").is_some())
    };
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|key| list(spec, key));
    let mounts = containers
        .filter(|container| CONTAINERS.contains(&container_name(container)))
        .flat_map(|container| list(container, "volumeMounts").map(move |mount| (container, mount)));
    mounts.filter_map(move |(container, mount)| {
        let (name, path) = (text(mount, "name")?, text(mount, "mountPath").unwrap_or_default());
        let of_proxy = PROXY_FILES
            .iter()
            .any(|files| path.trim_start_matches('/').starts_with(files));
        let lock = || container_name(container) == PROXY_INIT && empty(name);
        (of_proxy || lock()).then_some(name)
    })
}

/// The names of the volumes that containers mount.
fn mounts(spec: &Map<String, Value>) -> impl Iterator<Item = &str> {
    ["initContainers", "containers"]
        .into_iter()
        .filter_map(|key| spec.get(key)?.as_array())
        .flatten()
        .flat_map(|container| list(container, "volumeMounts"))
        .filter_map(|mount| text(mount, "name"))
}

#[cfg(test)]
mod tests;
