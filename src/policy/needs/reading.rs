//! Reading what a pod needs.

use super::Need;
use crate::pod::{self, Pod};
use serde_json::Value;
use std::borrow::Cow;

/// Takes a need and, where it is a container's, the container's name.
type Report<'r, 'p> = dyn FnMut(Need<'p>, Option<&'p str>) + 'r;

/// The capability with which API validation takes no `allowPrivilegeEscalation: false`; it goes by this name alone there.
const ESCALATES: &str = "CAP_SYS_ADMIN";

/// The annotations of seccomp profiles: the pod's, and a container's before its name.
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Tells `report` everything that `pod` needs.
pub(super) fn read<'p>(pod: &Pod<'p>, report: &mut Report<'_, 'p>) {
    let flags = [
        ("hostNetwork", Need::HostNetwork),
        ("hostPID", Need::HostPid),
        ("hostIPC", Need::HostIpc),
    ];
    for (key, need) in flags {
        if pod::boolean(pod.spec(), key) == Some(true) {
            report(need, None);
        }
    }
    let context = pod.security_context();
    if let Some(context) = context {
        read_pod_context(context, report);
    }
    read_seccomp(context, pod.annotation(SECCOMP_OF_POD), None, report);
    for volume in pod.volumes() {
        read_volume(pod, volume, report);
    }
    for container in pod.all_containers() {
        read_container(pod, container, report);
    }
}

fn read_pod_context<'p>(context: &'p Value, report: &mut Report<'_, 'p>) {
    let is_group = |group: &i64| (0..=i64::from(i32::MAX)).contains(group);
    if let Some(group) = pod::integer(context, "fsGroup").filter(is_group) {
        report(Need::FsGroup(group), None);
    }
    let groups = pod::list(context, "supplementalGroups").filter_map(Value::as_i64);
    groups
        .filter(is_group)
        .for_each(|group| report(Need::SupplementalGroup(group), None));
    let empty = context.get("supplementalGroups").and_then(Value::as_array);
    if empty.is_some_and(Vec::is_empty) {
        report(Need::NoSupplementalGroup, None);
    }
    if pod::object(context, "seLinuxOptions").is_some() {
        report(Need::SeLinux, None);
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./".contains(c);
    for sysctl in pod::list(context, "sysctls").map(pod::container_name) {
        if !sysctl.is_empty() && sysctl.chars().all(is_plain) {
            report(Need::Sysctl(sysctl), None);
        }
    }
}

fn read_container<'p>(pod: &Pod<'p>, container: &'p Value, report: &mut Report<'_, 'p>) {
    let name = pod::container_name(container);
    let context = pod::object(container, "securityContext");
    let flag = |key| context.and_then(|context| pod::boolean(context, key));
    let mut needs = |need| report(need, Some(name));
    let ports = pod::list(container, "ports").filter_map(|port| pod::integer(port, "hostPort"));
    ports
        .filter(|port| (1..=i64::from(u16::MAX)).contains(port))
        .for_each(|port| needs(Need::HostPort(port)));
    let capabilities = context.and_then(|context| pod::object(context, "capabilities"));
    let added = capabilities.map(|capabilities| pod::list(capabilities, "add").filter_map(Value::as_str));
    let mut escalates = flag("privileged") == Some(true);
    if escalates {
        needs(Need::Privileged);
    }
    for name in added.into_iter().flatten() {
        escalates |= name == ESCALATES;
        needs(Need::Capability(name));
    }
    // A policy that sets it to false would make such a container invalid.
    if flag("allowPrivilegeEscalation").unwrap_or(escalates) {
        needs(Need::Escalation);
    }
    match flag("readOnlyRootFilesystem") {
        Some(true) => {}
        Some(false) => needs(Need::WritableRoot),
        None => needs(Need::OpenRoot),
    }
    read_user(pod, context, &mut needs);
    let text = |key| context.and_then(|context| pod::text(context, key));
    if text("procMount") == Some("Unmasked") {
        needs(Need::UnmaskedProc);
    }
    if context.is_some_and(|context| pod::object(context, "seLinuxOptions").is_some()) {
        needs(Need::SeLinux);
    }
    let annotation = pod
        .annotations()
        .and_then(|annotations| annotations.get(&[SECCOMP_OF_CONTAINER, name].concat())?.as_str());
    read_seccomp(context, annotation, Some(name), report);
}

/// What a container says of its user, or its pod for it.
fn read_user<'p>(pod: &Pod<'p>, context: Option<&'p Value>, needs: &mut dyn FnMut(Need<'p>)) {
    let contexts = [context, pod.security_context()];
    let contexts = || contexts.into_iter().flatten();
    let user = contexts().find_map(|context| pod::integer(context, "runAsUser"));
    let non_root = contexts().find_map(|context| pod::boolean(context, "runAsNonRoot"));
    if user == Some(0) || non_root == Some(false) {
        needs(Need::Root);
    } else if user.is_none() && non_root.is_none() {
        needs(Need::OpenUser);
    }
}

/// The seccomp profile of a security context, and the annotation that stands for it.
fn read_seccomp<'p>(
    context: Option<&'p Value>,
    annotation: Option<&'p str>,
    container: Option<&'p str>,
    report: &mut Report<'_, 'p>,
) {
    let profile = context.and_then(|context| pod::object(context, "seccompProfile"));
    let field = profile.and_then(|profile| match pod::text(profile, "type")? {
        "RuntimeDefault" => Some(Cow::Borrowed("runtime/default")),
        "Unconfined" => Some(Cow::Borrowed("unconfined")),
        "Localhost" => Some(format!("localhost/{}", pod::text(profile, "localhostProfile")?).into()),
        _ => None,
    });
    // What is no profile, or would end a list, no policy can name.
    let is_profile = |name: &Cow<'_, str>| {
        let own = |path: &str| !path.is_empty() && !path.contains(',');
        matches!(name.as_ref(), "runtime/default" | "docker/default" | "unconfined")
            || name.strip_prefix("localhost/").is_some_and(own)
    };
    let named = field.into_iter().chain(annotation.map(Cow::Borrowed));
    named
        .filter(is_profile)
        .for_each(|name| report(Need::Seccomp(name), container));
}

fn read_volume<'p>(pod: &Pod<'p>, volume: &'p Value, report: &mut Report<'_, 'p>) {
    let sources = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, source)| source.is_object());
    for (kind, source) in sources {
        let text = |key| pod::text(source, key).filter(|text| !text.is_empty());
        let more = match kind.as_str() {
            "hostPath" => {
                // The API server takes no path that climbs.
                let climbs = |path: &str| path.split('/').any(|part| part == "..");
                let Some(path) = text("path").filter(|path| !climbs(path)) else {
                    continue;
                };
                let read_only = is_read_only(pod, pod::container_name(volume));
                Some(Need::HostPath { path, read_only })
            }
            "flexVolume" => text("driver").map(Need::FlexDriver),
            "csi" => text("driver").map(Need::CsiDriver),
            _ => None,
        };
        report(Need::Volume(kind), None);
        if let Some(need) = more {
            report(need, None);
        }
    }
}

/// Whether every mount of the volume `name` is read-only.
fn is_read_only(pod: &Pod<'_>, name: &str) -> bool {
    pod.all_containers()
        .flat_map(|container| pod::list(container, "volumeMounts"))
        .filter(|mount| pod::container_name(mount) == name)
        .all(|mount| pod::boolean(mount, "readOnly") == Some(true))
}
