//! One watch, step by step: it pauses after failures, and is begun anew where it may wait for an answer that never comes.

use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A watch that stands again says nothing until an object changes, and neither does one whose server does not answer. Where
/// objects are not up to date and nothing was heard for this long, they are listed anew: only that tells the two apart. An
/// attempt that fails says so sooner (5 s to connect, 30 s at most to back off).
pub(crate) const QUIET: Duration = Duration::from_secs(2 * 60);

/// How long a failing watch pauses at most, as in client-go.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The trouble of a listing that has been quiet for as long.
pub(super) const NO_ANSWER: &str = "the API server does not answer";

/// What the server answers where it has no such resource (RFC 9110, 15.5.5).
const NOT_FOUND: u16 = 404;

/// What a watch tells.
pub(crate) enum Told<K> {
    /// Something has happened, or was listed.
    Event(Event<K>),
    /// The watch has failed, and is tried again.
    Failed(Failure),
    /// There is no more to come.
    End,
}

/// Why a watch has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The API server, or the way to it, said so.
    Error(watcher::Error),
    /// A listing was begun, and has not been answered.
    NoAnswer,
}

/// A watch, and how it is begun.
pub(crate) struct Steps<B, W, P = DefaultBackoff> {
    begin: B,
    watch: Pin<Box<W>>,
    quiet: Duration,
    pauses: P,
    failed: bool,
    listing: bool,
}

impl<W, B: Fn() -> W> Steps<B, W> {
    /// A watch that `begin` begins, and begins anew where it stays `quiet` for that long.
    pub(crate) fn new(begin: B, quiet: Duration) -> Self {
        Self {
            watch: Box::pin(begin()),
            begin,
            quiet,
            pauses: DefaultBackoff::default(),
            failed: false,
            listing: false,
        }
    }
}

impl<K, W, B, P> Steps<B, W, P>
where
    W: Stream<Item = watcher::Result<Event<K>>>,
    B: Fn() -> W,
    P: Iterator<Item = Duration>,
{
    /// What comes next; `is_current` says whether what was told so far is up to date, so that silence is no reason to doubt.
    ///
    /// After a failure it pauses first. Each attempt begins with a sign of life, so that an event is no reason to pause less:
    /// the back-off itself starts anew when nothing has failed for a while.
    pub(crate) async fn next(&mut self, is_current: bool) -> Told<K> {
        if std::mem::take(&mut self.failed) {
            sleep(self.pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
        loop {
            let next = match is_current {
                true => Ok(self.watch.next().await),
                false => timeout(self.quiet, self.watch.next()).await,
            };
            match next {
                Ok(Some(Ok(event))) => {
                    match event {
                        Event::Init => self.listing = true,
                        Event::InitDone => self.listing = false,
                        Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {}
                    }
                    return Told::Event(event);
                }
                Ok(Some(Err(error))) => {
                    self.failed = true;
                    return Told::Failed(Failure::Error(error));
                }
                Ok(None) => return Told::End,
                // It may stand, and may not.
                Err(_) => {
                    self.watch = Box::pin((self.begin)());
                    if std::mem::take(&mut self.listing) {
                        return Told::Failed(Failure::NoAnswer);
                    }
                }
            }
        }
    }
}

impl Failure {
    /// The failure in a sentence, with what is at the bottom of it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Error(error) => super::describe(error),
            Self::NoAnswer => NO_ANSWER.to_owned(),
        }
    }

    /// Whether the server has no such resource.
    pub(in crate::cluster) fn is_absence(&self) -> bool {
        match self {
            Self::Error(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
            ) => status.code == NOT_FOUND,
            Self::Error(_) | Self::NoAnswer => false,
        }
    }
}

/// Whether `event` shows that the watch stands: a listing that has begun may fail yet.
pub(crate) fn shows_that_it_stands<K>(event: &Event<K>) -> bool {
    match event {
        Event::Init | Event::InitApply(_) => false,
        Event::InitDone | Event::Apply(_) | Event::Delete(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    #[tokio::test]
    async fn a_sign_of_life_does_not_make_the_next_pause_short() {
        let attempt = || [Ok(Event::<()>::Init), Err(watcher::Error::NoResourceVersion)];
        let mut pauses = vec![Duration::ZERO; 5].into_iter();
        let begin = || stream::iter(std::iter::repeat_with(attempt).take(5).flatten());
        let mut steps = Steps {
            watch: Box::pin(begin()),
            begin,
            quiet: QUIET,
            pauses: pauses.by_ref(),
            failed: false,
            listing: false,
        };
        while !matches!(steps.next(false).await, Told::End) {}
        assert_eq!(pauses.len(), 0, "one longer than the other");
    }
}
