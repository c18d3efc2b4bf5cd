//! `outrigger cni-agent`: installs the CNI plugin on a node, with the environment of Linkerd's installer beside its flags.

use super::input;
use super::logging::Logging;
use crate::cluster::{Access, configure};
use crate::cni::agent::install::Layout;
use crate::cni::agent::{Agent, Farewell, Options, TokenSource};
use crate::cni::entry::{self, default_template, entry};
use crate::decide::placement::STARTUP_TAINT;
use crate::webhook::options::address;
use crate::webhook::{Admin, Phase, serve_admin, signals};
use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Args;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

// Where Linkerd's installer has everything.
const MOUNT_PREFIX: &str = "/host";
const BIN_DIR: &str = "/opt/cni/bin";
const NET_DIR: &str = "/etc/cni/net.d";

/// Arguments of `cni-agent`. Paths are those of the node; empty variables count as unset.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Name of this node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: String,
    /// Where the node's files are mounted, before --bin-dir, --net-dir and --cache-dir; / outside of a container
    #[arg(long, value_name = "DIR", env = "CONTAINER_MOUNT_PREFIX", default_value = MOUNT_PREFIX)]
    mount_prefix: String,
    /// The node's folder of CNI plugins
    #[arg(long, value_name = "DIR", env = "DEST_CNI_BIN_DIR", default_value = BIN_DIR)]
    bin_dir: String,
    /// The node's folder of network configurations
    #[arg(long, value_name = "DIR", env = "DEST_CNI_NET_DIR", default_value = NET_DIR)]
    net_dir: String,
    /// Where the runtime remembers how pods were set up
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni")]
    cache_dir: PathBuf,
    /// Folder of the socket and the credentials, the same in the container and on the node
    #[arg(long, value_name = "DIR", default_value = "/run/outrigger")]
    run_dir: PathBuf,
    /// Folder of the programs that are to be installed [default: that of this program]
    #[arg(long, value_name = "DIR")]
    source_dir: Option<PathBuf>,
    /// The plugin's configuration, JSON, in the form of Linkerd's
    #[arg(long, value_name = "JSON", env = "CNI_NETWORK_CONFIG")]
    network_config: Option<String>,
    /// A file with the same, where it is not given as such
    #[arg(long, value_name = "FILE", env = "CNI_NETWORK_CONFIG_FILE")]
    network_config_file: Option<String>,
    /// Service account whose token the plugin gets; it needs to get pods, no more
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = path, conflicts_with = "plugin_token_file")]
    plugin_account: Option<(String, String)>,
    /// File with the plugin's token, where no account is given
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    plugin_token_file: PathBuf,
    /// The agent's DaemonSet: its pods start without the plugin, and the plugin goes when it goes
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = path)]
    daemon_set: Option<(String, String)>,
    /// Where the runtime binds the network namespaces of pods
    #[arg(long, value_name = "DIR", default_value = "/run/netns")]
    netns_dir: PathBuf,
    /// Do not repair pods that have no rules
    #[arg(long)]
    no_repair: bool,
    /// Remove the plugin from the node when the agent stops
    #[arg(long)]
    remove_on_exit: bool,
    /// Address to answer probes and metrics on
    #[arg(long, value_name = "ADDR", default_value = ":9996", value_parser = address)]
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
    let options = arguments.options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime?.block_on(work(arguments, options))
}

