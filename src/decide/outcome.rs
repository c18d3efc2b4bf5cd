//! The decision as a value: outcome, verdicts, warnings, trace and patch.

use super::caution::{Caution, Warning};
use super::eligibility::{AnnotatedAt, SkipReason};
use super::reason::{DenyReason, InjectReason};
use super::refusal::Refusal;
use crate::inject::Redirection;
use crate::inject::patch::Patch;
use crate::policy::Verdict;

/// What becomes of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It gets the proxy.
    Inject {
        /// How its traffic reaches the proxy.
        redirection: Redirection,
        /// Why that way.
        reason: InjectReason,
    },
    /// It is admitted as it is, for the first of these reasons; the list is never empty.
    Skip(Vec<SkipReason>),
    /// It is refused.
    Deny(DenyReason),
}

/// One policy's verdict on one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The policy's kind, `pod-security`.
    pub by: &'static str,
    /// Which policy, such as `baseline:latest`.
    pub policy: String,
    /// What exempts the pod: `namespace`, `user` or `runtimeClass`.
    pub exempt: Option<&'static str>,
    /// The candidate; nothing for the pod as it came.
    pub candidate: Option<Redirection>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the API server will say to the pod's creator beside the verdict.
    pub warning: Option<String>,
    /// What the API server will write into its audit log.
    pub audit: Option<String>,
}

/// A decision with everything that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What becomes of the pod.
    pub outcome: Outcome,
    /// Where `linkerd.io/inject` decided.
    pub annotated_at: Option<AnnotatedAt>,
    /// What the policies said.
    pub policies: Vec<Opinion>,
    /// What its author should know.
    pub warnings: Vec<Warning>,
    /// Every fact that was looked at, in order.
    pub trace: Vec<String>,
    /// The patch of the pod; empty where nothing is to be changed.
    pub patch: Patch,
}

impl Default for Decision {
    fn default() -> Self {
        Self {
            outcome: Outcome::Skip(Vec::new()),
            annotated_at: None,
            policies: Vec::new(),
            warnings: Vec::new(),
            trace: Vec::with_capacity(16),
            patch: Patch::default(),
        }
    }
}

impl Decision {
    /// The reason as a stable snake-case word.
    pub fn code(&self) -> &'static str {
        match &self.outcome {
            Outcome::Inject { reason, .. } => reason.code(),
            Outcome::Skip(reasons) => reasons.first().map_or("skipped", |reason| reason.code()),
            Outcome::Deny(reason) => reason.code(),
        }
    }

    /// The reason as a sentence.
    pub fn message(&self) -> String {
        match &self.outcome {
            Outcome::Inject { reason, .. } => reason.to_string(),
            Outcome::Skip(reasons) => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            Outcome::Deny(reason) => reason.to_string(),
        }
    }

    /// How traffic is redirected: not at all where the pod is not injected.
    pub fn redirection(&self) -> Redirection {
        match self.outcome {
            Outcome::Inject { redirection, .. } => redirection,
            Outcome::Skip(_) | Outcome::Deny(_) => Redirection::None,
        }
    }

    /// `inject`, `skip` or `deny`.
    pub fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Inject { .. } => "inject",
            Outcome::Skip(_) => "skip",
            Outcome::Deny(_) => "deny",
        }
    }

    /// The opinion on what becomes of the pod, or the last that refused it: candidates are judged in order, and the one
    /// that is taken stands alone.
    pub fn decided_by(&self) -> Option<&Opinion> {
        self.policies.last()
    }

    /// Whether a policy refuses the pod that results, whoever is to blame.
    pub fn would_be_refused(&self) -> bool {
        let denied = |opinion: &Opinion| matches!(opinion.verdict, Verdict::Denied { .. });
        matches!(self.outcome, Outcome::Deny(_)) || self.decided_by().is_some_and(denied)
    }

    pub(super) fn warn(&mut self, caution: Caution, text: String) {
        let warning = Warning { caution, text };
        self.trace.push(format!("warning {warning}"));
        self.warnings.push(warning);
    }

    pub(super) fn skip(mut self, reasons: Vec<SkipReason>) -> Self {
        self.outcome = Outcome::Skip(reasons);
        self.trace.push(format!("left alone: {}", self.message()));
        self
    }

    pub(super) fn deny(mut self, reason: DenyReason) -> Self {
        self.patch = Patch::default();
        // The attempts of a refusal stand in the trace already.
        let refused = matches!(reason, DenyReason::NoRedirection(_));
        let gist = if refused {
            Refusal::GIST.to_owned()
        } else {
            reason.to_string()
        };
        self.trace.push(format!("denied: {gist}"));
        self.outcome = Outcome::Deny(reason);
        self
    }
}
