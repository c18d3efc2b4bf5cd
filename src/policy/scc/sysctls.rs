//! Sysctls of a pod.

use super::constraint::Constraint;
use super::wording::forbidden;
use crate::pod::{self, Pod};
use crate::policy::quoting::go_quoted;

/// What no constraint has to allow.
///
/// OpenShift counts three more where every node's kernel knows them: such a pod may be admitted although it is said to be
/// refused here. They are the application's own, so no decision hangs on them.
pub(super) const SAFE: [&str; 9] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
];

/// What is wrong with the sysctls of `pod`.
pub(super) fn check(constraint: &Constraint, pod: &Pod<'_>, errors: &mut Vec<String>) {
    let sysctls = pod.security_context().map(|context| pod::list(context, "sysctls"));
    for (index, sysctl) in sysctls.into_iter().flatten().enumerate() {
        let name = pod::container_name(sysctl);
        let path = format_args!("spec.securityContext.sysctls[{index}]");
        if matches(&constraint.forbidden_sysctls, name) {
            errors.push(forbidden(
                path,
                format_args!("sysctl {} is not allowed", go_quoted(name)),
            ));
        } else if !SAFE.contains(&name) && !matches(&constraint.unsafe_sysctls, name) {
            errors.push(forbidden(
                path,
                format_args!("unsafe sysctl {} is not allowed", go_quoted(name)),
            ));
        }
    }
}

/// Whether one of `patterns` is `name`, or what it begins with before a final `*`.
fn matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    })
}
