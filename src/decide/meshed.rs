//! Pods that have a proxy already: left alone, repaired in place, or denied where the proxy cannot do its work.
//!
//! The API server asks again about a pod that somebody changed after us (`reinvocationPolicy: IfNeeded`), and people feed
//! pods of an earlier injection through client libraries that drop what they do not know.

use super::{DenyReason, ranking};
use crate::config::annotation::{PROXY_VERSION, SETUP_IPTABLES};
use crate::inject::PROXY;
use crate::inject::patch::Patch;
use crate::pod::{Pod, container_name, integer, object, text};
use crate::policy::Release;
use serde_json::Value;

/// Whether `pod` carries the mark of an injection, Linkerd's or ours.
pub(super) fn is_ours(pod: &Pod<'_>) -> bool {
    pod.annotation(PROXY_VERSION).is_some()
}

/// Looks at the proxy of `pod`: what must be mended, as a patch that is mostly empty, or why the pod must not run.
pub(super) fn inspect(pod: &Pod<'_>, release: Release) -> Result<Patch, DenyReason> {
    let named = |container: &Value| container_name(container) == PROXY;
    if let Some(position) = pod.init_containers().iter().position(|container| named(container)) {
        return inspect_native(pod, position, release);
    }
    match pod.containers().iter().find(|container| named(container)) {
        Some(proxy) => inspect_container(pod, proxy).map(|()| Patch::default()),
        None => Ok(Patch::default()),
    }
}

/// A native sidecar is one by its restart policy, which a client library older than Kubernetes 1.28 drops: without it the
/// pod would wait for ever for the proxy to end.
fn inspect_native(pod: &Pod<'_>, position: usize, release: Release) -> Result<Patch, DenyReason> {
    let mut patch = Patch::default();
    let Some(proxy) = pod.init_containers().get(position) else {
        return Ok(patch);
    };
    inspect_container(pod, proxy)?;
    // Somebody else's container of that name is somebody else's to mend.
    if !is_ours(pod) {
        return Ok(patch);
    }
    if release < Release::NATIVE_SIDECARS {
        let why = format!("is an init container, and Kubernetes {release} has no native sidecars");
        return Err(DenyReason::BrokenProxy(why));
    }
    if text(proxy, "restartPolicy") != Some("Always") {
        patch.add(&format!("/spec/initContainers/{position}/restartPolicy"), "Always");
    }
    Ok(patch)
}

fn inspect_container(pod: &Pod<'_>, proxy: &Value) -> Result<(), DenyReason> {
    if text(proxy, "image").is_none_or(str::is_empty) {
        return Err(DenyReason::BrokenProxy("has no image".to_owned()));
    }
    let redirected = pod.annotation(SETUP_IPTABLES) != Some("false");
    let user = object(proxy, "securityContext").and_then(|context| integer(context, "runAsUser"));
    match user
        .filter(|_| redirected)
        .and_then(|user| Some((ranking::container_of_user(pod, user)?, user)))
    {
        Some((container, user)) => Err(DenyReason::UserClash {
            container: container.to_owned(),
            user,
        }),
        None => Ok(()),
    }
}
