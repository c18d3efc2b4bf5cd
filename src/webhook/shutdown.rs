//! Signals to stop.

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How far the server has been told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It serves.
    Serving,
    /// It finishes what it has begun.
    Draining,
    /// It leaves at once.
    Aborting,
}

/// Follows SIGTERM and SIGINT: the first drains the server, the second aborts it.
pub fn signals() -> io::Result<watch::Receiver<Phase>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (phase, follow) = watch::channel(Phase::Serving);
    tokio::spawn(async move {
        for next in [Phase::Draining, Phase::Aborting] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            phase.send_replace(next);
        }
    });
    Ok(follow)
}

/// Waits until the server has been told to be in `phase`, or past it.
pub(crate) async fn reached(mut follow: watch::Receiver<Phase>, phase: Phase) {
    if follow.wait_for(|now| *now >= phase).await.is_err() {
        // Nobody is left to tell.
        std::future::pending::<()>().await;
    }
}
