//! The events of one watch, which may fail and stand again without a word.

use crate::cluster::watch::{LONGEST_PAUSE, QUIET};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What came of a watch.
pub(super) enum Told<E> {
    /// Something has happened.
    Event(E),
    /// The watch has failed, and is tried again.
    Failed(watcher::Error),
    /// It had failed, and has been quiet for so long that it must stand again.
    Quiet,
    /// There is no more to come.
    End,
}

/// Whether `event` shows that the watch stands: a listing that has begun may fail yet.
pub(super) fn shows_that_it_stands<K>(event: &Event<K>) -> bool {
    match event {
        Event::Init | Event::InitApply(_) => false,
        Event::InitDone | Event::Apply(_) | Event::Delete(_) => true,
    }
}

/// A watch with its own back-off.
pub(super) struct Events<S, P = DefaultBackoff> {
    watch: S,
    pauses: P,
    failing: bool,
}

impl<S> Events<S> {
    pub(super) fn new(watch: S) -> Self {
        Self {
            watch,
            pauses: DefaultBackoff::default(),
            failing: false,
        }
    }
}

impl<E, S: Stream<Item = watcher::Result<E>> + Unpin, P: Iterator<Item = Duration>> Events<S, P> {
    /// What comes next. After a failure it pauses first. Each attempt begins with a sign of life, so that an event is no reason
    /// to pause less: the back-off itself starts anew when nothing has failed for a while.
    pub(super) async fn next(&mut self) -> Told<E> {
        let next = match self.failing {
            true => {
                sleep(self.pauses.next().unwrap_or(LONGEST_PAUSE)).await;
                timeout(QUIET, self.watch.next()).await
            }
            false => Ok(self.watch.next().await),
        };
        self.failing = matches!(next, Ok(Some(Err(_))));
        match next {
            Ok(Some(Ok(event))) => Told::Event(event),
            Ok(Some(Err(error))) => Told::Failed(error),
            Ok(None) => Told::End,
            Err(_) => Told::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    #[tokio::test]
    async fn a_sign_of_life_does_not_make_the_next_pause_short() {
        let attempt = || [Ok(()), Err(watcher::Error::NoResourceVersion)];
        let mut pauses = vec![Duration::ZERO; 5].into_iter();
        let mut events = Events {
            watch: stream::iter(std::iter::repeat_with(attempt).take(5).flatten()),
            pauses: pauses.by_ref(),
            failing: false,
        };
        while !matches!(events.next().await, Told::End) {}
        assert_eq!(pauses.len(), 0, "one longer than the other");
    }
}
