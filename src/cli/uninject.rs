//! `outrigger uninject`: takes out of manifests what injection put in, by whichever version of Linkerd or Outrigger.

use super::input::{self, Folder};
use super::resources::{self, Changed, Format, Outcome};
use crate::inject::uninject;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `uninject`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Manifests: files, folders (every file below them), or - for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to write the result
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: Format,
}

/// Uninjects, and prints the manifests, with a line a resource on standard error.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let inputs = input::read(&arguments.files, Folder::Whole)?;
    let all = resources::transform(&inputs, arguments.output, |object| {
        let mut value = object.clone();
        let outcome = if uninject::uninject(&mut value) {
            Outcome::Uninjected
        } else {
            Outcome::Skipped
        };
        Ok(Changed::new(value, outcome))
    })?;
    all.print()
}
