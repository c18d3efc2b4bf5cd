//! The checks that the restricted level adds, but for profiles.

use serde_json::Value;

use super::baseline::{finding, masked_proc_mount};
use super::evaluation::Finding;
use super::subject::{Subject, strings};
use super::wording::{containers, plural, quoted, setters};
use crate::pod;

/// Volume sources that a volume must have one of.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Other volume sources, in the order in which a volume that has several is named after one.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// `allowPrivilegeEscalation`
pub(super) fn allow_privilege_escalation(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_for_windows() {
        return None;
    }
    let names = subject.containers_where(|container| container.flag("allowPrivilegeEscalation") != Some(false));
    finding(&names, "allowPrivilegeEscalation != false", || {
        format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&names)
        )
    })
}

/// `capabilities_restricted`
pub(super) fn capabilities(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_for_windows() {
        return None;
    }
    let keeping = subject.containers_where(|container| {
        let mut dropped = strings(container.setting("capabilities"), "drop");
        !dropped.any(|capability| capability == "ALL")
    });
    let adding = subject.offenders(|container| {
        let added = strings(container.setting("capabilities"), "add");
        added.filter(|&added| added != "NET_BIND_SERVICE")
    });
    if keeping.is_empty() && adding.names.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if !keeping.is_empty() {
        parts.push(format!(
            r#"{} must set securityContext.capabilities.drop=["ALL"]"#,
            containers(&keeping)
        ));
    }
    if !adding.names.is_empty() {
        let (who, what) = (containers(&adding.names), quoted(&adding.values));
        parts.push(format!(
            "{who} must not include {what} in securityContext.capabilities.add"
        ));
    }
    Some(Finding {
        reason: "unrestricted capabilities",
        detail: parts.join("; "),
    })
}

/// `procMount_restricted`: a user namespace spares no pod.
pub(super) fn proc_mount(subject: &Subject<'_>) -> Option<Finding> {
    masked_proc_mount(subject)
}

/// `restrictedVolumes`
pub(super) fn volumes(subject: &Subject<'_>) -> Option<Finding> {
    // Image volumes are allowed by the server's release, whatever the policy version.
    let images = subject.server.since(33);
    let has = |volume: &Value, key: &str| pod::object(volume, key).is_some();
    let allowed = |volume: &Value| VOLUMES.iter().any(|key| has(volume, key)) || images && has(volume, "image");
    let bad: Vec<_> = subject
        .pod
        .volumes()
        .iter()
        .copied()
        .filter(|volume| !allowed(volume))
        .collect();
    finding(&bad, "restricted volume types", || {
        let kind = |volume| {
            OTHER_VOLUMES
                .into_iter()
                .find(|key| has(volume, key))
                .unwrap_or("unknown")
        };
        let mut kinds: Vec<_> = bad.iter().map(|volume| kind(volume)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let names = bad.iter().map(|volume| pod::text(volume, "name").unwrap_or_default());
        let (noun, uses) = (plural(bad.len(), "volume", "volumes"), plural(bad.len(), "uses", "use"));
        let types = plural(kinds.len(), "restricted volume type", "restricted volume types");
        format!("{noun} {} {uses} {types} {}", quoted(names), quoted(kinds))
    })
}

/// `runAsNonRoot`
pub(super) fn run_as_non_root(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_in_user_namespace(29) {
        return None;
    }
    let reason = "runAsNonRoot != true";
    let of_pod = subject
        .pod
        .security_context()
        .and_then(|context| pod::boolean(context, "runAsNonRoot"));
    let set_to = |expected| subject.containers_where(|container| container.flag("runAsNonRoot") == expected);
    let names = set_to(Some(false));
    if of_pod == Some(false) || !names.is_empty() {
        let who = setters(of_pod == Some(false), &names);
        return Some(Finding {
            reason,
            detail: format!("{who} must not set securityContext.runAsNonRoot=false"),
        });
    }
    if of_pod == Some(true) {
        return None;
    }
    let names = set_to(None);
    finding(&names, reason, || {
        format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            containers(&names)
        )
    })
}

/// `runAsUser`
pub(super) fn run_as_user(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_in_user_namespace(29) {
        return None;
    }
    let root = |context: &Value| pod::integer(context, "runAsUser") == Some(0);
    let of_pod = subject.pod.security_context().is_some_and(root);
    let names = subject.containers_where(|container| container.context.is_some_and(root));
    (of_pod || !names.is_empty()).then(|| Finding {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", setters(of_pod, &names)),
    })
}
