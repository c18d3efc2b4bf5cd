//! The decision as a value: outcome, verdicts, warnings, trace and patch.

use super::caution::{Caution, Warning};
use super::eligibility::{AnnotatedAt, SkipReason};
use super::policies::{Opinion, kind};
use super::reason::{DenyReason, InjectReason};
use super::refusal::Refusal;
use super::trace::Trace;
use crate::config::Variant;
use crate::inject::Redirection;
use crate::inject::patch::Patch;
use std::fmt;

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
    /// It is admitted as it is, for the first of these reasons.
    Skip(SkipReasons),
    /// It is refused.
    Deny(DenyReason),
}

/// Why a pod is left alone: one reason at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipReasons {
    first: SkipReason,
    others: Vec<SkipReason>,
}

impl SkipReasons {
    /// The reasons in order; nothing where there is none.
    pub fn of(reasons: impl IntoIterator<Item = SkipReason>) -> Option<Self> {
        let mut reasons = reasons.into_iter();
        Some(Self {
            first: reasons.next()?,
            others: reasons.collect(),
        })
    }

    /// The reason that counts.
    pub fn first(&self) -> SkipReason {
        self.first
    }

    /// Every reason, in order.
    pub fn iter(&self) -> impl Iterator<Item = SkipReason> {
        [self.first].into_iter().chain(self.others.iter().copied())
    }

    /// Whether `reason` is one of them.
    pub fn contains(&self, reason: SkipReason) -> bool {
        self.iter().any(|own| own == reason)
    }
}

impl From<SkipReason> for SkipReasons {
    fn from(first: SkipReason) -> Self {
        Self {
            first,
            others: Vec::new(),
        }
    }
}

impl fmt::Display for SkipReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|reason| write!(f, ", {reason}"))
    }
}

/// What is done otherwise than the values say, so that policies take the pod and nodes can run it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tailoring {
    /// What a policy refuses otherwise.
    pub variant: Variant,
    /// A label that the pod's node must have.
    pub node_selector: Option<(String, String)>,
    /// Whether the debug container that was asked for is left out.
    pub without_debug: bool,
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
    pub trace: Trace,
    /// The patch of the pod; empty where nothing is to be changed.
    pub patch: Patch,
    /// What the patch does otherwise than the values say.
    pub tailoring: Tailoring,
}

/// A decision under way: everything but its outcome.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) annotated_at: Option<AnnotatedAt>,
    pub(super) policies: Vec<Opinion>,
    pub(super) warnings: Vec<Warning>,
    pub(super) trace: Trace,
    pub(super) patch: Patch,
    pub(super) tailoring: Tailoring,
}

impl Decision {
    /// The reason as a stable snake-case word.
    pub fn code(&self) -> &'static str {
        match &self.outcome {
            Outcome::Inject { reason, .. } => reason.code(),
            Outcome::Skip(reasons) => reasons.first().code(),
            Outcome::Deny(reason) => reason.code(),
        }
    }

    /// The reason as a sentence.
    pub fn message(&self) -> String {
        match &self.outcome {
            Outcome::Inject { reason, .. } => reason.to_string(),
            Outcome::Skip(reasons) => reasons.to_string(),
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

    /// What Pod Security says to what becomes of the pod, or to the last candidate that was refused: candidates are judged
    /// in order, and the one that is taken stands alone.
    pub fn pod_security(&self) -> Option<&Opinion> {
        let mut opinions = self.policies.iter().rev();
        opinions.find(|opinion| opinion.by == kind::POD_SECURITY)
    }

    /// Whether a policy refuses the pod that results, whoever is to blame.
    pub fn would_be_refused(&self) -> bool {
        let result = match self.outcome {
            Outcome::Inject { redirection, .. } => Some(redirection),
            Outcome::Skip(_) => None,
            Outcome::Deny(_) => return true,
        };
        let mut opinions = self.policies.iter();
        opinions.any(|opinion| opinion.candidate == result && opinion.denies())
    }

    /// Adds a warning.
    #[cfg(feature = "webhook")]
    pub(crate) fn warn(&mut self, caution: Caution, text: String) {
        push_warning(&mut self.warnings, &mut self.trace, Warning { caution, text });
    }
}

impl Draft {
    pub(super) fn new(trace: Trace) -> Self {
        Self {
            annotated_at: None,
            policies: Vec::new(),
            warnings: Vec::new(),
            trace,
            patch: Patch::default(),
            tailoring: Tailoring::default(),
        }
    }

    pub(super) fn warn(&mut self, caution: Caution, text: String) {
        push_warning(&mut self.warnings, &mut self.trace, Warning { caution, text });
    }

    pub(super) fn inject(mut self, redirection: Redirection, reason: InjectReason) -> Decision {
        self.trace.note(format_args!("chosen: {redirection}, as {reason}"));
        self.decided(Outcome::Inject { redirection, reason })
    }

    pub(super) fn skip(mut self, reasons: impl Into<SkipReasons>) -> Decision {
        let reasons = reasons.into();
        self.trace.note(format_args!("left alone: {reasons}"));
        self.decided(Outcome::Skip(reasons))
    }

    pub(super) fn deny(mut self, reason: DenyReason) -> Decision {
        self.patch = Patch::default();
        // The attempts of a refusal stand in the trace already.
        if let DenyReason::NoRedirection(_) = reason {
            self.trace.note(format_args!("denied: {}", Refusal::GIST));
        } else {
            self.trace.note(format_args!("denied: {reason}"));
        }
        self.decided(Outcome::Deny(reason))
    }

    fn decided(self, outcome: Outcome) -> Decision {
        let Self {
            annotated_at,
            policies,
            warnings,
            trace,
            patch,
            tailoring,
        } = self;
        Decision {
            outcome,
            annotated_at,
            policies,
            warnings,
            trace,
            patch,
            tailoring,
        }
    }
}

fn push_warning(warnings: &mut Vec<Warning>, trace: &mut Trace, warning: Warning) {
    trace.note(format_args!("warning {warning}"));
    warnings.push(warning);
}
