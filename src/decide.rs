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
pub mod placement;
pub mod users;

mod caution;
mod choice;
mod meshed;
mod outcome;
mod ranking;
mod reason;
mod refusal;
mod setup;

pub use caution::{Caution, Warning};
pub use coverage::Coverage;
pub use eligibility::{AnnotatedAt, SkipReason};
pub use outcome::{Decision, Opinion, Outcome};
#[cfg(feature = "webhook")]
pub(crate) use ranking::container_of_user;
pub use reason::{DenyReason, InjectReason};
pub use refusal::Refusal;
pub use setup::{Setup, SetupError};

use crate::config::{Config, Consequence, Installation, Layers, NamespaceLayer};
use crate::inject::patch::Patch;
use crate::inject::{Metadata, Owner, Prepared, opaque_ports};
use crate::pod::workload::Kind;
use crate::pod::{Pod, structure};
use crate::policy::pod_security::{Configuration, Policy, Server};
use crate::policy::{Release, Verdict};
use serde_json::{Map, Value};

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
    /// Whether the CNI plugin on the nodes is Linkerd's, which ignores `linkerd.io/setup-iptables: "false"`.
    pub foreign_plugin: bool,
    /// Whether the facts may be out of date.
    pub stale: bool,
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
    /// The name of the user who creates the pod.
    pub requester: &'a str,
    /// The configuration. What it lacks keeps only pods out that would be injected.
    pub installation: &'a Prepared,
    /// What is known about the cluster.
    pub facts: Facts<'a>,
}

/// Decides what becomes of one pod.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let mut decision = judge(inputs);
    if decision.policies.is_empty() {
        decision.policies.push(choice::as_it_came(inputs));
    }
    if let (Some(last), false) = (decision.policies.last(), matches!(decision.outcome, Outcome::Deny(_))) {
        let said = [("warns", &last.warning), ("audits", &last.audit)];
        let said = said.map(|(verb, text)| Some(format!("{} {verb}: the pod {}", last.by, text.as_ref()?)));
        decision.trace.extend(said.into_iter().flatten());
    }
    decision
}

fn judge(inputs: &Inputs<'_>) -> Decision {
    let pod = Pod::new(inputs.pod);
    let mut decision = Decision::default();
    let eligibility = eligibility::judge(&pod, &inputs.namespace, inputs.installation, &mut decision.trace);
    decision.annotated_at = eligibility.annotated_at;
    let meshed = eligibility.reasons == [SkipReason::SidecarAlreadyExists];
    if !eligibility.reasons.is_empty() && !meshed {
        return skip(decision, inputs, eligibility.reasons);
    }
    if let Err(malformed) = structure::of_pod(inputs.pod) {
        return decision.deny(DenyReason::Malformed(malformed));
    }
    match meshed::inspect(&pod, inputs.facts.server.release) {
        Err(reason) => return decision.deny(reason),
        Ok(repair) if !repair.is_empty() => return repaired(decision, repair),
        Ok(_) if meshed => return skip(decision, inputs, eligibility.reasons),
        Ok(_) => {}
    }
    let installation = inputs.installation;
    if let Err(error) = installation.check() {
        return decision.deny(DenyReason::Configuration(error.to_string()));
    }
    let config = effective(inputs, installation, &pod, &mut decision);
    if let Some(problem) = config.fatal_problem() {
        return decision.deny(DenyReason::Value(problem.to_string()));
    }
    if let Some(problem) = config.problems.first().filter(|_| config.values.outrigger.strict) {
        return decision.deny(DenyReason::Value(problem.to_string()));
    }
    let asked = match asked::read(&pod, &inputs.namespace, &mut decision.trace) {
        Ok(asked) => asked,
        Err(value) => return decision.deny(DenyReason::UnknownRedirection(value)),
    };
    // As with Linkerd, pods of a CronJob's Jobs get no label of an owner.
    let owner = inputs.owner.filter(|owner| owner.kind != Some(Kind::CronJob));
    let metadata = Metadata::injected(installation, &config, owner, inputs.namespace.name);
    choice::Choice {
        inputs,
        installation,
        config: &config,
        pod: &pod,
    }
    .make(decision, asked, metadata)
}

/// A service, or anything else that never gets a proxy: only its opaque ports are of interest.
pub fn annotate(kind: Kind, object: &Value, installation: &Installation, namespace: &Namespace<'_>) -> Decision {
    let mut decision = Decision::default();
    let default = &installation.values.proxy.opaque_ports;
    decision.patch = opaque_ports::patch(kind, object, namespace.annotations, default);
    decision.policies.push(Opinion {
        by: "pod-security",
        policy: Policy::PRIVILEGED.to_string(),
        exempt: None,
        candidate: None,
        verdict: Verdict::Allowed,
        warning: None,
        audit: None,
    });
    decision.skip(vec![SkipReason::UnsupportedResource])
}

/// A pod that is meshed already, with a proxy that needs mending.
fn repaired(mut decision: Decision, repair: Patch) -> Decision {
    decision.patch = repair;
    let text = "linkerd-proxy had lost its restartPolicy, and gets it back".to_owned();
    decision.warn(Caution::ProxyRepaired, text);
    decision.skip(vec![SkipReason::SidecarAlreadyExists])
}

/// The pod's configuration, with a warning for each value that was not taken.
fn effective(inputs: &Inputs<'_>, installation: &Installation, pod: &Pod<'_>, decision: &mut Decision) -> Config {
    let layers = Layers {
        namespace: Some(NamespaceLayer {
            annotations: inputs.namespace.annotations,
            labels: inputs.namespace.labels,
        }),
        pod,
        workload: None,
    };
    let mut config = Config::effective(installation, &layers);
    decision.trace.extend_from_slice(installation.changes());
    decision.trace.extend(config.overridden.iter().map(ToString::to_string));
    for problem in &config.problems {
        let caution = match problem.consequence {
            Consequence::Kept => Caution::DoubtfulValue,
            Consequence::Ignored => Caution::IgnoredValue,
            // The denial says it.
            Consequence::Fatal => continue,
        };
        decision.warn(caution, problem.to_string());
    }
    let release = inputs.facts.server.release;
    // The sidecar containers of Kubernetes are on by default from 1.29; an older server drops their restartPolicy.
    if config.values.proxy.native_sidecar && release < Release::NATIVE_SIDECARS {
        config.changed().proxy.native_sidecar = false;
        decision.trace.push(format!(
            "Kubernetes {release} has no native sidecars: the proxy is an ordinary container"
        ));
    }
    let of_job = |owner: &Owner| matches!(owner.kind, Some(Kind::Job | Kind::CronJob));
    if !config.values.proxy.native_sidecar && inputs.owner.is_some_and(of_job) {
        let text = "the proxy is an ordinary container, which runs on when the Job's own are done".to_owned();
        decision.warn(Caution::JobWillNotFinish, text);
    }
    config
}

/// A pod that is left alone still gets the list of its opaque ports, unless it is a mirror: one that differs from its
/// static pod in anything is deleted by the kubelet and made anew, for ever.
fn skip(mut decision: Decision, inputs: &Inputs<'_>, reasons: Vec<SkipReason>) -> Decision {
    if !reasons.contains(&SkipReason::MirrorPod) {
        let default = &inputs.installation.values.proxy.opaque_ports;
        decision.patch = opaque_ports::patch(Kind::Pod, inputs.pod, inputs.namespace.annotations, default);
    }
    decision.skip(reasons)
}

#[cfg(test)]
mod tests;
