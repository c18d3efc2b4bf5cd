//! `outrigger inject`: adds the proxy, or the annotations that have the webhook add it, to manifests.
//!
//! Flags, output and exit status are those of `linkerd inject`; what differs on purpose is in `docs/compatibility.md`.

mod injector;
mod overrides;
mod surroundings;

pub use injector::{Injector, Options};

use super::Failure;
use super::input::Sources;
use super::installation::{self, Source};
use super::paint::stderr_paint;
use super::resources::{self, Format, report};
use crate::config::annotation::CLOSE_WAIT_TIMEOUT;
use crate::config::difference;
use crate::config::values::Values;
use crate::inject::Redirection;
use anyhow::{Result, anyhow};
use clap::{ArgAction, Args};
use std::path::PathBuf;
use surroundings::Surroundings;

/// Arguments of `inject`.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
pub(super) struct Arguments {
    /// Manifests: files, folders (every .yaml, .yml and .json file below them), https:// URLs, or - for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the proxy itself, instead of annotations for the webhook
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true, default_missing_value = "true", default_value = "false", hide_default_value = true)]
    manual: bool,
    #[arg(
        long,
        help = "Have the CNI plugin redirect traffic, instead of an init container with NET_ADMIN"
    )]
    no_init_container: bool,
    /// Add a debug container
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true, default_missing_value = "true", default_value = "false", hide_default_value = true)]
    enable_debug_sidecar: bool,
    /// How long closed connections stay tracked, such as 30s; makes the init container privileged
    #[arg(long, value_name = "DURATION")]
    close_wait_timeout: Option<String>,
    /// How to write the result
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: Format,
    /// Report what was looked for and not found as well
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    overrides: overrides::Overrides,
    #[command(flatten)]
    source: Source,
}

/// Injects, and prints the manifests, with a line a resource on standard error.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut sources = Sources::find(&arguments.files)?;
    let mut injector = arguments.injector()?;
    if arguments.manual {
        let surroundings = Surroundings::find(&mut sources, injector.installation())?;
        injector = injector.among(surroundings);
    }
    let all = resources::transform(&sources, arguments.output, |object| injector.reinject(object))?;
    sources.warn_of_passed_over();
    if !all.errors.is_empty() {
        return Err(Failure::transforming(&all.errors).into());
    }
    all.print(|reports| report::in_colour(reports, arguments.verbose, stderr_paint()))
}

impl Arguments {
    fn injector(&self) -> Result<Injector> {
        let installation = match self.manual {
            true => self.source.read_whole()?,
            false => self.source.read()?,
        };
        let mut values = Values::clone(&installation.values);
        for ignored in self.overrides.apply(&mut values)? {
            super::warn(&ignored);
        }
        if let Some(timeout) = &self.close_wait_timeout {
            difference::set(&mut values, CLOSE_WAIT_TIMEOUT, timeout)
                .map_err(|error| anyhow!("--close-wait-timeout: {timeout:?} is not {}", error.expected))?;
        }
        let options = Options {
            manual: self.manual,
            redirection: self.no_init_container.then_some(Redirection::Cni),
            debug: self.enable_debug_sidecar,
        };
        let injector = Injector::new(&installation, values, options);
        if self.manual {
            installation::check(injector.installation())?;
        }
        Ok(injector)
    }
}
