//! The command line: arguments, exit codes, printing.
//!
//! A command reads, calls the rooms that do the work, and prints: the result on standard output, everything that is
//! meant for people on standard error. Exit status 0 is success, 1 the answer "no" (a resource that could not be
//! injected, a pod that would be refused), 2 bad input or usage; `inject` and `uninject` use 1 for all of it, as
//! Linkerd's do. A reader that closes the pipe has read enough: that is no error.

pub mod check;
#[cfg(feature = "egress-gateway")]
pub mod egress_gateway;
pub mod inject;
pub mod network_validator;
pub mod proxy_init;
pub mod resources;
pub mod uninject;

mod argv;
mod certs;
mod chart;
mod cni_agent;
mod completion;
mod egress;
mod egress_controller;
mod explain;
mod input;
mod install;
mod installation;
mod live;
mod logging;
mod manifests;
mod names;
mod objects;
mod paint;
mod policy;
mod probe;
mod spool;
mod table;
mod webhook;
mod workload;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::iter;
use std::path::Path;
use std::process::ExitCode;

/// Injects the Linkerd proxy into pods, and chooses a way to redirect their traffic that admission policy accepts
#[derive(Debug, Parser)]
#[command(name = "outrigger", version, propagate_version = false, max_term_width = 100, after_help = IN_POD)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add the proxy, or the annotations that have the webhook add it, to manifests
    Inject(Box<inject::Arguments>),
    /// Take the proxy out of manifests
    Uninject(uninject::Arguments),
    /// Serve the admission webhook
    Webhook(Box<webhook::Arguments>),
    /// Install the CNI plugin on a node and keep it installed
    CniAgent(Box<cni_agent::Arguments>),
    /// Have egress policies at work in a cluster
    EgressController(Box<egress_controller::Arguments>),
    /// Let out of the cluster what egress policies allow, and close the rest
    #[cfg(feature = "egress-gateway")]
    EgressGateway(Box<egress_gateway::Arguments>),
    /// Find out by dry runs what no API tells of admission policies
    Probe(Box<probe::Arguments>),
    /// Explain what becomes of the pods of manifests, or of live workloads, and why
    Explain(Box<explain::Arguments>),
    /// Check what the next pod of each meshed workload would meet, and what it needs
    Check(Box<check::Arguments>),
    /// Print the policies that workloads need, or ask one about pods
    #[command(subcommand)]
    Policy(policy::Action),
    /// Tell which hosts outside of the cluster workloads may reach
    #[command(subcommand)]
    Egress(egress::Action),
    /// Print what the webhook consists of, for kubectl apply
    Install(Box<install::Arguments>),
    /// Print what the CNI plugin's agent consists of, for kubectl apply
    InstallCni(Box<install::CniArguments>),
    /// Print what there is to delete, for kubectl delete
    Uninstall(Box<install::UninstallArguments>),
    /// Make certificates for development
    Certs(certs::Arguments),
    /// Print the script that completes commands in a shell
    Completion(completion::Arguments),
    /// Write the pages of the manual
    #[command(hide = true)]
    Man(completion::ManArguments),
    /// Print the version
    Version,
}

impl Action {
    fn run(self) -> Result<Verdict> {
        match self {
            Self::Policy(action) => return policy::run(&action),
            Self::Egress(action) => return egress::run(&action),
            Self::Explain(arguments) => return explain::run(&arguments),
            Self::Check(arguments) => return check::run(&arguments),
            Self::Inject(arguments) => inject::run(&arguments)?,
            Self::Uninject(arguments) => uninject::run(&arguments)?,
            Self::Install(arguments) => install::run(&arguments)?,
            Self::InstallCni(arguments) => install::run_cni(&arguments)?,
            Self::Uninstall(arguments) => install::uninstall(&arguments)?,
            Self::Certs(arguments) => certs::run(&arguments)?,
            Self::Webhook(arguments) => webhook::run(*arguments)?,
            Self::CniAgent(arguments) => cni_agent::run(*arguments)?,
            Self::EgressController(arguments) => egress_controller::run(*arguments)?,
            #[cfg(feature = "egress-gateway")]
            Self::EgressGateway(arguments) => egress_gateway::run(*arguments)?,
            Self::Probe(arguments) => probe::run(*arguments)?,
            Self::Completion(arguments) => completion::run(&arguments, Command::command())?,
            Self::Man(arguments) => completion::man(&arguments, Command::command())?,
            Self::Version => print(concat!("outrigger ", env!("CARGO_PKG_VERSION"), "\n"))?,
        }
        Ok(Verdict::Yes)
    }
}

/// What a command found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything is as it should be.
    Yes,
    /// Something would be refused.
    No,
    /// Some of the input could not be used; the rest was.
    BadInput,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Yes => 0,
            Verdict::No => 1,
            Verdict::BadInput => 2,
        })
    }
}