async fn work(arguments: Arguments, options: Options) -> Result<()> {
    let mut phase = signals()?;
    let access = Access {
        kubeconfig: arguments.kubeconfig,
        ..Access::default()
    };
    let mut agent = Agent::bind(configure(&access).await?, options)?;
    let (health, told) = (agent.health(), agent.health());
    let admin = Admin::new(move || health.ready(), move || told.metrics());
    let (address, admin) = serve_admin(arguments.admin_listen, admin).await?;
    tracing::info!(%address, "listening");
    tokio::select! {
        () = agent.work() => {}
        () = admin => {}
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    tracing::info!("stopping");
    tokio::select! {
        () = agent.leave() => {}
        _ = phase.wait_for(|phase| *phase >= Phase::Aborting) => {}
    }
    Ok(())
}

impl Arguments {
    fn options(&self) -> Result<Options> {
        let prefix = or(&self.mount_prefix, MOUNT_PREFIX);
        let on_node = |path: &Path| Path::new(prefix).join(path.strip_prefix("/").unwrap_or(path));
        let socket = self.run_dir.join("cni.sock");
        let kubeconfig = self.run_dir.join("kubeconfig");
        let node = entry::Node {
            kubeconfig: kubeconfig.display().to_string(),
            socket: socket.display().to_string(),
            own_pods: self
                .daemon_set
                .as_ref()
                .map(|(namespace, name)| (namespace.clone(), format!("{name}-"))),
        };
        Ok(Options {
            node: self.node_name.clone(),
            layout: Layout {
                source_dir: self.source_dir()?,
                bin_dir: on_node(or(&self.bin_dir, BIN_DIR).as_ref()),
                net_dir: on_node(or(&self.net_dir, NET_DIR).as_ref()),
                kubeconfig,
                cache_dir: Some(on_node(&self.cache_dir)),
            },
            entry: entry(&self.template()?, &node),
            socket,
            token: match &self.plugin_account {
                Some((namespace, name)) => TokenSource::Account(namespace.clone(), name.clone()),
                None => TokenSource::File(self.plugin_token_file.clone()),
            },
            taint: STARTUP_TAINT.to_owned(),
            farewell: match &self.daemon_set {
                _ if self.remove_on_exit => Farewell::Remove,
                Some((namespace, name)) => Farewell::Ask(namespace.clone(), name.clone()),
                None => Farewell::Keep,
            },
            netns_dir: (!self.no_repair).then(|| on_node(&self.netns_dir)),
        })
    }

    fn source_dir(&self) -> Result<PathBuf> {
        let beside = || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("")) };
        self.source_dir.clone().map_or_else(beside, Ok)
    }

    fn template(&self) -> Result<Value> {
        let given = self.network_config.as_ref().filter(|text| !text.is_empty());
        let file = self.network_config_file.as_ref().filter(|path| !path.is_empty());
        let text = match (given, file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => input::text(path.as_ref())?,
            (None, None) => return Ok(default_template()),
        };
        let template: Value = serde_json::from_str(&text).context("the plugin's configuration is no JSON")?;
        ensure!(template.is_object(), "the plugin's configuration is no JSON object");
        Ok(template)
    }
}

/// Linkerd's installer takes an empty variable for its default.
fn or<'a>(given: &'a str, default: &'a str) -> &'a str {
    if given.is_empty() { default } else { given }
}

fn path(text: &str) -> Result<(String, String)> {
    let parts = text
        .split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let (namespace, name) = parts.ok_or_else(|| anyhow!("{text:?} is no NAMESPACE/NAME"))?;
    Ok((namespace.to_owned(), name.to_owned()))
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

    fn options(arguments: &[&str]) -> Options {
        let arguments = ["cni-agent", "--node-name", "n"].iter().chain(arguments);
        Command::parse_from(arguments).arguments.options().unwrap()
    }

    #[test]
    fn paths_are_those_of_the_node() {
        let made = options(&[
            "--daemon-set",
            "linkerd-cni/outrigger-cni",
            "--plugin-account",
            "linkerd-cni/plugin",
        ]);
        assert_eq!(made.layout.plugin(), Path::new("/host/opt/cni/bin/outrigger-cni"));
        assert_eq!(made.layout.net_dir, Path::new("/host/etc/cni/net.d"));
        assert_eq!(made.layout.kubeconfig, Path::new("/run/outrigger/kubeconfig"));
        assert_eq!(made.entry["kubernetes"]["kubeconfig"], "/run/outrigger/kubeconfig");
        assert_eq!(made.entry["outrigger"]["own-pods"]["name-prefix"], "outrigger-cni-");
        assert_eq!(
            made.farewell,
            Farewell::Ask("linkerd-cni".to_owned(), "outrigger-cni".to_owned())
        );
        assert_eq!(
            made.token,
            TokenSource::Account("linkerd-cni".to_owned(), "plugin".to_owned())
        );
    }

    #[test]
    fn outside_of_a_container_there_is_no_prefix() {
        let made = options(&[
            "--mount-prefix",
            "/",
            "--bin-dir",
            "",
            "--net-dir",
            "/tmp/net.d",
            "--remove-on-exit",
        ]);
        assert_eq!(made.layout.net_dir, Path::new("/tmp/net.d"));
        assert_eq!(made.layout.bin_dir, Path::new("/opt/cni/bin"));
        assert_eq!(made.farewell, Farewell::Remove);
        let config = r#"{"type": "linkerd-cni", "linkerd": {"proxy-uid": 7}}"#;
        assert_eq!(options(&["--network-config", config]).entry["linkerd"]["proxy-uid"], 7);
    }
}
