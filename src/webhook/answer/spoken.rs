//! A decision in the words of an answer: outcome, warnings, audit annotations, labels.

use crate::decide::{Decision, DenyReason, Outcome};
use crate::webhook::metrics::AnswerLabels;
use crate::webhook::review;

/// The levels of Pod Security, which are all that the metric's label may say.
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// What the API server is told.
pub(super) fn outcome(decision: Decision) -> review::Outcome {
    if let Outcome::Deny(_) = decision.outcome {
        return review::Outcome::Denied {
            code: 403,
            message: decision.message(),
        };
    }
    let patch = decision.patch.into_json();
    review::Outcome::Admitted {
        patch: (!patch.is_empty()).then_some(patch),
    }
}

/// What somebody reads who tries something out: the decision first, code before everything. `workload` names what the
/// pods belong to where no pod was created.
pub(super) fn warnings_of_dry_run(decision: &Decision, workload: Option<&str>) -> Vec<String> {
    let code = decision.code();
    let pods = workload.map_or_else(String::new, |workload| format!(" for pods of {workload}"));
    let mut lines = vec![match &decision.outcome {
        Outcome::Inject { redirection, reason } => format!("{code}: inject, {redirection}{pods}: {reason}"),
        Outcome::Skip(_) => format!("{code}: skip{pods}: {}", decision.message()),
        Outcome::Deny(_) => format!("{code}: deny{pods}"),
    }];
    match &decision.outcome {
        Outcome::Deny(DenyReason::NoRedirection { attempts, .. }) => {
            lines.extend(attempts.iter().map(|attempt| format!("{code}: {attempt}")));
        }
        Outcome::Deny(reason) => lines.push(format!("{code}: {reason}")),
        Outcome::Inject { .. } | Outcome::Skip(_) => {}
    }
    lines.extend(decision.warnings.iter().map(ToString::to_string));
    lines
}

/// What the audit log gets; the API server puts the webhook's name before each key.
pub(super) fn audit(decision: &Decision) -> Vec<(&'static str, String)> {
    let mut audit = vec![
        ("decision", decision.word().to_owned()),
        ("reason", decision.code().to_owned()),
        ("redirection", decision.redirection().word().to_owned()),
    ];
    if let Some(opinion) = decision.policies.last() {
        audit.push((opinion.by, opinion.policy.clone()));
    }
    audit
}

/// Labels of the metric.
pub(super) fn labels(decision: &Decision) -> AnswerLabels {
    let policy = decision.policies.last().map_or("", |opinion| opinion.policy.as_str());
    AnswerLabels {
        decision: decision.code(),
        redirection: decision.redirection().word(),
        level: LEVELS.into_iter().find(|level| policy.starts_with(level)).unwrap_or(""),
    }
}
