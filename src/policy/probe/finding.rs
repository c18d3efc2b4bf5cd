//! What the dry runs in one namespace amount to.

use super::answer::{Answer, Cause, Refusal};
use super::reading;
use super::report::MAX_AGE;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::time::Duration;

/// The shapes of an injected pod that a policy may tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// With `linkerd-init`.
    InitContainer,
    /// With the validator.
    Cni,
}

impl Shape {
    /// Both.
    pub const ALL: [Self; 2] = [Self::InitContainer, Self::Cni];

    /// `init-container` or `cni`.
    pub fn word(self) -> &'static str {
        match self {
            Self::InitContainer => "init-container",
            Self::Cni => "cni",
        }
    }
}

/// What was found out in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// When, in seconds since 1970.
    pub at: u64,
    /// The [`digest`] of the labels that the namespace had: policies select namespaces by them.
    pub labels: String,
    /// The plain pod.
    pub plain: Answer,
    /// The same with `linkerd-init`.
    pub init_container: Answer,
    /// The same with the validator.
    pub cni: Answer,
}

/// What a finding says of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'f> {
    /// No policy refuses it.
    Admitted,
    /// A policy refuses it, and not the plain pod.
    Refused(&'f Refusal),
    /// Nothing: the dry run with this answer has failed.
    Unknown(&'f Answer),
}

impl Finding {
    /// What it says of `shape`. Only where the plain pod is admitted it says something.
    pub fn of(&self, shape: Shape) -> Found<'_> {
        let answer = match (&self.plain, shape) {
            (Answer::Refused(_) | Answer::Unknown(_), _) => return Found::Unknown(&self.plain),
            (Answer::Admitted, Shape::InitContainer) => &self.init_container,
            (Answer::Admitted, Shape::Cni) => &self.cni,
        };
        match answer {
            Answer::Admitted => Found::Admitted,
            Answer::Refused(refusal) => Found::Refused(refusal),
            Answer::Unknown(_) => Found::Unknown(answer),
        }
    }

    /// Whether it says nothing of any shape, and why.
    pub fn doubt(&self) -> Option<String> {
        match self.plain {
            Answer::Admitted => {}
            Answer::Refused(_) | Answer::Unknown(_) => return Some(format!("a plain pod is {} too", self.plain)),
        }
        let unknown = |shape| matches!(self.of(shape), Found::Unknown(_));
        Shape::ALL
            .into_iter()
            .all(unknown)
            .then(|| self.init_container.to_string())
    }

    /// The same, where a dry run has failed for a reason which passes with what `before` tells instead, as long as that
    /// counts: it is then as old as that.
    #[must_use]
    pub fn or_known(self, before: &Self) -> Self {
        let counts = before.labels == self.labels && self.at.saturating_sub(before.at) <= MAX_AGE.as_secs();
        let failed = |answer: &Answer| answer.cause().is_some_and(Cause::passes);
        if !counts || before.plain != Answer::Admitted || !self.answers().into_iter().any(failed) {
            return self;
        }
        if failed(&self.plain) {
            return before.clone();
        }
        let known = |now: Answer, then: &Answer| if failed(&now) { then.clone() } else { now };
        Self {
            at: before.at,
            init_container: known(self.init_container, &before.init_container),
            cni: known(self.cni, &before.cni),
            ..self
        }
    }

    /// Whether the same was found out, whenever and in whatever words: some policies tell the time, or count.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let answers = |finding: &Self| finding.answers().map(Answer::wordless);
        self.labels == other.labels && answers(self) == answers(other)
    }

    /// Every answer, the plain pod's first.
    pub fn answers(&self) -> [&Answer; 3] {
        [&self.plain, &self.init_container, &self.cni]
    }
}

impl Answer {
    /// Whether a quota demands figures of every container, which the pod lacks.
    pub fn demands_figures(&self) -> bool {
        match self {
            Self::Unknown(doubt) => reading::demands_figures(&doubt.message),
            Self::Admitted | Self::Refused(_) => false,
        }
    }
}

/// A short digest of a namespace's labels, to tell whether they have changed.
pub fn digest(labels: Option<&Map<String, Value>>) -> String {
    // 64 bits: nobody gains from a collision but a finding that counts for a minute too long.
    const BYTES: usize = 8;
    let mut pairs: Vec<_> = labels.into_iter().flatten().collect();
    pairs.sort_unstable_by_key(|(key, _)| *key);
    let mut hash = Sha256::new();
    for (key, value) in pairs {
        hash.update(key);
        hash.update([0]);
        hash.update(value.as_str().unwrap_or_default());
        hash.update([0]);
    }
    let mut text = String::with_capacity(2 * BYTES);
    for byte in hash.finalize().iter().take(BYTES) {
        // Writing to a text does not fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// How long ago something of that `age` was: `42s ago`, `5m ago`, `3h ago`, `2d ago`.
pub fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7200 => format!("{}m ago", seconds / 60),
        7200..172_800 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}
