//! Logging of the commands that run inside a pod and end: lines on standard error, plain or JSON.

pub(super) use crate::webhook::log::{Format, Level};
use std::io;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

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
