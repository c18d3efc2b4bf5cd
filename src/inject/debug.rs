//! The container `linkerd-debug`, as Linkerd shapes it: without a security context of its own.

use super::DEBUG;
use super::container::{Container, Exec, Probe};
use crate::config::values::Values;

/// The debug container for one pod.
pub(super) fn container(values: &Values) -> Container<'_> {
    let image = &values.debug_container.image;
    let version = if image.version.is_empty() {
        &values.linkerd_version
    } else {
        &image.version
    };
    let alive = || {
        Some(Probe {
            exec: Some(Exec::new(["true".to_owned()])),
            ..Probe::default()
        })
    };
    Container {
        name: DEBUG,
        image: format!("{}:{version}", image.name),
        image_pull_policy: if image.pull_policy.is_empty() {
            &values.image_pull_policy
        } else {
            &image.pull_policy
        },
        liveness_probe: alive(),
        readiness_probe: alive(),
        termination_message_policy: Some("FallbackToLogsOnError"),
        ..Container::default()
    }
}
