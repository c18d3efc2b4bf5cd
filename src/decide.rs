//! The decision: whether a pod is injected, and how its traffic is redirected.
//!
//! [`decide`] is total and pure: it looks at the pod, its namespace, the configuration and a snapshot of cluster facts,
//! and always answers, with a trace of every fact that it looked at, in order. It asks `inject` for the shape of each
//! candidate, because a policy can only judge containers that exist, and `policy` for the verdict on it.
//!
//! The steps: is the pod ours already, may it be injected ([`eligibility`]), what was asked for ([`asked`]), where is
//! the CNI plugin ([`coverage`]), which candidate is admitted, and which of those is best (`choice`).

pub mod asked;
pub mod coverage;
pub mod eligibility;
pub mod linkerd;
pub mod native_sidecars;
pub mod placement;
pub mod rehearsal;
pub mod users;

mod caution;
mod choice;
mod fence;
mod meshed;
mod outcome;
mod policies;
mod probing;
mod quality;
mod ranking;
mod reason;
mod refusal;
mod setup;
mod trace;
mod variants;

pub use caution::{Caution, Warning};
pub use coverage::Coverage;
pub use eligibility::{AnnotatedAt, SkipReason};
pub use outcome::{Decision, Outcome, SkipReasons, Tailoring};
pub use policies::{KINDS as POLICY_KINDS, Opinion};
#[cfg(feature = "webhook")]
pub(crate) use ranking::container_of_user;
pub use reason::{DenyReason, InjectReason};
pub use refusal::{Obstacle, Refusal};
pub use setup::{Setup, SetupError};
pub use trace::Trace;

use crate::config::{Consequence, Installation, Layers, NamespaceLayer, Settings};
use crate::inject::patch::Patch;
use crate::inject::{Made, Metadata, Owner, Prepared, opaque_ports};
use crate::pod::workload::Kind;
use crate::pod::{Pod, structure};
use crate::policy::pod_security::{Configuration, Policy, Server};
use crate::policy::probe::Word;
use crate::policy::{Installed, Requester, Verdict};
use native_sidecars::{Lack, OldKubelets};
use outcome::Draft;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The namespace of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Namespace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its `metadata.labels`.
    pub labels: Option<&'a Map<String, Value>>,
    /// Its `metadata.annotations`.
    pub annotations: Option<&'a Map<String, Value>>,
}

/// What is known about the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The API server that will judge the pod.
    pub server: Server,
    /// What Pod Security does where no label says so.
    pub pod_security: &'a Configuration,
    /// Where the CNI plugin is, among the nodes that the pod can land on.
    pub coverage: &'a Coverage,
    /// Nodes that the pod can land on and that have no native sidecars.
    pub old_kubelets: Option<&'a OldKubelets>,
    /// Whether the CNI plugin on the nodes is Linkerd's, which ignores `linkerd.io/setup-iptables: "false"`.
    pub foreign_plugin: bool,
    /// Whether the facts may be out of date.
    pub stale: bool,
    /// Every admission policy but Pod Security.
    pub policies: &'a Installed,
    /// What a probe says of the pod's namespace.
    pub probe: &'a Word,
    /// Where the pod is on its way.
    pub round: Round,
}

/// Which of the two rounds of policies that change pods the pod is in: `PodSecurityPolicy` and OpenShift's constraints run
/// before webhooks and after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// The first is to come: a template, or a manifest.
    First,
    /// The API server's webhook call comes after the first.
    Second,
}

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pod, or the template that pods are made from.
    pub pod: &'a Value,
    /// The pod's namespace.
    pub namespace: Namespace<'a>,
    /// What the pod belongs to.
    pub owner: Option<&'a Owner>,
    /// Who creates the pod.
    pub requester: &'a Requester,
    /// The configuration. What it lacks keeps only pods out that would be injected.
    pub installation: &'a Prepared,
    /// What is known about the cluster.
    pub facts: Facts<'a>,
}

/// Decides what becomes of one pod; the facts go to `trace`.
pub fn decide(inputs: &Inputs<'_>, trace: Trace) -> Decision {
    let mut decision = judge(inputs, Draft::new(trace));
    if decision.policies.is_empty() {
        decision.policies = choice::as_it_came(inputs, &mut decision.trace);
    }
    if let (Some(opinion), false) = (decision.pod_security(), matches!(decision.outcome, Outcome::Deny(_))) {
        let said = [("warns", opinion.warning.clone()), ("audits", opinion.audit.clone())];
        let by = opinion.by;
        for (verb, text) in said {
            if let Some(text) = text {
                decision.trace.note(format_args!("{by} {verb}: the pod {text}"));
            }
        }
    }
    decision
}

