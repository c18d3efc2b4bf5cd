//! Messages for people, on standard error: the runtime adds them to its own log, or to the error of a call that failed.

use crate::cni::call::Call;
use crate::cni::config::LogLevel;
use std::io::{self, Write as _};

/// Writes a line a message, with the verb and the pod in front.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    least: LogLevel,
    subject: String,
}

impl Journal {
    pub(super) fn new(least: LogLevel, call: &Call) -> Self {
        let pod = call.pod.as_ref().map(|pod| format!(" pod={}", pod.path()));
        Self {
            least,
            subject: format!("{}{}", call.verb.word(), pod.unwrap_or_default()),
        }
    }

    pub(super) fn warn(&self, message: &str) {
        self.write(LogLevel::Warn, "warning", message);
    }

    pub(super) fn info(&self, message: &str) {
        self.write(LogLevel::Info, "info", message);
    }

    pub(super) fn debug(&self, message: &str) {
        self.write(LogLevel::Debug, "debug", message);
    }

    fn write(&self, level: LogLevel, word: &str, message: &str) {
        if level <= self.least {
            let line = format!("outrigger-cni: {word}: {}: {message}\n", self.subject);
            // Where nobody can be told, the call goes on all the same.
            let _unread = io::stderr().write_all(line.as_bytes());
        }
    }
}
