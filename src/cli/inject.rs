//! `outrigger inject`: adds the proxy, or the annotations that have the webhook add it, to manifests.
//!
//! Flags, output and exit status are those of `linkerd inject`; what differs on purpose is in `docs/compatibility.md`.

mod injector;
mod overrides;

pub use injector::{Injector, Options};

use super::Failure;
use super::input::{self, Folder};
use super::installation::{self, Source};
use super::resources::{self, Format};
use crate::config::annotation::CLOSE_WAIT_TIMEOUT;
use crate::config::difference;
use crate::config::values::Values;
use crate::inject::Redirection;
use anyhow::{Result, anyhow};
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// Arguments of `inject`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Manifests: files, folders (every file below them), or - for standard input
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
    #[command(flatten)]
    overrides: overrides::Overrides,
    #[command(flatten)]
    source: Source,
}

/// Injects, and prints the manifests, with a line a resource on standard error.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let inputs = input::read(&arguments.files, Folder::Whole)?;
    let injector = arguments.injector()?;
    let all = resources::transform(&inputs, arguments.output, |object| injector.reinject(object))?;
    if !all.errors.is_empty() {
        return Err(Failure::transforming(&all.errors).into());
    }
    all.print()
}

impl Arguments {
    fn injector(&self) -> Result<Injector> {
        let installation = self.source.read()?;
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
