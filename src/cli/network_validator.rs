//! `outrigger network-validator`: proves, before the application starts, that its connections will reach the proxy.
//!
//! It listens where the proxy will and connects elsewhere: where the rules are in force, it meets itself. No packet of it
//! leaves the pod then. Incoming connections cannot be tried from within a pod (they never pass the rules' inbound part);
//! where the container may read the rules, that part is read.
//!
//! Exit status: 0 redirected, [`NOT_REDIRECTED`] not redirected (the repair controller restarts such pods),
//! [`NOT_TESTED`] nothing could be proved, 2 wrong arguments.

pub(super) mod duration;
mod probe;
mod route;

use super::logging::{self, Level};
use crate::redirect::Family;
use crate::redirect::apply::redirects_inbound;
use clap::Parser as _;
use duration::duration;
use probe::{Listener, Probe};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use tracing_subscriber::filter::Targets;

/// Traffic is not redirected; the number is Linkerd's.
pub const NOT_REDIRECTED: u8 = 95;
/// Nothing could be proved: the port is in use, there is no route, and the like.
pub const NOT_TESTED: u8 = 1;

/// Proves that a pod's traffic is redirected to its proxy.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "network-validator", bin_name = "outrigger network-validator", version)]
pub struct Options {
    /// What is logged: a level or a filter
    #[arg(long, env = "LINKERD_NETWORK_VALIDATOR_LOG_LEVEL", default_value = "info")]
    log_level: String,
    /// plain or json
    #[arg(long, env = "LINKERD_NETWORK_VALIDATOR_LOG_FORMAT", default_value = "plain")]
    log_format: String,
    /// How long the rules are waited for: a number and ms, s, m, h or d
    #[arg(long, default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Where the proxy will listen for outgoing connections; the unspecified IPv6 address proves both families
    #[arg(long, default_value = "0.0.0.0:4140")]
    listen_addr: SocketAddr,
    /// Where to connect to; nothing needs to be there
    #[arg(long, default_value = "192.0.2.2:1404")]
    connect_addr: SocketAddr,
    /// Prove the fence too: that a datagram of this container's is refused
    #[arg(long)]
    egress_fence: bool,
    /// Prove nothing: for clusters in which a taint keeps pods away from nodes without the CNI plugin
    #[arg(long, env = "OUTRIGGER_NETWORK_VALIDATOR_OFF", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    off: bool,
}

/// Runs the command with its arguments, the first of which is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Options::try_parse_from(args) {
        Ok(options) => run(&options),
        Err(error) => {
            let _shown = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// What was found out about one family.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Redirected,
    /// With what happened instead.
    NotRedirected(String),
    /// With the reason.
    NotTested(String),
}

/// Proves what `options` ask for.
pub fn run(options: &Options) -> ExitCode {
    let filter = options.log_level.parse::<Targets>();
    let bad_filter = filter.is_err();
    let filter = filter.unwrap_or_else(|_bad| logging::filter(Level::Info));
    let _logging = logging::start(filter, logging::Format::from(options.log_format.as_str()));
    if bad_filter {
        warn!(
            "--log-level {:?} is no level and no filter: info is used",
            options.log_level
        );
    }
    if options.off {
        info!("switched off: nothing is proved");
        return ExitCode::SUCCESS;
    }
    if let Err(error) = end_on_signal() {
        warn!("signals will not be heard: {error}");
    }
    match prove(options) {
        Outcome::Redirected => ExitCode::SUCCESS,
        Outcome::NotRedirected(what) => {
            error!("{what}; {}", advice(options));
            ExitCode::from(NOT_REDIRECTED)
        }
        Outcome::NotTested(why) => {
            error!("nothing could be proved: {why}");
            ExitCode::from(NOT_TESTED)
        }
    }
}

/// Ends the process at SIGTERM and SIGINT, which a container's first process would not hear otherwise.
fn end_on_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    drop(entered);
    let _waiting = std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        });
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "what is being proved cannot be interrupted"
        )]
        std::process::exit(NOT_TESTED.into());
    });
    Ok(())
}

fn prove(options: &Options) -> Outcome {
    let deadline = Instant::now() + options.timeout;
    let listener = match Listener::bind(options.listen_addr) {
        Ok(listener) => listener,
        Err(error) => return Outcome::NotTested(error),
    };
    let mut outcomes = Vec::new();
    for family in families(options) {
        let probe = Probe {
            listener: &listener,
            family,
            connect: options.connect_addr,
            deadline,
        };
        let outcome = probe.run();
        match &outcome {
            Outcome::Redirected => info!("outgoing {family} connections are redirected"),
            Outcome::NotRedirected(what) => warn!("outgoing {family} connections are not redirected: {what}"),
            Outcome::NotTested(why) => info!("outgoing {family} connections were not tried: {why}"),
        }
        outcomes.push(outcome);
        if options.egress_fence {
            outcomes.push(probe.fence());
        }
    }
    match redirects_inbound() {
        Some(true) => info!("incoming connections are redirected, by the rules"),
        Some(false) => outcomes.insert(
            0,
            Outcome::NotRedirected("no rule redirects incoming connections".to_owned()),
        ),
        None => info!("incoming connections were not tried: this container may not read the rules"),
    }
    verdict(&outcomes)
}

/// The worst of what was found; a family that the pod does not have spoils nothing.
fn verdict(outcomes: &[Outcome]) -> Outcome {
    let bad = outcomes
        .iter()
        .find(|outcome| matches!(outcome, Outcome::NotRedirected(_)));
    if let Some(bad) = bad {
        return bad.clone();
    }
    let good = outcomes.iter().find(|outcome| **outcome == Outcome::Redirected);
    good.or_else(|| outcomes.first())
        .cloned()
        .unwrap_or_else(|| Outcome::NotTested("no family is to be tried".to_owned()))
}

/// A proxy that listens for both families has rules for both.
fn families(options: &Options) -> Vec<Family> {
    let listens_for_both = options.listen_addr.is_ipv6() && options.listen_addr.ip().is_unspecified();
    match (listens_for_both, options.connect_addr) {
        (true, _) => vec![Family::V6, Family::V4],
        (false, SocketAddr::V4(_)) => vec![Family::V4],
        (false, SocketAddr::V6(_)) => vec![Family::V6],
    }
}

fn advice(options: &Options) -> String {
    let uid = rustix::process::geteuid().as_raw();
    format!(
        "the CNI plugin set no rules for this pod, or they do not hold here: see the log of the CNI plugin's pod and of the \
         container runtime on this node for a missing kernel module (nf_tables, xt_REDIRECT, xt_owner), SELinux or another \
         CNI plugin's rules; this container runs as UID {uid}, which must not be the proxy's; port {} must not be \
         among the skipped outbound ports",
        options.connect_addr.port()
    )
}

#[cfg(test)]
mod tests;
