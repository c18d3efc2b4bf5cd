//! One workload with its decision, as JSON has it.

use super::egress::Said;
use crate::config::annotation::OPAQUE_PORTS;
use crate::decide::{Decision, Opinion, Outcome};
use crate::inject::Redirection;
use crate::inject::patch::Patch;
use crate::policy::Verdict;
use anyhow::{Result, anyhow};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A workload and what becomes of its pods.
pub(in crate::cli) struct Entry {
    /// `Kind/name`
    pub(in crate::cli) workload: String,
    /// The workload's namespace.
    pub(in crate::cli) namespace: String,
    /// The decision; its patch is for the pod, not for the workload.
    pub(in crate::cli) decision: Decision,
    /// The pod, or the template that it is made from; of a service, the service.
    pub(in crate::cli) before: Value,
    /// What egress policies say to its pods, where any is for them.
    pub(in crate::cli) egress: Option<Said>,
}

impl Entry {
    /// The pod after the patch.
    pub(in crate::cli) fn after(&self) -> Result<Value> {
        let after = self.decision.patch.applied_to(&self.before);
        after.map_err(|error| anyhow!("patch of {}: {error}", self.workload))
    }

    /// The annotation that is written on an object which is left alone otherwise.
    pub(super) fn opaque_ports(&self) -> Option<String> {
        let annotation = |object: &Value| {
            let annotations = object.pointer("/metadata/annotations")?;
            annotations.get(OPAQUE_PORTS)?.as_str().map(str::to_owned)
        };
        let left_alone = matches!(self.decision.outcome, Outcome::Skip(_)) && !self.decision.patch.is_empty();
        if !left_alone || annotation(&self.before).is_some() {
            return None;
        }
        annotation(&self.after().ok()?)
    }

    /// Whether it makes no pods, so that no policy for pods has anything to say.
    pub(super) fn is_service(&self) -> bool {
        self.decision.code() == "unsupported_resource"
    }

    /// Whether the line in the table is all that there is to say: a service that stays as it is.
    pub(super) fn goes_without_saying(&self) -> bool {
        self.is_service() && self.decision.patch.is_empty()
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let decision = &self.decision;
        Fields {
            workload: &self.workload,
            namespace: &self.namespace,
            outcome: decision.word(),
            reason: decision.code(),
            message: decision.message(),
            redirection: decision.redirection().word(),
            policies: decision
                .policies
                .iter()
                .map(|opinion| Policy::beside(opinion, decision))
                .collect(),
            warnings: decision.warnings.iter().map(ToString::to_string).collect(),
            egress: self.egress.as_ref(),
            trace: decision.trace.facts(),
            patch: &decision.patch,
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
struct Fields<'a> {
    workload: &'a str,
    namespace: &'a str,
    outcome: &'static str,
    reason: &'static str,
    message: String,
    redirection: &'static str,
    policies: Vec<Policy<'a>>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<&'a Said>,
    trace: &'a [String],
    patch: &'a Patch,
}

/// One policy's verdict.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are those of the JSON")]
pub(super) struct Policy<'a> {
    pub(super) by: &'static str,
    pub(super) policy: &'a str,
    pub(super) verdict: &'static str,
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exempt: Option<&'static str>,
    /// The redirection that was judged, where it is not the one that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<&'static str>,
    // What the API server says beside the verdict stands in the trace.
    #[serde(skip)]
    pub(super) warning: Option<&'a str>,
    #[serde(skip)]
    pub(super) audit: Option<&'a str>,
}

impl<'a> Policy<'a> {
    pub(super) fn of(opinion: &'a Opinion) -> Self {
        let (verdict, message) = match &opinion.verdict {
            Verdict::Allowed => ("allowed", ""),
            Verdict::Denied { message } => ("denied", message.as_str()),
            Verdict::Unknown { why } => ("unknown", why.as_str()),
        };
        Self {
            by: opinion.by,
            policy: &opinion.policy,
            verdict,
            message,
            exempt: opinion.exempt,
            candidate: opinion.candidate.map(Redirection::word),
            warning: opinion.warning.as_deref(),
            audit: opinion.audit.as_deref(),
        }
    }

    fn beside(opinion: &'a Opinion, decision: &Decision) -> Self {
        let injected = matches!(decision.outcome, Outcome::Inject { .. });
        let all = Self::of(opinion);
        Self {
            candidate: all.candidate.filter(|_| !injected),
            ..all
        }
    }
}
