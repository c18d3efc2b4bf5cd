//! One pod, one policy, one server: which checks run, in which order, and what they say together.
//!
//! Checks allocate nothing for a pod that passes: they collect offenders, and an empty collection owns no memory.

use super::subject::{Container, Subject};
use super::{Level, Policy, Server, baseline, profiles, restricted};
use crate::pod::Pod;

/// The answer to one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether every check passed.
    pub allowed: bool,
    /// The reasons of the checks that failed, joined by `, `; empty where none did.
    pub reason: String,
    /// The same, each followed by its detail in brackets: what the API server tells its client.
    pub detail: String,
}

/// What one check holds against a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Which rule is broken.
    pub(super) reason: &'static str,
    /// What breaks it.
    pub(super) detail: String,
}

type Check = fn(&Subject<'_>) -> Option<Finding>;

/// One check among those of its level.
struct Rule {
    /// The first policy version that has it.
    since: u32,
    /// The policy version from which a restricted check takes its place at the restricted level.
    replaced: Option<u32>,
    check: Check,
}

const fn rule(since: u32, check: Check) -> Rule {
    Rule {
        since,
        replaced: None,
        check,
    }
}

const fn replaced(since: u32, check: Check) -> Rule {
    Rule {
        since: 0,
        replaced: Some(since),
        check,
    }
}

/// The baseline checks in the byte order of their ids, which is the order of messages.
const BASELINE: [Rule; 12] = [
    rule(0, profiles::app_armor),
    replaced(22, baseline::capabilities),
    rule(0, baseline::host_namespaces),
    replaced(0, baseline::host_path_volumes),
    rule(0, baseline::host_ports),
    rule(34, baseline::host_probes),
    rule(0, baseline::privileged),
    replaced(35, baseline::proc_mount),
    rule(0, baseline::se_linux_options),
    replaced(19, profiles::seccomp),
    rule(0, baseline::sysctls),
    rule(0, baseline::windows_host_process),
];

/// The restricted checks, likewise.
const RESTRICTED: [Rule; 7] = [
    rule(8, restricted::allow_privilege_escalation),
    rule(22, restricted::capabilities),
    rule(35, restricted::proc_mount),
    rule(0, restricted::volumes),
    rule(0, restricted::run_as_non_root),
    rule(23, restricted::run_as_user),
    rule(19, profiles::seccomp_required),
];

/// Judges `pod` exactly as given: no defaulting, no annotation read in a field's place.
pub fn evaluate(policy: Policy, server: Server, pod: &Pod<'_>) -> Evaluation {
    judge(policy, server, pod, false)
}

/// Judges `pod`, `stored` or as given; see [`Subject::stored`].
pub(super) fn judge(policy: Policy, server: Server, pod: &Pod<'_>, stored: bool) -> Evaluation {
    let rules = match policy.level {
        Level::Privileged => {
            return Evaluation {
                allowed: true,
                ..Evaluation::default()
            };
        }
        Level::Baseline => [BASELINE.as_slice(), &[]],
        Level::Restricted => [BASELINE.as_slice(), &RESTRICTED],
    };
    let subject = Subject {
        pod,
        containers: pod.all_containers().map(Container::new).collect(),
        server,
        minor: server.resolve(policy.version),
        stored,
    };
    // Releases before 1.24 replace nothing: both checks run.
    let replacing = policy.level == Level::Restricted && server.since(24);
    let absent = |rule: &Rule| {
        let replaced = replacing && rule.replaced.is_some_and(|since| subject.minor >= since);
        replaced || subject.minor < rule.since
    };
    let selected = rules.into_iter().flatten().filter(|rule| !absent(rule));
    sum_up(selected.filter_map(|rule| (rule.check)(&subject)))
}

fn sum_up(findings: impl Iterator<Item = Finding>) -> Evaluation {
    let mut evaluation = Evaluation {
        allowed: true,
        ..Evaluation::default()
    };
    for Finding { reason, detail } in findings {
        if !evaluation.allowed {
            evaluation.reason.push_str(", ");
            evaluation.detail.push_str(", ");
        }
        evaluation.allowed = false;
        evaluation.reason.push_str(reason);
        evaluation.detail.push_str(reason);
        if !detail.is_empty() {
            evaluation.detail.extend([" (", &detail, ")"]);
        }
    }
    evaluation
}
