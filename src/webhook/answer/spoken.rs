//! A decision in the words of an answer: outcome, warnings, audit annotations, labels.

use crate::decide::{Caution, Decision, DenyReason, Outcome, SkipReason, SkipReasons};
use crate::webhook::metrics::AnswerLabels;
use crate::webhook::review::{self, WARNING_LIMIT};

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
    review::Outcome::Admitted {
        patch: decision.patch.into_json(),
    }
}

/// What somebody reads who tries something out: the decision first, code before everything. `workload` names what the
/// pods belong to where no pod was created; a pod that is denied comes with an error that has the reasons.
pub(super) fn warnings_of_dry_run(decision: &Decision, workload: Option<&str>) -> Vec<String> {
    let code = decision.code();
    let pods = workload.map_or_else(String::new, |workload| format!(" for pods of {workload}"));
    let mut all = match &decision.outcome {
        Outcome::Inject { redirection, reason } => lines(code, &format!("inject, {redirection}{pods}: {reason}")),
        Outcome::Skip(_) => lines(code, &format!("skip{pods}: {}", decision.message())),
        Outcome::Deny(_) => lines(code, &format!("deny{pods}")),
    };
    if let (Outcome::Deny(reason), Some(_)) = (&decision.outcome, workload) {
        all.extend(reasons(reason).iter().flat_map(|reason| lines(code, reason)));
    }
    all.extend(warnings(decision));
    all
}

/// Why a pod is denied, and what could be done.
fn reasons(reason: &DenyReason) -> Vec<String> {
    if let DenyReason::NoRedirection(refusal) = reason {
        let ways_out = format!("either {}", refusal.ways_out.join(", or "));
        return refusal
            .attempts
            .iter()
            .chain(refusal.obstacles.iter().map(|obstacle| &obstacle.setting))
            .cloned()
            .chain([ways_out])
            .collect();
    }
    vec![reason.to_string()]
}

/// What the author of a pod should know.
pub(super) fn warnings(decision: &Decision) -> Vec<String> {
    let warnings = decision.warnings.iter();
    warnings
        .flat_map(|warning| lines(warning.caution.code(), &warning.text))
        .collect()
}

/// A text in lines that fit into a warning, with `code` before each.
fn lines(code: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WARNING_LIMIT => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{code}: {word}")),
        }
    }
    lines
}

/// What the audit log gets; the API server puts the webhook's name before each key. Kinds of policy that refuse more than
/// one candidate are told once, with the names of all their policies.
pub(super) fn audit(decision: &Decision) -> Vec<(&'static str, String)> {
    let mut audit = vec![
        ("decision", decision.word().to_owned()),
        ("reason", decision.code().to_owned()),
        ("redirection", decision.redirection().word().to_owned()),
    ];
    let of_pod_security = decision.pod_security().into_iter();
    let others = decision.policies.iter().filter(|opinion| opinion.by != "pod-security");
    let opinions = of_pod_security.chain(others);
    let mut policies: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for opinion in opinions {
        match policies.iter_mut().find(|(by, _)| *by == opinion.by) {
            Some((_, names)) if names.contains(&opinion.policy.as_str()) => {}
            Some((_, names)) => names.push(&opinion.policy),
            None => policies.push((opinion.by, vec![&opinion.policy])),
        }
    }
    audit.extend(policies.into_iter().map(|(by, names)| (by, names.join(", "))));
    audit
}

/// The same of a request that is denied before anything is decided.
pub(super) fn audit_of_denial(reason: &str) -> Vec<(&'static str, String)> {
    [("decision", "deny"), ("reason", reason), ("redirection", "none")]
        .map(|(key, value)| (key, value.to_owned()))
        .into()
}

/// Labels of the metric.
pub(super) fn labels(decision: &Decision) -> AnswerLabels {
    let policy = decision.pod_security().map_or("", |opinion| opinion.policy.as_str());
    AnswerLabels {
        outcome: decision.word(),
        decision: decision.code(),
        redirection: decision.redirection().word(),
        level: LEVELS.into_iter().find(|level| policy.starts_with(level)).unwrap_or(""),
    }
}

/// The kinds of a decision's warnings, each once.
pub(super) fn cautions(decision: &Decision) -> Vec<Caution> {
    once(decision.warnings.iter().map(|warning| warning.caution))
}

/// The kinds of policies that stand in the way of a pod that is denied, each once.
pub(super) fn refused_by(decision: &Decision) -> Vec<&'static str> {
    match &decision.outcome {
        Outcome::Deny(DenyReason::NoRedirection(refusal)) => once(refusal.obstacles.iter().map(|obstacle| obstacle.by)),
        Outcome::Inject { .. } | Outcome::Skip(_) | Outcome::Deny(_) => Vec::new(),
    }
}

/// Every item once, where it first stands.
fn once<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut found, item| {
        if !found.contains(&item) {
            found.push(item);
        }
        found
    })
}

/// Linkerd's reasons joined as Linkerd joins them; without one of those the first of ours, alone. So the label takes few
/// values: the combinations that Linkerd has, and one for each reason of ours.
pub(super) fn skip_reason(reasons: &SkipReasons) -> String {
    let linkerds = SkipReasons::of(reasons.iter().filter(|reason| is_linkerds(*reason)));
    let named = linkerds.unwrap_or_else(|| reasons.first().into());
    named.iter().map(SkipReason::code).collect::<Vec<_>>().join(",")
}

fn is_linkerds(reason: SkipReason) -> bool {
    use SkipReason as R;
    match reason {
        R::HostNetworkEnabled
        | R::SidecarAlreadyExists
        | R::UnsupportedResource
        | R::InvalidInjectAnnotationAtNamespace
        | R::InvalidInjectAnnotationAtWorkload
        | R::InjectionDisableAnnotationPresent
        | R::InjectionEnableAnnotationAbsent
        | R::AutomountDisabled => true,
        R::WindowsPod
        | R::MirrorPod
        | R::UnsupportedRuntime
        | R::SystemNamespace
        | R::NodeCriticalPod
        | R::ControlPlanePod
        | R::WebhooksDisabled
        | R::NoRedirectionAdmitted => false,
    }
}
