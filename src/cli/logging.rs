//! Logging: of those that work until they are told to stop, and of the commands that run inside a pod and end. Lines on
//! standard error, plain or JSON.

use crate::webhook::log;
pub(super) use crate::webhook::log::{Format, Level};
use clap::Args;
use std::io;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// What those that go on working log.
#[derive(Args, Clone, Debug)]
pub(super) struct Logging {
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,
    /// plain, or json
    #[arg(long, value_name = "FORMAT", default_value = "plain")]
    log_format: String,
}

impl Logging {
    /// Starts the log of this process.
    pub(super) fn start(&self) {
        log::start(self.log_level, Format::from(self.log_format.as_str()));
    }
}

/// Logs what this thread says, until the guard is dropped.
pub(super) fn start(filter: Targets, format: Format) -> DefaultGuard {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = lines.with_target(false).with_ansi(false);
    match format {
        Format::Plain => tracing::subscriber::set_default(registry().with(lines.with_filter(filter))),
        Format::Json => {
            let lines = lines.json().flatten_event(true);
            tracing::subscriber::set_default(registry().with(lines.with_filter(filter)))
        }
    }
}

/// A filter that lets one level and everything graver through.
pub(super) fn filter(level: Level) -> Targets {
    Targets::new().with_default(level)
}
