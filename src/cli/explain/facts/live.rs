//! What a live cluster says: namespaces, nodes, the CNI plugin's DaemonSets, its release and Linkerd's configuration.

use super::super::Arguments;
use crate::cli::installation::Connection;
use crate::policy::Release;
use crate::policy::pod_security::Server;
use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// What the cluster says.
pub(super) struct Found {
    pub(super) objects: Vec<Value>,
    pub(super) values: Option<String>,
    pub(super) server: Option<Server>,
}

/// Asks the cluster that the arguments name.
pub(super) fn ask(arguments: &Arguments) -> Result<Found> {
    let connection = Connection::to(arguments.kubeconfig.clone(), arguments.context.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connection.client().await?;
        let mut objects = list::<Namespace>(&client).await?;
        objects.extend(list::<Node>(&client).await?);
        objects.extend(list::<DaemonSet>(&client).await?);
        let info = client.apiserver_version().await.context("release of the API server")?;
        let release = format!("{}.{}", info.major, info.minor).parse::<Release>();
        let values = connection.find_values(&client, &arguments.linkerd_namespace).await.ok();
        Ok(Found {
            objects,
            values,
            server: release.ok().map(Server::from),
        })
    })
}

/// Every object of one kind, as JSON.
async fn list<K>(client: &Client) -> Result<Vec<Value>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let found = api
        .list(&ListParams::default())
        .await
        .with_context(|| K::plural(&()).into_owned())?;
    let value = |mut object: K| {
        object.managed_fields_mut().clear();
        serde_json::to_value(object)
    };
    Ok(found.items.into_iter().map(value).collect::<Result<_, _>>()?)
}
