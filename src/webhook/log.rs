//! The log: lines on standard error, as plain text or JSON. How much it holds can be changed while the process runs.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged, in the words of Linkerd's flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Also `panic` and `fatal`, which nothing here is.
    Error,
    /// Also `warning`.
    Warn,
    /// The default.
    #[default]
    Info,
    /// More, and what libraries warn of.
    Debug,
    /// Everything.
    Trace,
}

/// A text that is no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no log level: expected panic, fatal, error, warn, info, debug or trace")]
pub struct LevelError(String);

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "panic" | "fatal" | "error" => Ok(Self::Error),
            "warn" | "warning" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(LevelError(text.to_owned())),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Plain,
    /// One JSON object a line.
    Json,
}

impl From<&str> for Format {
    /// `json`; everything else is plain, as with Linkerd.
    fn from(text: &str) -> Self {
        if text == "json" { Self::Json } else { Self::Plain }
    }
}

/// The log of this process, once it was started.
static LOG: OnceLock<Log> = OnceLock::new();

/// What is needed to change a log.
struct Log {
    filter: Handle<Targets, Registry>,
    level: Mutex<Level>,
}

/// Why the log cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is none.
    #[error("this process has no log of its own")]
    NotStarted,
    /// It is gone.
    #[error(transparent)]
    Gone(#[from] reload::Error),
}

/// Starts the log of this process; a second call changes nothing.
pub fn start(level: Level, format: Format) {
    let (filter, handle) = reload::Layer::new(filter(level));
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = match format {
        Format::Plain => registry.with(lines.with_ansi(false)).try_init(),
        Format::Json => registry
            .with(lines.json().flatten_event(true).with_current_span(false))
            .try_init(),
    };
    match started {
        Err(error) => tracing::debug!(%error, "the log was started before"),
        Ok(()) => {
            LOG.get_or_init(|| Log {
                filter: handle,
                level: Mutex::new(level),
            });
        }
    }
}

/// How much is logged; nothing where this process has not started a log.
pub fn level() -> Option<Level> {
    let log = LOG.get()?;
    Some(*log.level.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Logs as much from now on.
///
/// # Errors
/// Where this process has not started a log.
pub fn change(level: Level) -> Result<(), ChangeError> {
    let log = LOG.get().ok_or(ChangeError::NotStarted)?;
    log.filter.reload(filter(level))?;
    *log.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    Ok(())
}

/// What is let through at a level.
fn filter(level: Level) -> Targets {
    let others = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn | Level::Info | Level::Debug => LevelFilter::WARN,
        Level::Trace => LevelFilter::INFO,
    };
    // At every attempt of a failing watch these log what is logged here once.
    let filter = Targets::new()
        .with_default(others)
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_target("kube_runtime", LevelFilter::OFF)
        // These name hosts, of which a policy may want no record.
        .with_target("hickory_net", LevelFilter::OFF)
        .with_target("hickory_resolver", LevelFilter::OFF)
        .with_target("rustls", LevelFilter::ERROR);
    filter.with_target("outrigger", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_linkerds() {
        assert_eq!("panic".parse(), Ok(Level::Error));
        assert_eq!("WARNING".parse(), Ok(Level::Warn));
        let error = "loud".parse::<Level>().unwrap_err().to_string();
        assert!(
            error.starts_with("\"loud\" is no log level: expected panic,"),
            "{error}"
        );
        assert_eq!(Format::from("json"), Format::Json);
        assert_eq!(Format::from("jsonl"), Format::Plain);
    }
}
