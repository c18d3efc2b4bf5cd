//! The log: lines on standard error, as plain text or JSON.

use std::str::FromStr;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
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

/// Starts the log of this process; a second call changes nothing.
pub fn start(level: Level, format: Format) {
    let others = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn | Level::Info | Level::Debug => LevelFilter::WARN,
        Level::Trace => LevelFilter::INFO,
    };
    // At every attempt of a failing watch these log what is logged here once.
    let filter = Targets::new()
        .with_default(others)
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_target("kube_runtime", LevelFilter::OFF);
    let registry = tracing_subscriber::registry().with(filter.with_target("outrigger", level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = match format {
        Format::Plain => registry.with(lines.with_ansi(false)).try_init(),
        Format::Json => registry
            .with(lines.json().flatten_event(true).with_current_span(false))
            .try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "the log was started before");
    }
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
