//! What was written, and what came of it: nothing is written twice without need, and what fails is tried ever more seldom.

use super::known::{Key, Stamp};
use crate::egress::compile::hindrance::Hindrance;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a watch has for showing what was written. It takes milliseconds; somebody else who keeps writing the same object is
/// answered no faster than this.
const CONFIRMED: Duration = Duration::from_secs(5);

/// How long is waited after a first failure, and at most; each time it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// An object, as it is wanted.
    Object(Key),
    /// That an object goes.
    Deletion(Key),
    /// The status of a policy, by its identifier.
    Status(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was written; an object has this stamp.
    Done(Stamp),
    /// It was not, and is tried again.
    Hindered(Hindrance),
}

/// Whether something is to be written now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// It is.
    Due,
    /// It is as it was written.
    Settled,
    /// Not before this time.
    Later(Instant, &'a Outcome),
}

/// Everything that was written last.
#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeMap<Target, Attempt>);

#[derive(Debug)]
struct Attempt {
    wanted: Arc<Value>,
    /// What was written of it last, whatever was tried since.
    done: Option<Arc<Value>>,
    outcome: Outcome,
    /// Until when it is left alone.
    until: Instant,
    pause: Duration,
}

impl Attempts {
    /// Whether `target` has to be written as it is `wanted`, where it is `seen` to be there with this stamp.
    pub(super) fn need(&self, target: &Target, wanted: &Value, seen: Option<&Stamp>, now: Instant) -> Need<'_> {
        match self.0.get(target).filter(|attempt| *attempt.wanted == *wanted) {
            Some(attempt) => match &attempt.outcome {
                Outcome::Done(stamp) if Some(stamp) == seen => Need::Settled,
                outcome if now < attempt.until => Need::Later(attempt.until, outcome),
                Outcome::Done(_) | Outcome::Hindered(_) => Need::Due,
            },
            None => Need::Due,
        }
    }

    /// Notes what came of writing `target`; whether it is hindered and was not before.
    pub(super) fn note(&mut self, target: Target, wanted: Value, outcome: Outcome, now: Instant) -> bool {
        let before = self.0.get(&target);
        let was_hindered = before.filter(|it| matches!(it.outcome, Outcome::Hindered(_)));
        let is_news = matches!(outcome, Outcome::Hindered(_)) && was_hindered.is_none();
        let pause = match &outcome {
            Outcome::Done(_) => CONFIRMED,
            Outcome::Hindered(_) => was_hindered.map_or(FIRST_PAUSE, |it| (it.pause * 2).min(LONGEST_PAUSE)),
        };
        let wanted = Arc::new(wanted);
        let done = match &outcome {
            Outcome::Done(_) => Some(Arc::clone(&wanted)),
            Outcome::Hindered(_) => before.and_then(|it| it.done.clone()),
        };
        let attempt = Attempt {
            wanted,
            done,
            outcome,
            until: now + pause,
            pause,
        };
        self.0.insert(target, attempt);
        is_news
    }

    /// What was written of `target` last.
    pub(super) fn done(&self, target: &Target) -> Option<&Value> {
        self.0.get(target)?.done.as_deref()
    }

    /// Every object that was applied, as it was last.
    pub(super) fn applied(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.0.iter().filter_map(|(target, attempt)| match target {
            Target::Object(key) => Some((key, attempt.done.as_deref()?)),
            Target::Deletion(_) | Target::Status(_) => None,
        })
    }

    /// Forgets everything about other targets.
    pub(super) fn retain(&mut self, targets: &BTreeSet<Target>) {
        self.0.retain(|target, _| targets.contains(target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TARGET: fn() -> Target = || Target::Status("EgressPolicy/shop/a".to_owned());

    fn stamp(generation: i64) -> Stamp {
        Stamp {
            uid: "u".to_owned(),
            generation,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_is_written_again_only_when_it_is_something_else() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        assert_eq!(attempts.need(&TARGET(), &json!(1), None, now), Need::Due);
        attempts.note(TARGET(), json!(1), Outcome::Done(stamp(1)), now);
        assert_eq!(attempts.need(&TARGET(), &json!(1), Some(&stamp(1)), now), Need::Settled);
        assert_eq!(attempts.need(&TARGET(), &json!(2), Some(&stamp(1)), now), Need::Due);
        // The watch may be late, and somebody may have changed it.
        let later = Need::Later(now + CONFIRMED, &Outcome::Done(stamp(1)));
        assert_eq!(attempts.need(&TARGET(), &json!(1), Some(&stamp(2)), now), later);
        let after = now + CONFIRMED;
        assert_eq!(attempts.need(&TARGET(), &json!(1), Some(&stamp(2)), after), Need::Due);
        assert_eq!(attempts.need(&TARGET(), &json!(1), None, after), Need::Due);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_tried_ever_more_seldom() {
        let (mut attempts, mut now) = (Attempts::default(), Instant::now());
        let hindered = || {
            Outcome::Hindered(Hindrance::NamespaceMissing {
                namespace: "shop".to_owned(),
            })
        };
        let mut pauses = Vec::new();
        for number in 0..9 {
            assert_eq!(attempts.note(TARGET(), json!(1), hindered(), now), number == 0);
            let Need::Later(until, _) = attempts.need(&TARGET(), &json!(1), None, now) else {
                panic!("it is not tried again at once");
            };
            pauses.push(until.duration_since(now).as_secs());
            now = until;
            assert_eq!(attempts.need(&TARGET(), &json!(1), None, now), Need::Due);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // What is wanted otherwise is tried at once.
        attempts.note(TARGET(), json!(1), hindered(), now);
        assert_eq!(attempts.need(&TARGET(), &json!(2), None, now), Need::Due);
    }
}
