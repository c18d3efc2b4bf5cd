//! The installation's values as the cluster has them: key `values` of the ConfigMap `linkerd-config`, and of the one that lies
//! over it, `outrigger-config`.

use crate::cli::describe;
use crate::cluster::{Access, connect};
use anyhow::{Result, anyhow};
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(in crate::cli) struct Connection {
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

/// The ConfigMap of values that lie over Linkerd's (`charts/outrigger/templates/config.yaml`).
pub(in crate::cli) const OVERRIDES: &str = "outrigger-config";

/// How long the API server may take to answer.
const SILENCE: Duration = Duration::from_secs(15);

impl Connection {
    /// The values documents, later ones over earlier ones.
    pub(super) fn values(&self, namespace: &str) -> Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(self.fetch(namespace))
            .map_err(|error| anyhow!("{error}\nTo do without a cluster, give --values or --ignore-cluster"))
    }

    async fn fetch(&self, namespace: &str) -> Result<Vec<String>> {
        self.find_values(&self.client().await?, namespace).await
    }

    /// The trust anchors as every proxy gets them; nothing where the control plane has none.
    pub(super) fn trust_roots(&self, namespace: &str) -> Result<Option<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let maps: Api<ConfigMap> = Api::namespaced(self.client().await?, namespace);
            let found = maps.get_opt("linkerd-identity-trust-roots").await;
            let map = found.map_err(|error| anyhow!("trust anchors: {}", describe(&error.into())))?;
            Ok(map.and_then(|map| map.data?.remove("ca-bundle.crt")))
        })
    }

    /// The cluster of a kubeconfig's context, as the user that it names.
    pub(in crate::cli) fn to(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self {
            kubeconfig,
            context,
            user: None,
            groups: Vec::new(),
        }
    }

    /// Whether one is named, instead of the usual one being meant.
    pub(in crate::cli) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// A client of the cluster.
    pub(in crate::cli) async fn client(&self) -> Result<Client> {
        let access = Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            user: self.user.clone(),
            groups: self.groups.clone(),
            silence: Some(SILENCE),
        };
        connect(&access).await.map_err(|error| unreachable(&error.into()))
    }

    /// The values documents of the control plane in `namespace`, later ones over earlier ones.
    pub(in crate::cli) async fn find_values(&self, client: &Client, namespace: &str) -> Result<Vec<String>> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let found = maps.get_opt("linkerd-config").await;
        let map = found.map_err(|error| {
            if let kube::Error::Api(status) = error {
                return anyhow!("Cannot find Linkerd: {}", status.message);
            }
            unreachable(&error.into())
        })?;
        let missing = || anyhow!("Cannot find Linkerd: namespace {namespace} has no ConfigMap linkerd-config");
        let values = map.ok_or_else(missing)?.data.and_then(|mut data| data.remove("values"));
        let values = values
            .ok_or_else(|| anyhow!("Cannot find Linkerd: ConfigMap {namespace}/linkerd-config has no key values"))?;
        // Only an installation that says something else than Linkerd's has these; who may not read them has Linkerd's.
        let overrides = match maps.get_opt(OVERRIDES).await {
            Ok(map) => map.and_then(|map| map.data?.remove("values")),
            Err(kube::Error::Api(_)) => None,
            Err(error) => return Err(unreachable(&error.into())),
        };
        Ok([Some(values), overrides].into_iter().flatten().collect())
    }
}

fn unreachable(error: &anyhow::Error) -> anyhow::Error {
    anyhow!("Cannot connect to Kubernetes: {}", describe(error))
}
