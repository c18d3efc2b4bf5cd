//! A policy made for some pods: as tight as the one that Linkerd documents for its example application, emojivoto, and
//! loosened by what the pods need.

use serde_json::{Value, json};

use super::profiles::{ALLOWED_SECCOMP, DEFAULT_SECCOMP};
use super::sysctls::is_safe;
use super::volumes::type_of_field;
use crate::policy::Release;
use crate::policy::needs::{Draft, Need, Needs, Tailored};

/// The groups that Linkerd's example lets pods have.
const GROUPS: std::ops::RangeInclusive<i64> = 10_001..=65_535;

/// The profile of pods that name none.
const DEFAULT_PROFILE: &str = "runtime/default";

/// The policy `name`, which takes pods with `needs` on a server of `release`.
///
/// It changes pods: one that leaves it open gets a group, the runtime's seccomp profile and a read-only root file system,
/// loses every capability that it does not add, and cannot gain privileges.
pub fn tailored(name: &str, needs: &Needs<'_>, release: Release) -> Tailored {
    let groups = json!({"rule": "MustRunAs", "ranges": [{"min": GROUPS.start(), "max": GROUPS.end()}]});
    let object = json!({
        "apiVersion": "policy/v1beta1",
        "kind": "PodSecurityPolicy",
        "metadata": {"name": name},
        "spec": {
            "allowPrivilegeEscalation": false,
            "allowedCapabilities": ["NET_BIND_SERVICE"],
            "fsGroup": groups,
            "readOnlyRootFilesystem": true,
            "requiredDropCapabilities": ["ALL"],
            "runAsUser": {"rule": "RunAsAny"},
            "seLinux": {"rule": "RunAsAny"},
            "supplementalGroups": groups,
            "volumes": ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"],
        },
    });
    let mut draft = Draft::new(needs, &["spec"], object);
    allow_host(&mut draft);
    allow_volumes(&mut draft);
    allow_identities(&mut draft);
    draft.set_for("privileged", json!(true), &Need::Privileged);
    draft.set_for("allowPrivilegeEscalation", json!(true), &Need::Escalation);
    let writable = draft.set_for("readOnlyRootFilesystem", json!(false), &Need::WritableRoot);
    if let Some(askers) = needs.askers(&Need::OpenRoot).filter(|_| !writable) {
        draft.note(&["readOnlyRootFilesystem"], &format_args!("becomes true in {askers}"));
    }
    draft.allow_capabilities("allowedCapabilities", "requiredDropCapabilities");
    draft.allow(&["allowedUnsafeSysctls"], |need| {
        let Need::Sysctl(name) = need else { return None };
        (!is_safe(name, release)).then(|| json!(name))
    });
    let types = json!(["Default", "Unmasked"]);
    draft.set_for("allowedProcMountTypes", types, &Need::UnmaskedProc);
    allow_profiles(&mut draft, needs);
    draft.finish()
}

fn allow_host(draft: &mut Draft<'_, '_>) {
    draft.set_for("hostNetwork", json!(true), &Need::HostNetwork);
    draft.set_for("hostPID", json!(true), &Need::HostPid);
    draft.set_for("hostIPC", json!(true), &Need::HostIpc);
    draft.allow(&["hostPorts"], |need| {
        let Need::HostPort(port) = need else { return None };
        Some(json!({"min": port, "max": port}))
    });
}

fn allow_volumes(draft: &mut Draft<'_, '_>) {
    draft.allow(&["volumes"], |need| {
        let Need::Volume(field) = need else { return None };
        type_of_field(field).map(Value::from)
    });
    draft.allow(&["allowedHostPaths"], |need| {
        let Need::HostPath { path, read_only } = need else {
            return None;
        };
        Some(json!({"pathPrefix": path, "readOnly": read_only}))
    });
    draft.allow(&["allowedFlexVolumes"], |need| {
        let Need::FlexDriver(driver) = need else { return None };
        Some(json!({"driver": driver}))
    });
    draft.allow(&["allowedCSIDrivers"], |need| {
        let Need::CsiDriver(driver) = need else { return None };
        Some(json!({"name": driver}))
    });
}

fn allow_identities(draft: &mut Draft<'_, '_>) {
    let range = |group: &i64| (!GROUPS.contains(group)).then(|| json!({"min": group, "max": group}));
    draft.allow(&["fsGroup", "ranges"], |need| {
        let Need::FsGroup(group) = need else { return None };
        range(group)
    });
    let may = json!({"rule": "MayRunAs", "ranges": [{"min": GROUPS.start(), "max": GROUPS.end()}]});
    draft.set_for("supplementalGroups", may, &Need::NoSupplementalGroup);
    draft.allow(&["supplementalGroups", "ranges"], |need| {
        let Need::SupplementalGroup(group) = need else {
            return None;
        };
        range(group)
    });
}

/// A policy that does not speak of seccomp forbids every profile.
fn allow_profiles(draft: &mut Draft<'_, '_>, needs: &Needs<'_>) {
    let mut profiles = vec![DEFAULT_PROFILE.to_owned()];
    let mut notes = Vec::new();
    for (need, askers) in needs.iter() {
        // The two names of the runtime's own are one.
        if let Need::Seccomp(profile) = need
            && !matches!(profile.as_ref(), "runtime/default" | "docker/default")
        {
            profiles.push(profile.clone().into_owned());
            notes.push(format!("{need}: {askers}"));
        }
    }
    draft.annotate(ALLOWED_SECCOMP, profiles.join(","), notes);
    draft.annotate(DEFAULT_SECCOMP, DEFAULT_PROFILE.to_owned(), None);
}
