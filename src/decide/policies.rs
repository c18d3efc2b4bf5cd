//! Every admission policy as it stands for one pod, and what they say to it and to each candidate.

use super::probing::{self, Probed};
use super::{Inputs, Round, Trace};
use crate::config::{Demand, Figures};
use crate::inject::Redirection;
use crate::pod::{DEFAULT_ACCOUNT, Pod};
use crate::policy::installed::Presence;
use crate::policy::limits::{Limits, Refuser};
use crate::policy::pod_security::{self, Exemption, Review};
use crate::policy::pod_security_policy::{self, POLICY_ANNOTATION};
use crate::policy::{Release, Verdict, scc};
use serde_json::Value;

/// `pod-security` and the like, as reasons, audit annotations and `explain` name the kinds of policies.
pub(super) mod kind {
    pub(in crate::decide) const POD_SECURITY: &str = "pod-security";
    pub(in crate::decide) const POD_SECURITY_POLICY: &str = "pod-security-policy";
    pub(in crate::decide) const CONSTRAINTS: &str = "scc";
    pub(in crate::decide) const LIMIT_RANGE: &str = "limit-range";
    pub(in crate::decide) const RESOURCE_QUOTA: &str = "resource-quota";
    pub(in crate::decide) const VALIDATION: &str = "validation";
    pub(in crate::decide) const PROBE: &str = "probe";
}

/// Every kind of policy that can stand in a pod's way.
pub const KINDS: [&str; 7] = [
    kind::POD_SECURITY,
    kind::POD_SECURITY_POLICY,
    kind::CONSTRAINTS,
    kind::LIMIT_RANGE,
    kind::RESOURCE_QUOTA,
    kind::VALIDATION,
    kind::PROBE,
];

/// The policy of an opinion where none took the pod.
const NO_POLICY: &str = "none";

/// One policy's verdict on one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The policy's kind: `pod-security`, `pod-security-policy`, `scc`, `limit-range`, `resource-quota`,
    /// `validation` or `probe`.
    pub by: &'static str,
    /// Which policy, such as `baseline:latest`; `none` where no policy of that kind takes the pod.
    pub policy: String,
    /// What exempts the pod: `namespace`, `user` or `runtimeClass`.
    pub exempt: Option<&'static str>,
    /// The candidate; nothing for the pod as it came.
    pub candidate: Option<Redirection>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the API server will say to the pod's creator beside the verdict; looked at for a trace that is kept.
    pub warning: Option<String>,
    /// What the API server will write into its audit log; likewise.
    pub audit: Option<String>,
}

/// What every policy says to one pod: Pod Security first, the others where they are there to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Opinions(Vec<Opinion>);

/// Every policy, as it stands for one pod.
pub(super) struct Judges<'a> {
    pub(super) pod_security: pod_security::Admission<'a>,
    pod_security_policies: Option<pod_security_policy::Admission<'a>>,
    constraints: Option<scc::Admission<'a>>,
    limits: &'a Limits,
    /// What a probe found out.
    pub(super) probed: Option<Probed<'a>>,
    release: Release,
}

impl<'a> Judges<'a> {
    pub(super) fn of(inputs: &Inputs<'a>, pod: &Pod<'a>, trace: &mut Trace) -> Self {
        let (pod_security, probed) = probing::read(inputs, pod_security(inputs, trace), trace);
        Self {
            pod_security,
            probed,
            pod_security_policies: pod_security_policies(inputs, pod, trace),
            constraints: constraints(inputs, trace),
            limits: inputs.facts.policies.limits_of(inputs.namespace.name),
            release: inputs.facts.server.release,
        }
    }

    /// The pod as the first round of those policies that change pods leaves it; nothing where they change nothing.
    pub(super) fn after_first_round(&self, pod: &Value) -> Option<Value> {
        if self.pod_security_policies.is_none() && self.constraints.is_none() {
            return None;
        }
        let view = Pod::new(pod);
        let mut changed = pod.clone();
        if let Some(admission) = &self.pod_security_policies
            && let Ok(admitted) = admission.admit(&view)
            && admitted.mutates()
        {
            admitted.apply(&mut changed);
        }
        if let Some(admission) = &self.constraints
            && let scc::Review::Admitted(admitted) = admission.review(&view)
        {
            admitted.apply(&mut changed);
        }
        (changed != *pod).then_some(changed)
    }

