//! Which namespace is asked about when.

use crate::cluster::facts::Namespace;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When namespaces are asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// How old a finding gets.
    pub(super) period: Duration,
    /// After a change: API servers learn of policies by watches, and compile them once a second.
    pub(super) settle: Duration,
    /// And once more after that, for one of several API servers may have been slow.
    pub(super) confirm: Duration,
    /// After a dry run that has failed for a reason which passes; twice as long each time, up to the period.
    pub(super) again: Duration,
    /// Between two changes after each of which everything is found out anew.
    pub(super) rest: Duration,
}

/// The domain of Linkerd's keys; ours are below it.
const LINKERD: &str = "linkerd.io";

/// More would be longer than any period.
const MOST_DOUBLINGS: u32 = 10;

/// Namespaces with the time at which each is due.
#[derive(Debug)]
pub(super) struct Schedule {
    timing: Timing,
    entries: BTreeMap<String, Entry>,
    /// When everything is found out anew, the last time.
    doubted: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    namespace: Arc<Namespace>,
    due: Instant,
    why: Why,
    /// How often in a row a dry run has failed for a reason which passes.
    failures: u32,
    /// Whether it is asked about once more soon after.
    confirm: bool,
    /// Whether it is being asked about.
    busy: bool,
}

/// Why a namespace is due. With many namespaces a round takes minutes, and what matters most must not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// It is new, or has changed.
    Changed,
    /// A policy has changed.
    Doubted,
    /// It is time.
    Old,
}

impl Timing {
    pub(super) const DEFAULT: Self = Self {
        period: Duration::from_secs(10 * 60),
        settle: Duration::from_secs(2),
        confirm: Duration::from_secs(30),
        again: Duration::from_secs(30),
        rest: Duration::from_secs(30),
    };
}

impl Schedule {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            entries: BTreeMap::new(),
            doubted: None,
        }
    }

    /// How many namespaces there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the namespace called `name` is among them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Adds a namespace, or notes that it has changed; whether it has. Of its annotations Linkerd's count: some tools write
    /// theirs all the time.
    pub(super) fn put(&mut self, mut namespace: Namespace, now: Instant) -> bool {
        namespace.annotations.retain(|key, _| is_linkerds(key));
        let known = self.entries.get_mut(&namespace.name);
        if known.as_ref().is_some_and(|entry| *entry.namespace == namespace) {
            return false;
        }
        let due = now + self.timing.settle;
        if let Some(entry) = known {
            entry.namespace = Arc::new(namespace);
            // However often it changes, it is asked about.
            entry.due = match entry.why {
                Why::Changed => entry.due.min(due),
                Why::Doubted | Why::Old => due,
            };
            (entry.why, entry.confirm) = (Why::Changed, true);
            return true;
        }
        let entry = Entry {
            due: now,
            why: Why::Changed,
            failures: 0,
            confirm: true,
            busy: false,
            namespace: Arc::new(namespace),
        };
        self.entries.insert(entry.namespace.name.clone(), entry);
        true
    }

    /// Removes a namespace; whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.entries.remove(name).is_some()
    }

    /// Keeps those that `is_there` says are.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.entries.retain(|name, _| is_there(name));
    }

    /// Has every namespace asked about anew. Where that was so shortly before, it waits.
    pub(super) fn doubt_all(&mut self, now: Instant) {
        let earliest = now + self.timing.settle;
        let due = match self.doubted {
            // What is to come anyway is late enough.
            Some(last) if last >= earliest => last,
            Some(last) => earliest.max(last + self.timing.rest),
            None => earliest,
        };
        self.doubted = Some(due);
        for entry in self.entries.values_mut() {
            // What is due before that is asked about once more.
            entry.confirm = true;
            entry.due = entry.due.min(due);
            if entry.why != Why::Changed {
                entry.why = Why::Doubted;
            }
        }
    }

    /// Takes the namespace that matters most, of those the one that has been due for longest; where none is due, says when
    /// the next will be.
    pub(super) fn take(&mut self, now: Instant) -> Result<Arc<Namespace>, Option<Instant>> {
        let waiting = self.entries.values_mut().filter(|entry| !entry.busy);
        let Some(next) = waiting.min_by_key(|entry| entry.rank(now)) else {
            return Err(None);
        };
        if next.due > now {
            return Err(Some(next.due));
        }
        next.busy = true;
        // What changes from here on has it asked about again.
        (next.due, next.why) = (now + self.timing.period, Why::Old);
        Ok(Arc::clone(&next.namespace))
    }

    /// Has the namespace called `name`, which is being asked about, asked about once more soon after.
    pub(super) fn confirm(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.confirm = true;
        }
    }

    /// Notes that the namespace called `name` was asked about; `passes` where that failed for a reason which passes.
    pub(super) fn done(&mut self, name: &str, passes: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.busy = false;
        entry.failures = if passes { entry.failures.saturating_add(1) } else { 0 };
        let soon = match (entry.confirm, entry.failures) {
            (true, _) => self.timing.confirm,
            (false, 0) => self.timing.period,
            (false, failures) => self
                .timing
                .again
                .saturating_mul(1 << (failures - 1).min(MOST_DOUBLINGS)),
        };
        entry.confirm = false;
        entry.due = entry.due.min(now + soon.min(self.timing.period));
    }
}

/// Whether an annotation is Linkerd's or ours.
fn is_linkerds(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == LINKERD || domain.strip_suffix(LINKERD).is_some_and(|rest| rest.ends_with('.'))
}

