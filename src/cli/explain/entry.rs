//! One workload with its decision, as JSON has it.

use crate::decide::{Decision, Opinion};
use crate::inject::patch::Patch;
use crate::policy::Verdict;
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
    /// The pod, or the template that it is made from.
    pub(in crate::cli) before: Value,
}

impl Entry {
    /// The pod after the patch.
    pub(in crate::cli) fn after(&self) -> Value {
        let mut after = self.before.clone();
        let patch = serde_json::from_slice::<json_patch::Patch>(self.decision.patch.as_json());
        // Every path of our own patches exists by then: a pod that could not be patched would be shown unchanged.
        let _unchanged = patch.map(|patch| json_patch::patch(&mut after, &patch).is_ok());
        after
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
            policies: decision.policies.iter().map(Policy::of).collect(),
            warnings: decision.warnings.iter().map(ToString::to_string).collect(),
            trace: &decision.trace,
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
    trace: &'a [String],
    patch: &'a Patch,
}

/// One policy's verdict.
#[derive(Serialize)]
pub(super) struct Policy<'a> {
    pub(super) by: &'static str,
    pub(super) policy: &'a str,
    pub(super) verdict: &'static str,
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exempt: Option<&'static str>,
    /// The redirection that was judged, where it is not the one that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidate: Option<&'static str>,
}

impl<'a> Policy<'a> {
    pub(super) fn of(opinion: &'a Opinion) -> Self {
        let (verdict, message) = match &opinion.verdict {
            Verdict::Allowed => ("allowed", ""),
            Verdict::Denied { message } => ("denied", message.as_str()),
            Verdict::Unknown { why } => ("unknown", why.as_str()),
        };
        let candidate = opinion.candidate.map(crate::inject::Redirection::word);
        Self {
            by: opinion.by,
            policy: &opinion.policy,
            verdict,
            message,
            exempt: opinion.exempt,
            candidate,
        }
    }
}