    /// OpenShift's answer to a pod.
    pub(super) fn constraint(&self, pod: &Pod<'_>) -> Option<scc::Review<'_>> {
        self.constraints.as_ref().map(|admission| admission.review(pod))
    }

    /// The figures that quotas demand of every container of `pod`.
    pub(super) fn demanded(&self, pod: &Pod<'_>) -> Figures {
        if self.limits.is_empty() {
            return Figures::default();
        }
        let demanded = self.limits.demanded(pod, self.release);
        let of = |resource: &str, limit: &str| {
            let has = |names: [&str; 2]| names.iter().any(|name| demanded.contains(name));
            match (
                demanded.contains(limit),
                has([resource, &format!("requests.{resource}")]),
            ) {
                (true, _) => Demand::Limit,
                (false, true) => Demand::Request,
                (false, false) => Demand::Nothing,
            }
        };
        Figures {
            cpu: of("cpu", "limits.cpu"),
            memory: of("memory", "limits.memory"),
        }
    }

    /// What every policy says to `pod`, a candidate with that redirection or the pod as it came.
    pub(super) fn review(&self, pod: &Pod<'_>, candidate: Option<Redirection>) -> Opinions {
        let mut all = vec![of_pod_security(self.pod_security.review(pod), candidate)];
        let opinion = |by, policy: &str, verdict| Opinion {
            by,
            policy: policy.to_owned(),
            exempt: None,
            candidate,
            verdict,
            warning: None,
            audit: None,
        };
        if let Some(admission) = &self.pod_security_policies {
            all.push(match admission.review(pod) {
                Ok(policy) => opinion(kind::POD_SECURITY_POLICY, policy, Verdict::Allowed),
                Err(refusal) => {
                    let message = refusal.to_string();
                    opinion(kind::POD_SECURITY_POLICY, NO_POLICY, Verdict::Denied { message })
                }
            });
        }
        if let Some(admission) = &self.constraints {
            let review = admission.review(pod);
            let policy = match &review {
                scc::Review::Admitted(admitted) => admitted.constraint,
                scc::Review::Exempt | scc::Review::Refused { .. } | scc::Review::Unknown { .. } => NO_POLICY,
            };
            all.push(opinion(kind::CONSTRAINTS, policy, review.verdict()));
        }
        if let Err(refusal) = self.limits.review(pod, self.release) {
            let message = refusal.to_string();
            let (by, policy) = match &refusal.by {
                Refuser::Validation => (kind::VALIDATION, "resources"),
                Refuser::LimitRange(name) => (kind::LIMIT_RANGE, name.as_str()),
                Refuser::ResourceQuota(name) => (kind::RESOURCE_QUOTA, name.as_str()),
            };
            all.push(opinion(by, policy, Verdict::Denied { message }));
        }
        if let (Some(probed), Some(candidate)) = (&self.probed, candidate) {
            let by_pod_security = all.first().map_or(&Verdict::Allowed, |opinion| &opinion.verdict);
            let opinion = probed.opinion(candidate, by_pod_security);
            all.extend(opinion);
        }
        Opinions(all)
    }
}

impl Opinions {
    /// Whether every policy admits the pod.
    pub(super) fn admit(&self) -> bool {
        self.0.iter().all(|opinion| opinion.verdict == Verdict::Allowed)
    }

    /// What policies say against the pod and did not say of `before`, the pod as it came.
    pub(super) fn against<'o>(&'o self, before: &'o Self) -> impl Iterator<Item = &'o Opinion> {
        let said = |opinion: &&Opinion| {
            let same = |other: &Opinion| other.by == opinion.by && other.verdict == opinion.verdict;
            opinion.verdict != Verdict::Allowed && !before.0.iter().any(same)
        };
        self.0.iter().filter(said)
    }

    /// Every opinion, Pod Security's first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Opinion> {
        self.0.iter()
    }

