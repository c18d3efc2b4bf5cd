//! What a policy holds against a pod that has the policy's defaults, so that nothing which the policy can set is missing.

use serde_json::Value;

use super::contexts::{ContainerContext, Contexts, PodContext};
use super::object::PortRange;
use super::policies::{Host, Policy};
use super::wording::{Errors, Place, Text};
use crate::pod::{self, Pod};
use crate::policy::Release;

/// The mount of `/proc` of a container that asks for none, and the only one that a policy allows which names none.
const DEFAULT_PROC_MOUNT: &str = "Default";

/// What allows every runtime class.
const ANY_RUNTIME_CLASS: &str = "*";

impl Policy {
    /// Judges `pod` with `contexts` in the place of its own, in the plugin's order.
    pub(super) fn check(&self, pod: &Pod<'_>, contexts: &Contexts<'_>, release: Release) -> Vec<String> {
        let mut errors = Errors::default();
        self.check_pod(&contexts.pod, &mut errors);
        self.host.check(pod, &mut errors);
        self.sysctls.check(pod, release, &mut errors);
        self.volumes.check(pod, &mut errors);
        self.check_runtime_class(&contexts.pod, &mut errors);
        for (container, json) in contexts.containers.iter().zip(pod.all_containers()) {
            self.check_identity(&contexts.pod, container, &mut errors);
            self.check_container(container, json, &mut errors);
        }
        errors.into_inner()
    }

    fn check_pod(&self, pod: &PodContext<'_>, errors: &mut Errors) {
        self.fs_group
            .check(&"spec.securityContext.fsGroup", pod.fs_group.as_slice(), errors);
        let groups = pod.supplemental_groups.as_deref().unwrap_or_default();
        self.supplemental_groups
            .check(&"spec.securityContext.supplementalGroups", groups, errors);
        self.seccomp.check_pod(pod, errors);
        let label = pod.identity.se_linux;
        self.se_linux
            .check(&"spec.securityContext.seLinuxOptions", label, errors);
    }

    fn check_runtime_class(&self, pod: &PodContext<'_>, errors: &mut Errors) {
        let (Some(rule), Some(class)) = (&self.runtime_class, pod.runtime_class) else {
            return;
        };
        if !rule
            .allowed
            .iter()
            .any(|allowed| allowed == class || allowed == ANY_RUNTIME_CLASS)
        {
            errors.invalid(&"spec.runtimeClassName", Text(class), "");
        }
    }

    fn check_identity(&self, pod: &PodContext<'_>, container: &ContainerContext<'_>, errors: &mut Errors) {
        let place = container.place;
        let identity = container.effective(pod);
        self.user.check(place, identity.non_root, identity.user, errors);
        let path = format_args!("{place}.securityContext");
        self.group.check(&path, identity.group.as_slice(), errors);
        let path = format_args!("{place}.securityContext.seLinuxOptions");
        self.se_linux.check(&path, identity.se_linux, errors);
        self.app_armor.check(container, errors);
        self.seccomp.check_container(pod, container, errors);
    }

    fn check_container(&self, container: &ContainerContext<'_>, json: &Value, errors: &mut Errors) {
        let place = container.place;
        let path = |field: &'static str| format!("{place}.securityContext.{field}");
        if !self.privileged && container.privileged == Some(true) {
            errors.invalid(&path("privileged"), true, "Privileged containers are not allowed");
        }
        let proc_mount = container.proc_mount.unwrap_or(DEFAULT_PROC_MOUNT);
        let proc_mount_allowed = match self.proc_mounts.as_slice() {
            [] => proc_mount == DEFAULT_PROC_MOUNT,
            allowed => allowed.iter().any(|allowed| allowed == proc_mount),
        };
        if !proc_mount_allowed {
            errors.invalid(&path("procMount"), Text(proc_mount), "ProcMountType is not allowed");
        }
        if let Some(capabilities) = &container.capabilities {
            self.capabilities.check(place, capabilities, errors);
        }
        self.host.check_ports(place, json, errors);
        if self.read_only_root_filesystem && container.read_only_root_filesystem == Some(false) {
            let why = "ReadOnlyRootFilesystem must be set to true";
            errors.invalid(&path("readOnlyRootFilesystem"), false, why);
        }
        if !self.allow_privilege_escalation && container.allow_privilege_escalation == Some(true) {
            let why = "Allowing privilege escalation for containers is not allowed";
            errors.invalid(&path("allowPrivilegeEscalation"), true, why);
        }
    }
}

impl Host {
    fn check(&self, pod: &Pod<'_>, errors: &mut Errors) {
        for (allowed, field, why) in [
            (self.network, "hostNetwork", "Host network is not allowed to be used"),
            (self.pid, "hostPID", "Host PID is not allowed to be used"),
            (self.ipc, "hostIPC", "Host IPC is not allowed to be used"),
        ] {
            if !allowed && pod::boolean(pod.spec(), field) == Some(true) {
                errors.invalid(&format_args!("spec.securityContext.{field}"), true, why);
            }
        }
    }

    fn check_ports(&self, place: Place, container: &Value, errors: &mut Errors) {
        for port in pod::list(container, "ports").filter_map(|port| pod::integer(port, "hostPort")) {
            let allowed = |range: &PortRange| (i64::from(range.min)..=i64::from(range.max)).contains(&port);
            if port > 0 && !self.ports.iter().any(allowed) {
                let ranges: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
                let ranges = ranges.join(",");
                let why = format!("Host port {port} is not allowed to be used. Allowed ports: [{ranges}]");
                errors.invalid(&format_args!("{place}.hostPort"), port, &why);
            }
        }
    }
}
