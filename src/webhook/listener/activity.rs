//! What connections are doing: who may be let go because of idleness, and who first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// One connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    retire: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// When the connection was opened, or its last request answered.
    since: Instant,
    /// Requests under way.
    busy: usize,
    /// Whether there was a request.
    used: bool,
    retired: bool,
}

/// Why a connection ends though its client has not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It never asked anything.
    Silent,
    /// It has asked nothing for long.
    Idle,
    /// Its place was needed.
    Retired,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                since: Instant::now(),
                busy: 0,
                used: false,
                retired: false,
            }),
            retire: Notify::new(),
        }
    }

    /// Notes a request.
    pub(super) fn request(self: &Arc<Self>) -> Busy {
        let mut state = self.state();
        state.busy += 1;
        state.used = true;
        Busy(Arc::clone(self))
    }

    /// Waits until the connection must end: without a request for `first` from the start on, or for `idle` after the last
    /// one was answered (up to twice that, since a look is taken no more often).
    pub(super) async fn end(&self, first: Duration, idle: Duration) -> End {
        loop {
            let State {
                since,
                busy,
                used,
                retired,
            } = *self.state();
            let now = Instant::now();
            let due = match (busy, used) {
                (0, _) if retired => return End::Retired,
                (0, false) if since + first <= now => return End::Silent,
                (0, true) if since + idle <= now => return End::Idle,
                (0, false) => since + first,
                (0, true) => since + idle,
                (_, _) => now + idle,
            };
            // Woken or not, the next round finds out what there is to do.
            let _woken = timeout_at(due, self.retire.notified()).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy = state.busy.saturating_sub(1);
        state.since = Instant::now();
    }
}

/// Lets go of the connection that will be missed least: one that never asked anything before one that did, and the longest
/// idle of those. None that has a request under way, and none twice.
pub(super) fn retire_idlest<'a>(all: impl Iterator<Item = &'a Arc<Activity>>) -> bool {
    let idle = all.filter_map(|activity| {
        let state = *activity.state();
        (state.busy == 0 && !state.retired).then_some(((state.used, state.since), activity))
    });
    let Some((_, idlest)) = idle.min_by_key(|(rank, _)| *rank) else {
        return false;
    };
    idlest.state().retired = true;
    idlest.retire.notify_one();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_asked_goes_before_who_did_and_nobody_who_is_busy() {
        let all: Vec<_> = (0..4).map(|_| Arc::new(Activity::new())).collect();
        drop(all[0].request());
        let busy = all[1].request();
        let retired = |n: usize| all[n].state().retired;
        assert!(retire_idlest(all.iter()) && retired(2) && !retired(3));
        assert!(retire_idlest(all.iter()) && retired(3) && !retired(0));
        assert!(retire_idlest(all.iter()) && retired(0));
        assert!(!retire_idlest(all.iter()) && !retired(1));
        drop(busy);
        assert!(retire_idlest(all.iter()) && retired(1));
    }
}
