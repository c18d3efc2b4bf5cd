//! What the next pod of each workload would meet.

use super::admission::Webhook;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::cli::explain::Entry;
use crate::decide::{Caution, Opinion, Outcome, SkipReason};
use crate::inject::{PROXY, Redirection};
use crate::pod::{Pod, container_name};
use crate::policy::Verdict;
use crate::policy::pod_security::Policy;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A workload that asks for the mesh, or whose pods would, with the decision for its next pod.
#[derive(Clone, Debug)]
pub(in crate::cli::check) struct Judged {
    pub(in crate::cli::check) namespace: String,
    /// `Kind/name`
    pub(in crate::cli::check) workload: String,
    /// `inject`, `skip` or `deny`.
    pub(in crate::cli::check) outcome: &'static str,
    /// The reason as a word, and as a sentence.
    pub(in crate::cli::check) reason: &'static str,
    pub(in crate::cli::check) message: String,
    pub(in crate::cli::check) redirection: Redirection,
    /// Whether a policy refuses the pod.
    pub(in crate::cli::check) refused: bool,
    /// Whether somebody wants the pod meshed.
    pub(in crate::cli::check) asked: bool,
    /// What is left alone on purpose, or has its proxy already.
    pub(in crate::cli::check) rightly_alone: bool,
    /// The policies that judge the pod, `baseline:latest` and the like.
    pub(in crate::cli::check) policy: String,
    /// Where Pod Security's level was learned.
    pub(in crate::cli::check) learned_from: &'static str,
    /// What else policies say against the pod.
    pub(in crate::cli::check) objections: Vec<String>,
    /// Code and text of each warning.
    pub(in crate::cli::check) warnings: Vec<(Caution, String)>,
    /// Labels of the pod.
    pub(in crate::cli::check) labels: Value,
    /// Init containers that run as the proxy's user.
    pub(in crate::cli::check) exempt: Vec<String>,
}

/// Where a namespace's level of Pod Security comes from.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Origin<'a> {
    /// Labels of the namespace.
    pub(in crate::cli::check) labels: Option<&'a Map<String, Value>>,
    /// What the values say is the cluster's default.
    pub(in crate::cli::check) default: Policy,
}

impl Judged {
    /// What `entry` says.
    pub(in crate::cli::check) fn of(entry: &Entry, origin: Origin<'_>) -> Self {
        let decision = &entry.decision;
        let skipped = |wanted: fn(SkipReason) -> bool| match &decision.outcome {
            Outcome::Skip(reasons) => reasons.iter().any(wanted),
            Outcome::Inject { .. } | Outcome::Deny(_) => false,
        };
        let invalid = skipped(|reason| {
            [
                SkipReason::InvalidInjectAnnotationAtNamespace,
                SkipReason::InvalidInjectAnnotationAtWorkload,
            ]
            .contains(&reason)
        });
        let opted_out = skipped(|reason| reason == SkipReason::InjectionDisableAnnotationPresent);
        let candidate = match decision.outcome {
            Outcome::Inject { redirection, .. } => Some(redirection),
            Outcome::Skip(_) | Outcome::Deny(_) => None,
        };
        // Without redirection there is nothing to be exempt from.
        let redirected = candidate.filter(|redirection| *redirection != Redirection::None);
        let pod = Pod::new(&entry.before);
        Self {
            namespace: entry.namespace.clone(),
            workload: entry.workload.clone(),
            outcome: decision.word(),
            reason: decision.code(),
            message: decision.message(),
            redirection: decision.redirection(),
            refused: decision.would_be_refused(),
            asked: invalid || (decision.annotated_at.is_some() && !opted_out),
            rightly_alone: skipped(|reason| {
                [SkipReason::SidecarAlreadyExists, SkipReason::WindowsPod].contains(&reason)
                    || reason.is_of_the_cluster()
            }),
            policy: policies(&decision.policies, candidate),
            learned_from: learned(decision.pod_security(), origin),
            objections: objections(&decision.policies, candidate),
            warnings: decision
                .warnings
                .iter()
                .map(|warning| (warning.caution, warning.text.clone()))
                .collect(),
            labels: pod.metadata().get("labels").cloned().unwrap_or_default(),
            exempt: redirected.map(|_| exempt(entry, &pod)).unwrap_or_default(),
        }
    }

