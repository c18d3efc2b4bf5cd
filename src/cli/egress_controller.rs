//! `outrigger egress-controller`: has egress policies at work in a cluster.

use super::egress::{Place, service};
use super::installation::ControlPlane;
use super::logging::Logging;
use crate::cluster::egress::{Controller, Options};
use crate::cluster::{Access, connect};
use crate::egress::compile::{GatewayService, Surroundings};
use crate::webhook::options::address;
use crate::webhook::{Admin, Phase, serve_admin, signals};
use anyhow::{Context as _, Result};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing::info;

/// Arguments of `egress-controller`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    control_plane: ControlPlane,
    #[command(flatten)]
    place: Place,
    /// Service of the egress gateway, to which its policies send what they list; without one nothing of that goes out
    #[arg(long, value_name = "NAME.NAMESPACE", value_parser = service)]
    gateway: Option<GatewayService>,
    /// Name of this replica, which no other has; in a pod, the pod's
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true)]
    identity: String,
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work(arguments));
    // Nobody waits for policies that are being compiled.
    runtime.shutdown_background();
    done
}

async fn work(arguments: Arguments) -> Result<()> {
    let mut phase = signals()?;
    let options = arguments.options();
    let access = Access {
        kubeconfig: arguments.kubeconfig,
        ..Access::default()
    };
    let client = connect(&access)
        .await
        .context("cannot set up the client of the API server")?;
    let controller = Controller::new(client, options);
    let (health, metrics) = (controller.health(), controller.health());
    let admin = Admin::new(move || health.ready(), move || metrics.metrics());
    let (address, admin) = serve_admin(arguments.admin_listen, admin).await?;
    info!(%address, "listening");
    tokio::select! {
        () = controller.work() => {}
        () = admin => {}
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    tokio::select! {
        () = controller.leave() => {}
        _ = phase.wait_for(|phase| *phase >= Phase::Aborting) => {}
    }
    info!("stopped");
    Ok(())
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            control_plane: self.control_plane.linkerd_namespace.clone(),
            surroundings: Surroundings {
                global_namespace: self.place.global_namespace.clone(),
                gateway: self.gateway.clone(),
                cluster_networks: self.place.cluster_network.clone(),
                ..Surroundings::default()
            },
            identity: self.identity.clone(),
        }
    }
}
