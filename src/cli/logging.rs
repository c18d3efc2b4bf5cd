//! Logging of the commands that run inside a pod and end: lines on standard error, plain or JSON.

pub(super) use crate::webhook::log::{Format, Level};
use std::io;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;

/// Logs what this thread says, until the guard is dropped.
pub(super) fn start(filter: EnvFilter, format: Format) -> DefaultGuard {
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter);
    let lines = lines.with_target(false).with_ansi(false);
    match format {
        Format::Plain => tracing::subscriber::set_default(lines.finish()),
        Format::Json => tracing::subscriber::set_default(lines.json().flatten_event(true).finish()),
    }
}

/// A filter that lets one level and everything graver through.
pub(super) fn filter(level: Level) -> EnvFilter {
    EnvFilter::default().add_directive(LevelFilter::from(level).into())
}