    /// `namespace/Kind/name`
    pub(in crate::cli::check) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.workload)
    }

    /// A workload whose pods are injected, for tests.
    #[cfg(test)]
    pub(super) fn sample(namespace: &str, workload: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            workload: workload.to_owned(),
            outcome: "inject",
            reason: "init_container_admitted",
            message: "the policies in force admit linkerd-init".to_owned(),
            redirection: Redirection::InitContainer,
            refused: false,
            asked: true,
            rightly_alone: false,
            policy: "privileged:latest".to_owned(),
            learned_from: "default",
            objections: Vec::new(),
            warnings: Vec::new(),
            labels: Value::Null,
            exempt: Vec::new(),
        }
    }
}

/// The policies that had a say, Pod Security's level first.
fn policies(opinions: &[Opinion], candidate: Option<Redirection>) -> String {
    let mut names = Vec::new();
    for opinion in opinions
        .iter()
        .filter(|it| it.candidate == candidate || candidate.is_none())
    {
        let name = match (opinion.by, opinion.exempt) {
            ("pod-security", None) => opinion.policy.clone(),
            ("pod-security", Some(what)) => format!("{} (exempt: {what})", opinion.policy),
            (by, _) => format!("{by} {}", opinion.policy),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn learned(opinion: Option<&Opinion>, origin: Origin<'_>) -> &'static str {
    let labelled = origin
        .labels
        .is_some_and(|labels| labels.contains_key("pod-security.kubernetes.io/enforce"));
    match (opinion.and_then(|opinion| opinion.exempt), labelled) {
        (Some(_), _) => "exemption",
        (None, true) => "label",
        (None, false) if origin.default != Policy::PRIVILEGED => "values",
        (None, false) => "default",
    }
}

fn objections(opinions: &[Opinion], candidate: Option<Redirection>) -> Vec<String> {
    let against = |opinion: &Opinion| match &opinion.verdict {
        Verdict::Denied { message } => Some(format!("{} {}: {message}", opinion.by, opinion.policy)),
        Verdict::Allowed | Verdict::Unknown { .. } => None,
    };
    let last = opinions.iter().filter(|opinion| opinion.candidate == candidate);
    last.filter_map(against).collect()
}

/// Init containers of the application that run as the user that its proxy gets, and end: their traffic is meant to pass
/// the proxy by.
fn exempt(entry: &Entry, pod: &Pod<'_>) -> Vec<String> {
    if !pod
        .init_containers()
        .iter()
        .any(|container| pod.user_of(container).is_some())
    {
        return Vec::new();
    }
    let Ok(after) = entry.after() else {
        return Vec::new();
    };
    let after = Pod::new(&after);
    let proxy = after
        .all_containers()
        .find(|container| container_name(container) == PROXY);
    let Some(proxy_user) = proxy.and_then(|proxy| after.user_of(proxy)) else {
        return Vec::new();
    };
    let same = pod
        .init_containers()
        .iter()
        .filter(|container| pod.user_of(container) == Some(proxy_user));
    same.map(|container| container_name(container).to_owned()).collect()
}

/// Judges workloads that ask for the mesh.
pub(in crate::cli::check) fn judge(
    workloads: &[Judged],
    webhooks: &[Webhook<'_>],
    namespaces: &[Value],
) -> Vec<Finding> {
    let asking: Vec<_> = workloads.iter().filter(|it| it.asked).collect();
    if asking.is_empty() {
        return vec![Finding::ok(Code::WorkloadsNone, "no workload asks for the mesh")];
    }
    let refused: Vec<_> = asking.iter().copied().filter(|it| it.refused).collect();
    let all = asking.len();
    let mut findings = vec![match refused.len() {
        0 => Finding::ok(
            Code::WorkloadsAdmitted,
            format!("workloads that ask for the mesh: {all}, and the next pod of each is admitted"),
        ),
        number => {
            let message =
                format!("workloads that ask for the mesh: {all}, and the next pod of {number} would be refused");
            Finding::failed(Code::WorkloadRefused, message).with(refused.iter().flat_map(|it| why_refused(it)))
        }
    }];
    let alone = |it: &&&Judged| it.outcome == "skip" && !it.rightly_alone && !it.refused;
    let alone: Vec<_> = asking.iter().filter(alone).collect();
    if !alone.is_empty() {
        let message = format!(
            "{} asked for the mesh and would get no proxy",
            count(alone.len(), "workload")
        );
        let lines = alone
            .iter()
            .map(|it| format!("{}: {} ({})", it.place(), it.message, it.reason));
        findings.push(Finding::warning(Code::WorkloadLeftAlone, message).with(lines));
    }
    findings.extend(warnings(&asking));
    findings.extend(unselected(&asking, webhooks, namespaces));
    findings
}

fn why_refused(workload: &Judged) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} ({})",
        workload.place(),
        workload.message,
        workload.reason
    )];
    // A denial says it all itself; a pod that was refused as it came has its policies' words.
    if workload.outcome != "deny" {
        lines.extend(workload.objections.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Warnings of the decision, by kind.
fn warnings(asking: &[&Judged]) -> Option<Finding> {
    let mut by_code: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for workload in asking {
        for (caution, text) in &workload.warnings {
            let line = format!("{}: {}: {text}", workload.place(), caution.code());
            by_code.entry(caution.code()).or_default().push(line);
        }
    }
    let kinds: Vec<_> = by_code
        .iter()
        .map(|(code, lines)| format!("{code} ({})", lines.len()))
        .collect();
    let message = format!("warnings of the decision: {}", kinds.join(", "));
    let lines = by_code.into_values().flatten();
    (!kinds.is_empty()).then(|| Finding::warning(Code::WorkloadWarned, message).with(lines))
}

/// Workloads whose pods never come to the webhook although their namespace does.
fn unselected(asking: &[&Judged], webhooks: &[Webhook<'_>], namespaces: &[Value]) -> Option<Finding> {
    let injector = webhooks.iter().find(|webhook| webhook.is_injector())?;
    let labels: BTreeMap<_, _> = namespaces
        .iter()
        .map(|namespace| {
            let labels = namespace.pointer("/metadata/labels").unwrap_or(&Value::Null);
            (super::name(namespace), labels)
        })
        .collect();
    let kept_out = |workload: &&Judged| {
        let of_namespace = labels.get(workload.namespace.as_str())?;
        // Namespaces have a line of their own.
        if injector.namespace_selector().unmet(of_namespace).is_some() || workload.rightly_alone {
            return None;
        }
        let unmet = injector.keeps_out(of_namespace, &workload.labels)?;
        Some(format!("{}: objectSelector wants {unmet}", workload.place()))
    };
    let lines: Vec<_> = asking
        .iter()
        .copied()
        .filter_map(|workload| kept_out(&workload))
        .collect();
    let message = format!("{} never come to the webhook", count(lines.len(), "workload"));
    (!lines.is_empty()).then(|| Finding::warning(Code::WorkloadNotSelected, message).with(lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::slice;

    fn codes(workloads: &[Judged]) -> Vec<&'static str> {
        judge(workloads, &[], &[]).iter().map(|it| it.code.word()).collect()
    }

    #[test]
    fn refused_and_unmeshed_workloads_are_told_apart() {
        let well = Judged::sample("shop", "Deployment/web");
        assert_eq!(codes(slice::from_ref(&well)), ["workloads_admitted"]);
        let nobody = Judged {
            asked: false,
            refused: true,
            ..well.clone()
        };
        assert_eq!(codes(&[nobody]), ["workloads_none"]);
        let skipped = Judged {
            outcome: "skip",
            reason: "host_network_enabled",
            ..well.clone()
        };
        assert_eq!(
            codes(slice::from_ref(&skipped)),
            ["workloads_admitted", "workload_left_alone"]
        );
        let manual = Judged {
            rightly_alone: true,
            ..skipped
        };
        assert_eq!(codes(&[manual]), ["workloads_admitted"]);
        let denied = Judged {
            outcome: "deny",
            refused: true,
            warnings: vec![(Caution::NoEffect, "x".to_owned())],
            ..well
        };
        assert_eq!(codes(&[denied]), ["workload_refused", "workload_warned"]);
    }

    #[test]
    fn pods_that_the_object_selector_leaves_out_are_named() {
        let all = [json!({"metadata": {"name": "a"}, "webhooks": [{
            "name": "linkerd-proxy-injector.linkerd.io", "objectSelector": {"matchLabels": {"mesh": "yes"}}}]})];
        let namespaces = [json!({"metadata": {"name": "shop"}})];
        let workloads = [Judged::sample("shop", "Deployment/web")];
        let findings = judge(&workloads, &Webhook::all(&all), &namespaces);
        assert_eq!(findings[1].code, Code::WorkloadNotSelected);
        assert_eq!(
            findings[1].details,
            ["shop/Deployment/web: objectSelector wants mesh In [yes]"]
        );
    }
}
