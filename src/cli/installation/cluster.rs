//! The installation's values as the cluster has them: key `values` of the ConfigMap `linkerd-config`.

use anyhow::{Result, anyhow};
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(super) struct Connection {
    /// File with the cluster's address and credentials, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// User to act as
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,
}

/// How long the API server may take to accept a connection: a laptop off its VPN should learn of it soon.
const CONNECT: Duration = Duration::from_secs(5);

/// How long it may take to answer.
const READ: Duration = Duration::from_secs(15);

impl Connection {
    /// The values document.
    pub(super) fn values(&self, namespace: &str) -> Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(self.fetch(namespace))
            .map_err(|error| anyhow!("{error}\nTo do without a cluster, give --values or --ignore-cluster"))
    }

    async fn fetch(&self, namespace: &str) -> Result<String> {
        let client = self.config().await.and_then(|config| Ok(Client::try_from(config)?));
        let maps: Api<ConfigMap> = Api::namespaced(client.map_err(|error| unreachable(&error))?, namespace);
        let found = maps.get_opt("linkerd-config").await;
        let map = found.map_err(|error| {
            if let kube::Error::Api(status) = error {
                return anyhow!("Cannot find Linkerd: {}", status.message);
            }
            unreachable(&error.into())
        })?;
        let missing = || anyhow!("Cannot find Linkerd: namespace {namespace} has no ConfigMap linkerd-config");
        let values = map.ok_or_else(missing)?.data.and_then(|mut data| data.remove("values"));
        values.ok_or_else(|| anyhow!("Cannot find Linkerd: ConfigMap {namespace}/linkerd-config has no key values"))
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
            None if self.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await?,
        };
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        if self.user.is_some() {
            config.auth_info.impersonate.clone_from(&self.user);
            config.auth_info.impersonate_groups = Some(self.groups.clone());
        }
        Ok(config)
    }
}

/// An error of the client, with its root where its own text does not name it.
fn unreachable(error: &anyhow::Error) -> anyhow::Error {
    let (text, root) = (error.to_string(), error.root_cause().to_string());
    let text = if text.contains(&root) {
        text
    } else {
        format!("{text}: {root}")
    };
    anyhow!("Cannot connect to Kubernetes: {text}")
}
