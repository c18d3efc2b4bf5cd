//! What a live cluster says: namespaces, nodes, where the CNI plugin is, its policies, its release and Linkerd's
//! configuration.

use super::super::Arguments;
use super::policies;
use crate::cli::installation::Connection;
use crate::cli::{describe, note_on_terminal};
use crate::cluster::server_of;
use crate::decide::Coverage;
use crate::policy::installed::Source;
use crate::policy::pod_security::Server;
use crate::policy::probe::CONFIG_MAP;
use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// What the cluster says.
#[derive(Default)]
pub(super) struct Found {
    pub(super) objects: Vec<Value>,
    pub(super) values: Option<String>,
    pub(super) server: Option<Server>,
    /// Where the CNI plugin is, where that cannot be seen.
    pub(super) coverage: Option<Coverage>,
    /// What policies are compiled from and cannot be seen, and why.
    pub(super) withheld: Vec<(Source, String)>,
    /// The namespace of objects that name none.
    pub(super) namespace: String,
    /// What could not be asked.
    pub(super) assumptions: Vec<String>,
}

/// Which namespaces are of interest, given the default one.
type Wanted<'a> = dyn Fn(&str) -> BTreeSet<String> + 'a;

/// Asks the cluster that the arguments name; where they name none, nobody.
pub(super) fn ask(arguments: &Arguments, wanted: &Wanted<'_>) -> Result<Found> {
    let cluster = &arguments.cluster;
    let mut found = Found {
        namespace: "default".to_owned(),
        ..Found::default()
    };
    if cluster.context.is_none() && cluster.kubeconfig.is_none() {
        return Ok(found);
    }
    let connection = Connection::to(cluster.kubeconfig.clone(), cluster.context.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connection.client().await?;
        note_on_terminal("asking the cluster…\n");
        client.default_namespace().clone_into(&mut found.namespace);
        let info = client.apiserver_version().await.context("release of the API server")?;
        found.server = server_of(&info);
        let api = Api::<Namespace>::all(client.clone());
        let namespaces = wanted(&found.namespace);
        for name in &namespaces {
            let namespace = api.get_opt(name).await.with_context(|| format!("namespace {name}"))?;
            found.objects.extend(namespace.map(value).transpose()?);
        }
        match nodes(&client).await {
            Ok(objects) => found.objects.extend(objects),
            Err(error) => found.coverage = Some(Coverage::Unknown { why: describe(&error) }),
        }
        policies::ask(&client, &namespaces, &mut found).await;
        let control_plane = &arguments.assumptions.control_plane.linkerd_namespace;
        match findings(&client, control_plane).await {
            Ok(findings) => found.objects.extend(findings),
            Err(error) => found
                .assumptions
                .push(format!("what a probe has found out is not known: {}", describe(&error))),
        }
        if arguments.assumptions.values.is_empty() {
            let values = connection.find_values(&client, control_plane).await;
            match values {
                Ok(values) => found.values = Some(values),
                Err(error) => found.assumptions.push(describe(&error)),
            }
        }
        Ok(found)
    })
}

/// The nodes, and what may put the CNI plugin on them.
async fn nodes(client: &Client) -> Result<Vec<Value>> {
    let mut objects = list::<Node>(client).await?;
    objects.extend(list::<DaemonSet>(client).await?);
    Ok(objects)
}

/// What a probe reports, where there is one.
async fn findings(client: &Client, namespace: &str) -> Result<Option<Value>> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = api.get_opt(CONFIG_MAP).await?;
    found.map(value).transpose()
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
    found.items.into_iter().map(value).collect()
}

fn value<K: Resource + Serialize>(mut object: K) -> Result<Value> {
    object.managed_fields_mut().clear();
    Ok(serde_json::to_value(object)?)
}
