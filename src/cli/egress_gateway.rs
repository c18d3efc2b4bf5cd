//! `outrigger egress-gateway`: the one way out of the cluster.

use super::failed;
use super::installation;
use super::logging::Logging;
use super::network_validator::duration::duration;
use crate::cluster::Access;
use crate::egress::gateway::options::{FactSource, Limits, Port, Timings};
use crate::egress::gateway::{self, Options};
use crate::webhook::options::address;
use anyhow::{Result, ensure};
use clap::{Args, Parser};
use ipnet::IpNet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Where most systems have the authorities that they trust.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Arguments of `egress-gateway`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("log_format", |it| it.default_value("json")))]
pub(super) struct Arguments {
    /// Port that clients dial, and address where their connections to it come in; may be repeated
    #[arg(long, value_name = "PORT=ADDR", default_values = ["80=:4180", "443=:4143"], value_parser = Port::tcp)]
    listen: Vec<Port>,
    /// The same for datagrams; may be repeated
    #[arg(long, value_name = "PORT=ADDR", value_parser = Port::udp)]
    listen_udp: Vec<Port>,
    /// Address to answer probes and metrics on
    #[arg(long, value_name = "ADDR", default_value = ":9997", value_parser = address)]
    admin_listen: SocketAddr,
    /// Manifests with policies, pods, and the ConfigMaps that policies name, instead of a cluster's; read again when they
    /// change; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    objects: Vec<PathBuf>,
    /// File with the cluster's address and credentials, outside of a cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of objects that name none, and of the ConfigMaps of cluster-wide policies
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = installation::namespace)]
    namespace: String,
    /// Authorities to trust where the gateway begins TLS itself, PEM; read again when it changes [default: the system's]
    #[arg(long, value_name = "FILE")]
    trust_bundle: Option<PathBuf>,
    /// List of name servers; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// Network of the cluster's pods, Services or nodes, into which no name may lead; may be repeated
    #[arg(long, value_name = "CIDR", required = true)]
    cluster_network: Vec<IpNet>,
    /// Connections that may be open; further clients wait
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Connections of one source that may be open; further ones are closed
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().per_source)]
    max_connections_per_source: usize,
    /// How long to wait for a source that the cluster has not told of yet
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    source_timeout: Duration,
    /// How long a client may take to say enough to tell what it speaks
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    detect_timeout: Duration,
    /// How long a connection may be silent
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    idle_timeout: Duration,
    /// How long connections may last that are open when the gateway is told to stop
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    drain_timeout: Duration,
    #[command(flatten)]
    logging: Logging,
}

/// The gateway as a program of its own
#[derive(Debug, Parser)]
#[command(name = "outrigger-egress-gateway", version, max_term_width = 100)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

/// Runs `egress-gateway` as a program of its own, by `arguments`, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Program::try_parse_from(arguments) {
        Ok(program) => run(program.arguments).map_or_else(|error| failed(&error, 2), |()| ExitCode::SUCCESS),
        Err(error) => {
            let status = if error.use_stderr() { 2 } else { 0 };
            let shown = error.print();
            shown.map_or_else(|error| failed(&error.into(), 2), |()| ExitCode::from(status))
        }
    }
}

/// Serves until it is told to stop.
pub(super) fn run(arguments: Arguments) -> Result<()> {
    arguments.logging.start();
    Ok(gateway::serve(arguments.options()?)?)
}

impl Arguments {
    fn options(self) -> Result<Options> {
        let is_some = self.max_connections > 0 && self.max_connections_per_source > 0;
        ensure!(
            is_some,
            "--max-connections and --max-connections-per-source must be at least 1"
        );
        let facts = if self.objects.is_empty() {
            FactSource::Server(Access {
                kubeconfig: self.kubeconfig,
                context: self.context,
                ..Access::default()
            })
        } else {
            FactSource::Files(self.objects)
        };
        let system = || Some(PathBuf::from(SYSTEM_BUNDLE)).filter(|path| path.exists());
        Ok(Options {
            ports: self.listen.into_iter().chain(self.listen_udp).collect(),
            admin_listen: self.admin_listen,
            facts,
            namespace: self.namespace,
            trust_bundle: self.trust_bundle.or_else(system),
            resolv_conf: self.resolv_conf,
            internal: self.cluster_network,
            limits: Limits {
                connections: self.max_connections,
                per_source: self.max_connections_per_source,
            },
            timings: Timings {
                news: self.source_timeout,
                detect: self.detect_timeout,
                idle: self.idle_timeout,
                drain: self.drain_timeout,
                ..Timings::default()
            },
        })
    }
}
