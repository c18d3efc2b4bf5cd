//! `outrigger probe`: finds out by dry runs what no API tells of admission policies.

use super::installation::{ControlPlane, namespace};
use super::logging::Logging;
use crate::cluster::probe::{Options, Probe};
use crate::cluster::{Access, connect};
use crate::decide::Setup;
use crate::webhook::options::address;
use crate::webhook::reload::{Change, Reloaded, Source};
use crate::webhook::{Admin, Phase, answer, serve_admin, signals};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

/// How often files are compared, as by the webhook.
const RELOAD: Duration = Duration::from_secs(10);

/// Arguments of `probe`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Values of the installation
    #[arg(long, value_name = "FILE", default_value = "/var/run/linkerd/config/values")]
    values: PathBuf,
    /// Values that lie over those
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,
    /// Trust anchors of the installation
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/linkerd/identity/trust-roots/ca-bundle.crt"
    )]
    trust_anchors: PathBuf,
    #[command(flatten)]
    control_plane: ControlPlane,
    /// A namespace to ask about although it does not say that its pods are injected; may be repeated
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    namespace: Vec<String>,
    /// Ask about those namespaces alone: where the account may create pods in no others
    #[arg(long, requires = "namespace")]
    listed_only: bool,
    /// Dry runs a second, at most; a namespace takes three or four
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// Minutes after which everything is found out anew; findings count for an hour
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=30))]
    period: u64,
    /// Address to answer probes and metrics on
    #[arg(long, value_name = "ADDR", default_value = ":9997", value_parser = address)]
    admin_listen: SocketAddr,
    /// File with the cluster's address and credentials, outside of a cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    logging: Logging,
}

/// Works until it is told to stop.
pub(super) fn run(arguments: Arguments) -> Result<()> {
    arguments.logging.start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime?.block_on(work(arguments))
}

async fn work(arguments: Arguments) -> Result<()> {
    let mut phase = signals()?;
    let options = arguments.options();
    let setup = arguments.setup()?;
    let (tell, told) = watch::channel(setup.current());
    let access = Access {
        kubeconfig: arguments.kubeconfig,
        ..Access::default()
    };
    let client = connect(&access)
        .await
        .context("cannot set up the client of the API server")?;
    let mut probe = Probe::new(client, options, told);
    let (health, metrics) = (probe.health(), probe.health());
    let admin = Admin::new(move || health.ready(), move || metrics.metrics());
    let (address, admin) = serve_admin(arguments.admin_listen, admin).await?;
    info!(%address, "listening");
    tokio::select! {
        () = probe.work() => {}
        () = admin => {}
        () = reload(&setup, &tell) => {}
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    info!("stopped");
    Ok(())
}

/// Compares the files again and again.
async fn reload(setup: &Reloaded<Setup>, tell: &watch::Sender<Arc<Setup>>) {
    loop {
        sleep(RELOAD).await;
        match setup.check() {
            Change::None => {}
            Change::Swapped => {
                info!("the configuration has changed and is in use");
                tell.send_replace(setup.current());
            }
            Change::Kept(error) => warn!(%error, "the configuration has changed and cannot be used, the old one stays"),
        }
    }
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            control_plane: self.control_plane.linkerd_namespace.clone(),
            namespaces: self.namespace.iter().cloned().collect(),
            listed_only: self.listed_only,
            pause: Duration::from_secs(1) / self.rate,
            period: Duration::from_secs(60 * self.period),
        }
    }

    fn setup(&self) -> Result<Reloaded<Setup>> {
        let sources = [
            Source::File(self.values.clone()),
            Source::optional(self.overrides.as_deref()),
            Source::File(self.trust_anchors.clone()),
        ];
        let control_plane = self.control_plane.linkerd_namespace.clone();
        let read = move |[values, overrides, anchors]: [&[u8]; 3]| {
            answer::complete(answer::read(&[values, overrides], Some(anchors), &control_plane)?)
        };
        Reloaded::load(sources, read).map_err(|error| anyhow!(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(arguments: &str) -> Result<Arguments, clap::Error> {
        let all = std::iter::once("probe").chain(arguments.split_whitespace());
        Command::try_parse_from(all).map(|command| command.arguments)
    }

    #[test]
    fn a_rate_is_a_pause_between_dry_runs() {
        let options = parse("--rate 4 --period 2 --namespace a --namespace b --listed-only")
            .unwrap()
            .options();
        assert_eq!(
            (options.pause, options.period),
            (Duration::from_millis(250), Duration::from_secs(120))
        );
        assert!(options.listed_only && options.namespaces.len() == 2);
        for wrong in ["--rate 0", "--period 31", "--listed-only", "--namespace A_b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
