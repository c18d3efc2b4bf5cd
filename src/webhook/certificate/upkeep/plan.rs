//! What to do next about a certificate that the replicas make themselves: a pure function of what the cluster holds.
//!
//! The Secret has two places. The pair in `current` is what replicas show. A new one waits in `next` until each replica can be
//! sure that every API server trusts its authority; then it becomes the current one. Nothing that is trusted and has not ended
//! is ever taken out of `caBundle`, and no replica gives up a good pair for one that is not settled, so it does not matter
//! which replica takes a step, or that one acts on what it saw a while ago.

use std::collections::HashMap;
use std::time::Duration;

/// How long a pair is good for, in seconds: 90 days, as certificates of public authorities.
pub(super) const LIFE: i64 = 90 * 86_400;

/// How far before its end a pair counts for nothing, in seconds: API servers have clocks of their own, and a replica looks
/// again only every few minutes.
const MARGIN: i64 = 60 * 60;

/// What a pair is known by: the SHA-256 of its certificate.
pub(super) type Id = [u8; 32];

/// A certificate with its key, as far as it matters here. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) id: Id,
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) trust: Trust,
}

/// How far API servers trust a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The registration cannot be read.
    Unknown,
    /// Some entry's bundle does not vouch for it.
    Missing,
    /// Every entry's bundle vouches for it, but some API server may not have heard of it.
    New,
    /// It has been so for long enough.
    Settled,
}

/// What a place of the Secret holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Empty,
    /// Something that cannot be shown: no PEM, a key of another certificate.
    Unusable,
    /// Something that others look after.
    Foreign,
    Usable(Pair),
}

/// The `caBundle` of each entry that calls us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bundles {
    /// They cannot be read, or others fill them in.
    Closed,
    /// They hold the authorities of both places, and nothing that has ended or is no certificate.
    Complete,
    /// They do not.
    Lacking,
}

/// What is seen at `now`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) now: i64,
    pub(super) current: Place,
    pub(super) next: Place,
    pub(super) bundles: Bundles,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Put a new pair into `current`: what is there is of no use to anybody.
    Make,
    /// Put a new pair into `next`.
    Stage,
    /// Put into the bundles what they lack.
    Publish,
    /// Put the pair of `next` into `current`.
    Promote,
    /// Nothing, until something changes.
    Rest,
    /// Nothing at all: others look after the Secret.
    Leave,
}

/// What to do next.
pub(super) fn next_step(seen: &Seen) -> Step {
    let next = seen.next.living(seen.now);
    if seen.current == Place::Foreign {
        return Step::Leave;
    }
    let Some(current) = seen.current.living(seen.now) else {
        return if next.is_some() { Step::Promote } else { Step::Make };
    };
    if seen.bundles == Bundles::Lacking {
        return Step::Publish;
    }
    // One whose authority nobody knows, or that has not begun, can only be replaced.
    let is_lost = |pair: &Pair| pair.trust == Trust::Missing && seen.bundles == Bundles::Complete;
    match next.filter(|next| !is_lost(next)).map(|next| next.trust) {
        Some(Trust::Settled) => Step::Promote,
        Some(Trust::New) if is_lost(&current) => Step::Promote,
        None if is_lost(&current) || current.is_due(seen.now) => Step::Stage,
        Some(_) | None => Step::Rest,
    }
}

/// Whether a replica that shows `shown` is to show `current` instead.
pub(super) fn takes_over(shown: Option<&Pair>, current: &Pair, now: i64) -> bool {
    match shown {
        Some(shown) if shown.id == current.id => false,
        Some(shown) if shown.is_living(now) && shown.trust != Trust::Missing => current.trust == Trust::Settled,
        Some(_) | None => true,
    }
}

impl Place {
    fn living(self, now: i64) -> Option<Pair> {
        match self {
            Self::Usable(pair) => Some(pair).filter(|pair| pair.is_living(now)),
            Self::Empty | Self::Unusable | Self::Foreign => None,
        }
    }
}

impl Pair {
    fn is_living(&self, now: i64) -> bool {
        now < self.end - MARGIN
    }

    /// Whether it is time for another: after two thirds of its life, or where it begins so late that a clock must be wrong.
    fn is_due(&self, now: i64) -> bool {
        now >= self.begin + (self.end - self.begin) / 3 * 2 || now < self.begin - MARGIN
    }
}

/// Since when pairs have been trusted, as this replica saw it, by a clock that only goes forward. One that has just started
/// waits anew: it cannot know what API servers have heard.
#[derive(Debug)]
pub(super) struct Confidence {
    settle: Duration,
    since: HashMap<Id, Duration>,
}

impl Confidence {
    /// That of a replica to which what has been trusted for `settle` is settled.
    pub(super) fn new(settle: Duration) -> Self {
        Self {
            settle,
            since: HashMap::new(),
        }
    }

    /// Notes which pairs are trusted at `at`; all others have to wait anew.
    pub(super) fn note(&mut self, trusted: &[Id], at: Duration) {
        self.since.retain(|id, _| trusted.contains(id));
        for id in trusted {
            self.since.entry(*id).or_insert(at);
        }
    }

    /// How far a pair is trusted at `at` that bundles vouch for.
    pub(super) fn trust(&self, id: &Id, at: Duration) -> Trust {
        match self.since.get(id) {
            Some(since) if at.saturating_sub(*since) >= self.settle => Trust::Settled,
            Some(_) | None => Trust::New,
        }
    }

    /// How long it takes from `at` until one more pair is settled; nothing where all are.
    pub(super) fn pending(&self, at: Duration) -> Option<Duration> {
        let left = self
            .since
            .values()
            .map(|since| (*since + self.settle).saturating_sub(at));
        left.filter(|left| !left.is_zero()).min()
    }
}

#[cfg(test)]
mod tests;