fn judge(inputs: &Inputs<'_>, mut draft: Draft) -> Decision {
    let pod = Pod::new(inputs.pod);
    let eligibility = eligibility::judge(
        &pod,
        &inputs.namespace,
        inputs.installation,
        inputs.facts.round,
        &mut draft.trace,
    );
    draft.annotated_at = eligibility.annotated_at;
    let meshed = SkipReasons::from(SkipReason::SidecarAlreadyExists);
    let reasons = SkipReasons::of(eligibility.reasons);
    let others = reasons.as_ref().filter(|reasons| **reasons != meshed);
    if let (None, Err(malformed)) = (others, structure::of_pod(inputs.pod)) {
        return draft.deny(DenyReason::Malformed(malformed));
    }
    // Whoever asks for injection or not: a proxy that was added must work.
    if others.is_none_or(|others| meshed::is_ours(&pod) && !others.iter().any(SkipReason::is_of_the_cluster)) {
        match meshed::inspect(&pod, inputs.facts.server.release) {
            Err(reason) => return draft.deny(reason),
            Ok(repair) if !repair.is_empty() => return repaired(draft, repair),
            Ok(_) => {}
        }
    }
    if let Some(reasons) = reasons {
        return skip(draft, inputs, reasons);
    }
    let installation = inputs.installation;
    if let Some(fault) = installation.fault() {
        return draft.deny(DenyReason::Configuration(fault.to_string()));
    }
    let lack = Lack::of(&inputs.facts);
    let made = configured(inputs, &pod, lack, &mut draft);
    let config = made.config();
    if let Some(problem) = config.fatal_problem() {
        return draft.deny(DenyReason::Value(problem.to_string()));
    }
    if config.values.outrigger.strict {
        let ignored = || lack?.ignored(config);
        if let Some(problem) = config.problems.first().cloned().or_else(ignored) {
            return draft.deny(DenyReason::Value(problem.to_string()));
        }
    }
    let asked = match asked::read(&pod, &inputs.namespace, &mut draft.trace) {
        Ok(asked) => asked,
        Err(value) => return draft.deny(DenyReason::UnknownRedirection(value)),
    };
    // As with Linkerd, pods of a CronJob's Jobs get no label of an owner.
    let owner = inputs.owner.filter(|owner| owner.kind != Some(Kind::CronJob));
    let mut metadata = Metadata::injected(installation, config, owner, inputs.namespace.name);
    metadata.label_account(installation, &pod);
    choice::Choice {
        inputs,
        made: &made,
        pod: &pod,
        asked,
    }
    .make(draft, metadata)
}

/// A service, or anything else that never gets a proxy: only its opaque ports are of interest.
pub fn annotate(
    kind: Kind,
    object: &Value,
    installation: &Installation,
    namespace: &Namespace<'_>,
    trace: Trace,
) -> Decision {
    let mut draft = Draft::new(trace);
    let default = &installation.opaque_ports;
    draft.patch = opaque_ports::patch(kind, object, namespace.annotations, default);
    draft.policies.push(Opinion {
        by: policies::kind::POD_SECURITY,
        policy: Policy::PRIVILEGED.to_string(),
        exempt: None,
        candidate: None,
        verdict: Verdict::Allowed,
        warning: None,
        audit: None,
    });
    draft.skip(SkipReason::UnsupportedResource)
}

/// A pod that is meshed already, with a proxy that needs mending.
fn repaired(mut draft: Draft, repair: Patch) -> Decision {
    draft.patch = repair;
    let text = "linkerd-proxy had lost its restartPolicy, and gets it back".to_owned();
    draft.warn(Caution::ProxyRepaired, text);
    draft.skip(SkipReason::SidecarAlreadyExists)
}

/// What the pod's configuration is made from; `ordinary` where the proxy cannot be a native sidecar.
fn settings<'a>(installation: &Prepared, namespace: &Namespace<'a>, pod: &'a Pod<'a>, ordinary: bool) -> Settings<'a> {
    let layers = Layers {
        namespace: Some(NamespaceLayer {
            annotations: namespace.annotations,
            labels: namespace.labels,
        }),
        pod,
        workload: None,
    };
    let settings = Settings::read(installation, &layers);
    match ordinary {
        true => settings.without_native_sidecars(),
        false => settings,
    }
}

/// The pod's configuration, with a warning for each value that was not taken.
fn configured(inputs: &Inputs<'_>, pod: &Pod<'_>, lack: Option<Lack<'_>>, draft: &mut Draft) -> Arc<Made> {
    let installation = inputs.installation;
    let settings = settings(installation, &inputs.namespace, pod, lack.is_some());
    let made = installation.made(settings);
    let config = made.config();
    installation
        .changes()
        .iter()
        .for_each(|change| draft.trace.note(change));
    config.overridden.iter().for_each(|field| draft.trace.note(field));
    for problem in &config.problems {
        let caution = match problem.consequence {
            Consequence::Kept => Caution::DoubtfulValue,
            Consequence::Ignored => Caution::IgnoredValue,
            // The denial says it.
            Consequence::Fatal => continue,
        };
        draft.warn(caution, problem.to_string());
    }
    if let Some(lack) = lack.filter(|_| config.lost_native_sidecar) {
        draft
            .trace
            .note(format_args!("{lack}: the proxy is an ordinary container"));
        if let Some(problem) = lack.ignored(config) {
            draft.warn(Caution::IgnoredValue, problem.to_string());
        }
    }
    let of_job = |owner: &Owner| matches!(owner.kind, Some(Kind::Job | Kind::CronJob));
    if !config.values.proxy.native_sidecar && inputs.owner.is_some_and(of_job) {
        let text = "the proxy is an ordinary container, which runs on when the Job's own are done".to_owned();
        draft.warn(Caution::JobWillNotFinish, text);
    }
    if let Some(text) = quality::lost_guarantee(pod, config) {
        draft.warn(Caution::GuaranteeLost, text);
    }
    made
}

/// A pod that is left alone still gets the list of its opaque ports, unless nobody will be asked about it, or it is a
/// mirror: one that differs from its static pod in anything is deleted by the kubelet and made anew, for ever.
fn skip(mut draft: Draft, inputs: &Inputs<'_>, reasons: SkipReasons) -> Decision {
    let untouchable = [SkipReason::MirrorPod, SkipReason::WebhooksDisabled];
    if !untouchable.into_iter().any(|reason| reasons.contains(reason)) {
        let default = &inputs.installation.opaque_ports;
        draft.patch = opaque_ports::patch(Kind::Pod, inputs.pod, inputs.namespace.annotations, default);
    }
    draft.skip(reasons)
}

#[cfg(test)]
mod tests;