/// The commands that [`run_in_pod`] knows.
const IN_POD: &str = "In a pod, with the flags and exit status of Linkerd's programs:
  proxy-init         Write the rules that send a pod's traffic through its proxy
  network-validator  Prove that a pod's traffic is redirected to its proxy";

/// Runs the command that `arguments` name, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(status) = run_in_pod(&arguments) {
        return status;
    }
    let program = arguments.first().map_or_else(|| Path::new(""), Path::new);
    if let (true, Some(words)) = (completion::is_asked_for(program), arguments.get(1..)) {
        let done = completion::complete(words, Command::command());
        return done.map_or_else(|error| failed(&error, 2), |()| ExitCode::SUCCESS);
    }
    let command = Command::command().bin_name(completion::called(program));
    let arguments = argv::normalise(arguments);
    let like_linkerd = arguments
        .get(1)
        .is_some_and(|name| name == "inject" || name == "uninject");
    let bad_input = if like_linkerd { 1 } else { 2 };
    let outcome = match parse(command, arguments) {
        Ok(command) => command.action.run(),
        Err(error) => {
            let status = if error.use_stderr() { bad_input } else { 0 };
            return match error.print() {
                Ok(()) => ExitCode::from(status),
                Err(error) => failed(&error.into(), bad_input),
            };
        }
    };
    outcome.map_or_else(|error| failed(&error, bad_input), ExitCode::from)
}

/// Reads `arguments` of `command`.
fn parse(mut command: clap::Command, arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments)?;
    Command::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Runs a command that pods run, named by the first argument or, as in Linkerd's image, by the program's name.
fn run_in_pod(arguments: &[OsString]) -> Option<ExitCode> {
    let (program, rest) = arguments.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    let (name, rest) = match program.strip_prefix("linkerd2-") {
        Some(name) => (name, rest),
        None => rest
            .split_first()
            .and_then(|(name, rest)| Some((name.to_str()?, rest)))?,
    };
    let arguments = || iter::once(name.into()).chain(rest.iter().cloned());
    match name {
        "proxy-init" => Some(proxy_init::main(arguments())),
        "network-validator" => Some(network_validator::main(arguments())),
        _ => None,
    }
}

/// Says what went wrong, and with which status the program ends.
fn failed(error: &anyhow::Error, status: u8) -> ExitCode {
    let broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let text = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.to_string(),
        None => format!("Error: {}\n", describe(error)),
    };
    note(&text);
    ExitCode::from(status)
}

/// The error with its causes, but for those that its own text names already. What an API server says is the last of them.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let status = match cause.downcast_ref() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        };
        let is_last = status.is_some();
        let words = status.unwrap_or_else(|| cause.to_string());
        if text.is_empty() {
            text = words;
        } else if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        if is_last {
            break;
        }
    }
    text
}

/// An error that is printed as it is.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Linkerd's words for resources that could not be injected.
    pub fn transforming(errors: &[String]) -> Self {
        Self(format!("Error transforming resources:\n{}", errors.join("\n")))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Prints on standard output.
fn print(text: &str) -> Result<()> {
    print_with(|output| output.write_all(text.as_bytes()))
}

/// Has `write` print on standard output. A reader that closes the pipe has read enough; the command's verdict stands.
fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints on standard error. Where nobody can be told, the exit status and standard output still say it.
fn note(text: &str) {
    note_as_is(&printable(text));
}

/// Prints on standard error what has been made printable.
fn note_as_is(text: &str) {
    let _unsaid = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints on standard error where a person is likely to wait.
fn note_on_terminal(text: &str) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// Prints a warning on standard error.
fn warn(text: &str) {
    note(&format!("warning: {text}\n"));
}

/// The text without characters that a terminal obeys: what is quoted from a manifest is somebody else's.
fn printable(text: &str) -> String {
    text.split('\n').map(printable_line).collect::<Vec<_>>().join("\n")
}

/// The same for what is to stay on one line.
fn printable_line(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_pods_go_by_both_names() {
        let known =
            |arguments: &[&str]| run_in_pod(&arguments.iter().map(OsString::from).collect::<Vec<_>>()).is_some();
        assert!(known(&["/outrigger", "network-validator", "--off"]));
        assert!(known(&["/usr/lib/linkerd/linkerd2-network-validator", "--off"]));
        assert!(known(&["/usr/lib/linkerd/linkerd2-proxy-init", "--frob"]));
        assert!(!known(&["outrigger", "version"]) && !known(&["outrigger"]) && !known(&[]));
    }

    #[test]
    fn no_two_arguments_collide() {
        Command::command().debug_assert();
    }
}
