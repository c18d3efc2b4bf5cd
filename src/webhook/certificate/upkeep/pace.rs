//! How quickly one look follows another.
//!
//! The first few follow at once, so that a fresh installation is served in well under a second. Where the same two objects
//! change all the time, because somebody writes into them what we take out again or the API server refuses what we write,
//! looks become rare.

use std::time::Duration;
use tokio::time::Instant;

/// The pause after the first look.
const FIRST: Duration = Duration::from_millis(5);

/// The longest pause, as of a failing watch.
const LONGEST: Duration = Duration::from_secs(30);

/// How long it takes until one look more is forgiven.
const CALM: Duration = Duration::from_secs(10);

/// Doublings after which the longest pause is reached.
const MOST: u32 = 13;

/// How quickly looks follow each other.
#[derive(Debug)]
pub(super) struct Pace {
    looks: u32,
    last: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { looks: 0, last: now }
    }

    /// The pause before the next look.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let calm = now.duration_since(self.last).as_secs() / CALM.as_secs();
        let left = self.looks.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX));
        (self.looks, self.last) = ((left + 1).min(MOST + 1), now);
        (FIRST * 2_u32.pow(left.min(MOST))).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_where_they_are_many_and_quick_again_after_a_while() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let burst: Duration = (0..8).map(|_| pace.pause(start)).sum();
        assert!(burst < Duration::from_millis(1500), "{burst:?}");
        for _ in 0..100 {
            pace.pause(start);
        }
        assert_eq!(pace.pause(start), LONGEST);
        let later = start + Duration::from_secs(300);
        assert_eq!(pace.pause(later), FIRST);
    }
}
