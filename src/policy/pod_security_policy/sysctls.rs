//! What a policy says of kernel parameters.

use super::object::Spec;
use super::wording::Errors;
use crate::pod::{self, Pod};
use crate::policy::Release;
use crate::policy::quoting::go_quoted;

/// Those that concern nobody but the pod: allowed unless a policy forbids them.
const SAFE: [&str; 4] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
];

/// One more, from Kubernetes 1.22 on.
const SAFE_SINCE_1_22: &str = "net.ipv4.ip_unprivileged_port_start";

/// What a policy says. An entry is a name, or what a name begins with and a final `*`.
#[derive(Clone, Debug)]
pub(super) struct SysctlRule {
    forbidden: Vec<String>,
    allowed_unsafe: Vec<String>,
}

impl SysctlRule {
    /// Takes what concerns kernel parameters out of `spec`.
    pub(super) fn take(spec: &mut Spec) -> Self {
        Self {
            forbidden: std::mem::take(&mut spec.forbidden_sysctls),
            allowed_unsafe: std::mem::take(&mut spec.allowed_unsafe_sysctls),
        }
    }

    /// Judges those of `pod`.
    pub(super) fn check(&self, pod: &Pod<'_>, release: Release, errors: &mut Errors) {
        let Some(context) = pod.security_context() else { return };
        for (index, sysctl) in pod::list(context, "sysctls").enumerate() {
            let name = pod::container_name(sysctl);
            let path = format_args!("pod.spec.securityContext.sysctls[{index}]");
            if matches(&self.forbidden, name) {
                errors.forbidden(&path, &format!("sysctl {} is not allowed", go_quoted(name)));
            } else if !is_safe(name, release) && !matches(&self.allowed_unsafe, name) {
                errors.forbidden(&path, &format!("unsafe sysctl {} is not allowed", go_quoted(name)));
            }
        }
    }
}

/// Whether every policy that does not forbid it allows it.
pub(super) fn is_safe(name: &str, release: Release) -> bool {
    SAFE.contains(&name) || name == SAFE_SINCE_1_22 && release >= Release(22)
}

fn matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    })
}