impl Entry {
    /// What is due before what is not; of the former what matters most, of the latter what is due next.
    fn rank(&self, now: Instant) -> (Option<Instant>, Why, Instant) {
        let later = (self.due > now).then_some(self.due);
        (later, self.why, self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn namespace(name: &str, team: &str) -> Namespace {
        Namespace {
            name: name.to_owned(),
            labels: json!({"team": team}).as_object().unwrap().clone(),
            annotations: Map::new(),
        }
    }

    fn taken(schedule: &mut Schedule, now: Instant) -> Option<String> {
        schedule.take(now).ok().map(|namespace| namespace.name.clone())
    }

    #[test]
    fn a_namespace_is_asked_about_twice_after_a_change_and_then_every_so_often() {
        let (start, timing) = (Instant::now(), Timing::DEFAULT);
        let mut schedule = Schedule::new(timing);
        assert!(schedule.put(namespace("shop", "a"), start));
        assert!(!schedule.put(namespace("shop", "a"), start), "nothing has changed");
        assert_eq!(taken(&mut schedule, start).as_deref(), Some("shop"));
        assert_eq!(schedule.take(start), Err(None), "it is being asked about");
        schedule.done("shop", false, start);
        let confirm = start + timing.confirm;
        assert_eq!(schedule.take(start), Err(Some(confirm)));
        assert_eq!(taken(&mut schedule, confirm).as_deref(), Some("shop"));
        schedule.done("shop", false, confirm);
        let next = confirm + timing.period;
        assert_eq!(schedule.take(confirm), Err(Some(next)));
        assert!(schedule.put(namespace("shop", "b"), confirm));
        assert_eq!(schedule.take(confirm), Err(Some(confirm + timing.settle)));
        assert!(schedule.remove("shop") && !schedule.remove("shop"));
    }

    #[test]
    fn a_change_while_it_is_being_asked_about_counts() {
        let start = Instant::now();
        let mut schedule = Schedule::new(Timing::DEFAULT);
        schedule.put(namespace("shop", "a"), start);
        assert!(taken(&mut schedule, start).is_some());
        schedule.put(namespace("shop", "b"), start);
        schedule.done("shop", false, start);
        assert_eq!(schedule.take(start), Err(Some(start + Timing::DEFAULT.settle)));
    }

    #[test]
    fn a_namespace_that_changes_all_the_time_is_asked_about_all_the_same() {
        let (start, timing) = (Instant::now(), Timing::DEFAULT);
        let mut schedule = Schedule::new(timing);
        schedule.put(namespace("shop", "a"), start);
        assert!(taken(&mut schedule, start).is_some());
        schedule.done("shop", false, start);
        schedule.doubt_all(start);
        let annotated = |key: &str, value: &str| {
            let mut namespace = namespace("shop", "a");
            namespace.annotations.insert(key.to_owned(), value.into());
            namespace
        };
        assert!(!schedule.put(annotated("backup.example.com/last", "12:00"), start));
        assert!(!schedule.put(annotated("notlinkerd.io/inject", "enabled"), start));
        let mut now = start;
        for uid in ["1", "2", "3"] {
            assert!(schedule.put(annotated("config.linkerd.io/proxy-uid", uid), now));
            now += timing.settle / 2;
        }
        assert!(taken(&mut schedule, start + timing.settle).is_some());
        // A policy's change that is due later does not put it off either.
        schedule.put(namespace("shop", "b"), start + timing.settle);
        schedule.doubt_all(start + timing.settle);
        schedule.done("shop", false, start + timing.settle);
        let due = start + timing.settle * 2;
        assert_eq!(schedule.take(start + timing.settle), Err(Some(due)));
    }

    #[test]
    fn many_changes_in_a_row_have_everything_found_out_anew_twice() {
        let (start, timing) = (Instant::now(), Timing::DEFAULT);
        let mut schedule = Schedule::new(timing);
        schedule.put(namespace("shop", "a"), start);
        assert!(taken(&mut schedule, start).is_some());
        schedule.done("shop", false, start);
        let mut now = start + timing.confirm;
        assert!(taken(&mut schedule, now).is_some());
        schedule.done("shop", false, now);
        let mut asked = 0;
        for _ in 0..100 {
            schedule.doubt_all(now);
            if taken(&mut schedule, now).is_some() {
                asked += 1;
                schedule.done("shop", false, now);
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn what_fails_for_a_while_is_asked_again_soon() {
        let (start, timing) = (Instant::now(), Timing::DEFAULT);
        let mut schedule = Schedule::new(timing);
        schedule.put(namespace("shop", "a"), start);
        for now in [start, start + timing.confirm] {
            assert!(taken(&mut schedule, now).is_some());
            schedule.done("shop", true, now);
        }
        let mut now = start + timing.confirm;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let due = schedule.take(now).unwrap_err().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            assert!(taken(&mut schedule, now).is_some());
            schedule.done("shop", true, now);
        }
        assert_eq!(pauses, [60, 120, 240, 480, 600, 600, 600]);
    }

    #[test]
    fn what_has_changed_does_not_wait_for_a_round() {
        let (start, timing) = (Instant::now(), Timing::DEFAULT);
        let mut schedule = Schedule::new(timing);
        for name in ["a", "b", "c", "d"] {
            schedule.put(namespace(name, "a"), start);
            assert!(taken(&mut schedule, start).is_some());
            schedule.done(name, false, start);
        }
        let later = start + timing.period;
        schedule.doubt_all(later - timing.settle);
        schedule.put(namespace("c", "b"), later - timing.settle);
        schedule.put(namespace("e", "a"), later);
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut schedule, later)).collect();
        assert_eq!(order, ["c", "e", "a", "b", "d"]);
    }
}
