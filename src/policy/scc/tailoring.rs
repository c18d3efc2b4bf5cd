//! A constraint made for some pods: as tight as `restricted-v2`, but for the user, and loosened by what the pods need.

use serde_json::json;

use super::KIND;
use super::sysctls::SAFE;
use super::volumes::type_of_field;
use crate::policy::needs::{Draft, Need, Needs, Tailored};

/// The constraint `name`, which takes pods with `needs`.
///
/// It has no priority: a pod that `restricted-v2` takes before injection keeps the user, group, level and profile that it
/// got there, and this constraint takes it with them.
pub fn tailored(name: &str, needs: &Needs<'_>) -> Tailored {
    // The fields that the API demands, and those that say something else than their defaults.
    let object = json!({
        "apiVersion": "security.openshift.io/v1",
        "kind": KIND,
        "metadata": {"name": name},
        "allowHostDirVolumePlugin": false,
        "allowHostIPC": false,
        "allowHostNetwork": false,
        "allowHostPID": false,
        "allowHostPorts": false,
        "allowPrivilegeEscalation": false,
        "allowPrivilegedContainer": false,
        "allowedCapabilities": ["NET_BIND_SERVICE"],
        "defaultAddCapabilities": [],
        "fsGroup": {"type": "MustRunAs"},
        "groups": [],
        "priority": null,
        "readOnlyRootFilesystem": true,
        "requiredDropCapabilities": ["ALL"],
        "runAsUser": {"type": "MustRunAsNonRoot"},
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": {"type": "RunAsAny"},
        "users": [],
        "volumes": ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"],
    });
    let mut draft = Draft::new(needs, &[], object);
    allow_host(&mut draft);
    allow_identities(&mut draft);
    draft.set_for("allowPrivilegedContainer", json!(true), &Need::Privileged);
    draft.set_for("allowPrivilegeEscalation", json!(true), &Need::Escalation);
    // No constraint of OpenShift's own makes it read-only, so it is left to those who say nothing of it.
    for need in [Need::WritableRoot, Need::OpenRoot] {
        draft.set_for("readOnlyRootFilesystem", json!(false), &need);
    }
    draft.allow_capabilities("allowedCapabilities", "requiredDropCapabilities");
    draft.allow(&["volumes"], |need| {
        let Need::Volume(field) = need else { return None };
        type_of_field(field).filter(|word| *word != "hostPath").map(Into::into)
    });
    draft.allow(&["allowedFlexVolumes"], |need| {
        let Need::FlexDriver(driver) = need else { return None };
        Some(json!({"driver": driver}))
    });
    draft.allow(&["seccompProfiles"], |need| {
        // The two names of the runtime's own are one.
        let Need::Seccomp(profile) = need else { return None };
        (profile != "docker/default").then(|| json!(profile))
    });
    draft.allow(&["allowedUnsafeSysctls"], |need| {
        let Need::Sysctl(name) = need else { return None };
        (!SAFE.contains(name)).then(|| json!(name))
    });
    draft.finish()
}

fn allow_host(draft: &mut Draft<'_, '_>) {
    draft.set_for("allowHostNetwork", json!(true), &Need::HostNetwork);
    draft.set_for("allowHostPID", json!(true), &Need::HostPid);
    draft.set_for("allowHostIPC", json!(true), &Need::HostIpc);
    draft.set_for_any("allowHostPorts", &json!(true), |need| matches!(need, Need::HostPort(_)));
    draft.set_for_any("allowHostDirVolumePlugin", &json!(true), |need| {
        matches!(need, Need::HostPath { .. })
    });
}

fn allow_identities(draft: &mut Draft<'_, '_>) {
    let any = json!({"type": "RunAsAny"});
    for need in [Need::Root, Need::OpenUser] {
        draft.set_for("runAsUser", any.clone(), &need);
    }
    draft.set_for("seLinuxContext", any.clone(), &Need::SeLinux);
    // A constraint names groups of its own or the namespace's, never both.
    draft.set_for_any("fsGroup", &any, |need| matches!(need, Need::FsGroup(_)));
}
