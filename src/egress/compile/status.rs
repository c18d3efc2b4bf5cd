//! What becomes of a policy: the conditions of its status.

use crate::egress::policy::{Policy, PolicyError};
use crate::egress::support::RefusalReason;
use serde::Serialize;
use std::collections::BTreeSet;

/// What becomes of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The policy, as its identifier is written.
    pub policy: String,
    /// `Accepted`, then `Programmed`.
    pub conditions: [Condition; 2],
}

/// A condition (`meta/v1` `Condition`), but for the time and the generation that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Which one.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in a word.
    pub reason: &'static str,
    /// Why.
    pub message: String,
}

/// What became of a policy when it was compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Programmed {
    /// How many ports have routes of it.
    pub(super) routes: usize,
    /// How many have none, though they should.
    pub(super) missing: usize,
    /// How many hosts are decided by others, port by port.
    pub(super) left_to_others: usize,
    /// What stood against it.
    pub(super) conflicts: BTreeSet<String>,
    /// What the proxy does not do, and somebody else may.
    pub(super) pending: BTreeSet<String>,
    /// What comes out otherwise than one might think.
    pub(super) notes: BTreeSet<String>,
    /// `EgressNetworks` of others that count in its place.
    pub(super) foreign: BTreeSet<String>,
}

impl Programmed {
    /// Adds what became of it in another namespace.
    pub(super) fn merge(&mut self, namespace: &str, other: Self) {
        self.routes += other.routes;
        self.missing += other.missing;
        self.left_to_others += other.left_to_others;
        let place = |text: String| format!("namespace {namespace}: {text}");
        self.conflicts.extend(other.conflicts.into_iter().map(place));
        self.pending.extend(other.pending);
        self.notes.extend(other.notes);
        self.foreign.extend(other.foreign);
    }

    fn condition(&self) -> Condition {
        let joined = |texts: &BTreeSet<String>| texts.iter().cloned().collect::<Vec<_>>().join("; ");
        let notes = joined(&self.notes);
        let (status, reason, message) = if !self.foreign.is_empty() {
            let names = joined(&self.foreign);
            let message = format!("EgressNetworks that are not Outrigger's count in its place or beside it: {names}");
            ("False", "ForeignEgressNetwork", message)
        } else if self.missing > 0 {
            ("False", "Conflicted", joined(&self.conflicts))
        } else if self.routes == 0 && self.left_to_others > 0 {
            ("False", "Shadowed", joined(&self.conflicts))
        } else if !self.pending.is_empty() {
            ("Unknown", "Pending", joined(&self.pending))
        } else if !self.conflicts.is_empty() {
            ("True", "Overridden", joined(&self.conflicts))
        } else {
            ("True", "Programmed", notes)
        };
        Condition {
            kind: "Programmed",
            status,
            reason,
            message,
        }
    }
}

impl Verdict {
    /// What becomes of `policy`, which was compiled as `programmed` says where it is accepted.
    pub(super) fn of(policy: &Policy, programmed: &Programmed) -> Self {
        let refusals = policy.refusals();
        let Some(first) = refusals.first() else {
            let id = policy.id.to_string();
            return Self::new(&id, "True", "Accepted", String::new(), programmed.condition());
        };
        let messages: Vec<_> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
        Self::refused(&policy.id.to_string(), first.reason, messages.join("; "))
    }

    pub(super) fn invalid(error: &PolicyError) -> Self {
        Self::refused(&error.object, RefusalReason::Invalid, error.faults.join("; "))
    }

    fn refused(policy: &str, reason: RefusalReason, message: String) -> Self {
        let last = Condition {
            kind: "Programmed",
            status: "False",
            reason: "NotAccepted",
            message: String::new(),
        };
        Self::new(policy, "False", reason.code(), message, last)
    }

    fn new(policy: &str, status: &'static str, reason: &'static str, message: String, programmed: Condition) -> Self {
        let accepted = Condition {
            kind: "Accepted",
            status,
            reason,
            message,
        };
        Self {
            policy: policy.to_owned(),
            conditions: [accepted, programmed],
        }
    }

    /// Whether it is enforced as it is written, as far as is known.
    pub fn is_good(&self) -> bool {
        self.conditions.iter().all(|condition| condition.status != "False")
    }
}