    /// Every verdict that is not `Allowed`, or that all are.
    pub(super) fn say(&self) -> String {
        let said: Vec<_> = self
            .0
            .iter()
            .filter(|it| it.verdict != Verdict::Allowed)
            .map(Opinion::say)
            .collect();
        match said.is_empty() {
            true => "admitted".to_owned(),
            false => said.join("; "),
        }
    }

    pub(super) fn into_vec(self) -> Vec<Opinion> {
        self.0
    }
}

impl Opinion {
    /// Whether the policy refuses the pod.
    pub(super) fn denies(&self) -> bool {
        matches!(self.verdict, Verdict::Denied { .. })
    }

    /// The verdict in a word or a sentence.
    pub(super) fn say(&self) -> &str {
        match &self.verdict {
            Verdict::Allowed => "admitted",
            Verdict::Denied { message } => message,
            Verdict::Unknown { why } => why,
        }
    }
}

/// Pod Security's words on a candidate.
pub(super) fn of_pod_security(review: Review, candidate: Option<Redirection>) -> Opinion {
    Opinion {
        by: kind::POD_SECURITY,
        policy: review.policy.to_string(),
        exempt: review.exempt.map(Exemption::name),
        candidate,
        verdict: review.verdict,
        warning: review.warning,
        audit: review.audit,
    }
}

/// Pod Security, as it stands for the pod. What it says beside its verdicts is of interest to readers of the trace alone.
pub(super) fn pod_security<'a>(inputs: &Inputs<'a>, trace: &Trace) -> pod_security::Admission<'a> {
    let Inputs {
        facts,
        namespace,
        requester,
        ..
    } = *inputs;
    let question = pod_security::Question {
        server: facts.server,
        configuration: facts.pod_security,
        namespace: namespace.name,
        labels: namespace.labels,
        user: &requester.user,
    };
    match trace.is_kept() {
        true => question.admission(),
        false => question.admission().without_remarks(),
    }
}

fn pod_security_policies<'a>(
    inputs: &Inputs<'a>,
    pod: &Pod<'a>,
    trace: &mut Trace,
) -> Option<pod_security_policy::Admission<'a>> {
    let present = known(
        &inputs.facts.policies.pod_security_policies,
        kind::POD_SECURITY_POLICY,
        trace,
    )?;
    // The first round leaves its mark on every pod that it admits: without one the server does not ask these policies.
    if inputs.facts.round == Round::Second && pod.annotation(POLICY_ANNOTATION).is_none() {
        trace.note("PodSecurityPolicies have not judged the pod: the API server does not ask them");
        return None;
    }
    // The API server's ServiceAccount plugin comes first.
    let filled_in = (inputs.facts.round == Round::First).then_some(DEFAULT_ACCOUNT);
    let question = pod_security_policy::Question {
        release: inputs.facts.server.release,
        policies: &present.policies,
        grants: &present.grants,
        namespace: inputs.namespace.name,
        requester: inputs.requester,
        service_account: pod.service_account().or(filled_in),
    };
    Some(question.admission())
}

fn constraints<'a>(inputs: &Inputs<'a>, trace: &mut Trace) -> Option<scc::Admission<'a>> {
    let present = known(&inputs.facts.policies.constraints, kind::CONSTRAINTS, trace)?;
    let question = scc::Question {
        constraints: &present.policies,
        grants: &present.grants,
        server: inputs.facts.server.release,
        namespace: inputs.namespace.name,
        labels: inputs.namespace.labels,
        annotations: inputs.namespace.annotations,
        requester: inputs.requester,
    };
    Some(question.admission())
}

/// The policies where there are some; a line in the trace where that is not known, or may have changed.
fn known<'a, P>(presence: &'a Presence<P>, by: &str, trace: &mut Trace) -> Option<&'a P> {
    match presence {
        Presence::Absent => None,
        Presence::Unknown { why } => {
            trace.note(format_args!("{by}: unknown: {why}"));
            None
        }
        Presence::Present { policies, stale } => {
            if let Some(why) = stale {
                trace.note(format_args!("{by}: stale: {why}"));
            }
            Some(policies)
        }
    }
}
