//! `outrigger uninject`: takes out of manifests what injection put in, by whichever version of Linkerd or Outrigger.

use super::input::Sources;
use super::resources::{self, Change, Changed, Format, Outcome, report};
use crate::inject::uninject;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// Arguments of `uninject`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Manifests: files, folders (every .yaml, .yml and .json file below them), https:// URLs, or - for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to write the result
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: Format,
}

/// Uninjects, and prints the manifests, with a line a resource on standard error.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let sources = Sources::find(&arguments.files)?;
    let all = resources::transform(&sources, arguments.output, uninjected)?;
    sources.warn_of_passed_over();
    all.print(report::of_uninjection)
}

/// `object` without what injection put in.
pub fn uninjected(object: &Value) -> Change {
    let mut value = object.clone();
    let outcome = match uninject::uninject(&mut value) {
        true => Outcome::Uninjected,
        false => Outcome::Skipped,
    };
    Ok(Changed::new(value, outcome))
}
