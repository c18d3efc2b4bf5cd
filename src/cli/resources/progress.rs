//! A line on a terminal that says how far long work is.

use std::io::{IsTerminal, Stderr, Write, stderr};
use std::time::{Duration, Instant};

/// How long somebody waits without wondering (a second keeps a thought together, as usability studies have it).
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the line changes: as often as an eye follows.
const PACE: Duration = Duration::from_millis(100);

/// The line; nothing where `terminal` is none.
pub(super) struct Progress<W: Write> {
    /// When it is written next.
    due: Option<Instant>,
    shown: bool,
    terminal: W,
}

impl Progress<Stderr> {
    /// On standard error.
    pub(super) fn new() -> Self {
        let terminal = stderr();
        Self {
            due: terminal.is_terminal().then(|| Instant::now() + PATIENCE),
            shown: false,
            terminal,
        }
    }
}

impl<W: Write> Progress<W> {
    /// Says that `resources` are done, where it is time to.
    pub(super) fn tell(&mut self, resources: usize) {
        let now = Instant::now();
        if self.due.is_some_and(|due| due <= now) {
            self.due = Some(now + PACE);
            self.shown = true;
            let _unsaid = write!(self.terminal, "\r{resources} resources…");
        }
    }
}

impl<W: Write> Drop for Progress<W> {
    /// Takes the line away.
    fn drop(&mut self) {
        if self.shown {
            // ECMA-48: erase to the end of the line.
            let _unsaid = self.terminal.write_all(b"\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(due: Option<Instant>) -> String {
        let mut terminal = Vec::new();
        let mut progress = Progress {
            due,
            shown: false,
            terminal: &mut terminal,
        };
        progress.tell(7);
        drop(progress);
        String::from_utf8(terminal).unwrap()
    }

    #[test]
    fn the_line_goes_away() {
        assert_eq!(shown(Some(Instant::now())), "\r7 resources…\r\u{1b}[K");
        assert_eq!(shown(Some(Instant::now() + PATIENCE * 1000)), "");
        assert_eq!(shown(None), "");
    }
}
