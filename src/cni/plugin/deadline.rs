//! A time after which nobody waits any more.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

/// Does `work` on a thread of its own, which is left behind at `end`: no name server and no slow reader can hold an
/// answer back for longer.
pub(super) fn within<T: Send + 'static>(end: Instant, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Where nobody waits any more, nobody need be told.
        let _late = sender.send(work());
    });
    let left = end.saturating_duration_since(Instant::now());
    receiver.recv_timeout(left).map_err(|error| match error {
        RecvTimeoutError::Timeout => "no answer in time".to_owned(),
        RecvTimeoutError::Disconnected => "a fault, which standard error tells".to_owned(),
    })
}
