//! The objects of a live cluster as JSON, listed page by page.

use super::note_on_terminal;
use crate::cluster::index::PluginPlace;
use crate::decide::coverage::Plugin;
use crate::egress::compile::kinds::Kind;
use crate::policy::installed::Source;
use kube::Client;
use kube::api::{GetParams, ListParams, PostParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

pub(super) mod policies;

/// How many objects come at once: `kubectl`'s own number, which bounds what the server and we hold.
const PAGE: u32 = 500;

/// What the server answers where there is no such object (RFC 9110, 15.5.5).
pub(super) const NOT_FOUND: u16 = 404;

/// The resources that commands read.
pub(super) mod resource {
    use super::Resource;

    pub(in crate::cli) const NAMESPACES: Resource = Resource::new("v1", "Namespace", "namespaces");
    pub(in crate::cli) const NODES: Resource = Resource::new("v1", "Node", "nodes");
    pub(in crate::cli) const PODS: Resource = Resource::new("v1", "Pod", "pods");
    pub(in crate::cli) const SERVICES: Resource = Resource::new("v1", "Service", "services");
    pub(in crate::cli) const SECRETS: Resource = Resource::new("v1", "Secret", "secrets");
    pub(in crate::cli) const CONFIG_MAPS: Resource = Resource::new("v1", "ConfigMap", "configmaps");
    pub(in crate::cli) const REPLICATION_CONTROLLERS: Resource =
        Resource::new("v1", "ReplicationController", "replicationcontrollers");
    pub(in crate::cli) const DEPLOYMENTS: Resource = Resource::new("apps/v1", "Deployment", "deployments");
    pub(in crate::cli) const REPLICA_SETS: Resource = Resource::new("apps/v1", "ReplicaSet", "replicasets");
    pub(in crate::cli) const DAEMON_SETS: Resource = Resource::new("apps/v1", "DaemonSet", "daemonsets");
    pub(in crate::cli) const STATEFUL_SETS: Resource = Resource::new("apps/v1", "StatefulSet", "statefulsets");
    pub(in crate::cli) const JOBS: Resource = Resource::new("batch/v1", "Job", "jobs");
    pub(in crate::cli) const CRON_JOBS: Resource = Resource::new("batch/v1", "CronJob", "cronjobs");
    pub(in crate::cli) const NETWORK_POLICIES: Resource =
        Resource::new("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies");
    pub(in crate::cli) const ENDPOINT_SLICES: Resource =
        Resource::new("discovery.k8s.io/v1", "EndpointSlice", "endpointslices");
    pub(in crate::cli) const MUTATING_WEBHOOKS: Resource = Resource::new(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    );
}

/// A kind of object, and where the API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    api_version: Cow<'static, str>,
    kind: &'static str,
    pub(super) plural: &'static str,
}

impl Resource {
    /// `kind` of `api_version`, called `plural` in paths.
    pub(super) const fn new(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self {
            api_version: Cow::Borrowed(api_version),
            kind,
            plural,
        }
    }

    /// Egress policies, or what they compile to.
    pub(super) fn of_kind(kind: &Kind) -> Self {
        Self {
            api_version: kind.api_version().into(),
            kind: kind.name,
            plural: kind.plural,
        }
    }

    /// What policies are compiled from.
    pub(super) fn of(source: Source) -> Self {
        Self {
            api_version: source.api_version().into(),
            kind: source.kind(),
            plural: source.resource(),
        }
    }

    /// The path of the resource: everywhere, or in one namespace.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let version = &self.api_version;
        let root = if version.contains('/') { "apis" } else { "api" };
        match namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("/{root}/{version}/{}", self.plural),
        }
    }

    /// The object with its type: in a list, objects do not say it themselves.
    fn typed(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!(self.api_version));
            fields.insert("kind".to_owned(), json!(self.kind));
        }
        object
    }
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    rest: Option<String>,
}

/// What `keep` makes of every object of `resource`, in `namespace` or everywhere. One request a page, however many
/// namespaces there are.
pub(super) async fn list<T>(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    keep: impl FnMut(Value) -> Option<T>,
) -> Result<Vec<T>, kube::Error> {
    list_labelled(client, resource, namespace, None, keep).await
}

/// The namespaces where the plugins among `objects` have their pods, and whose plugin each is.
pub(super) fn plugin_places<'o>(objects: impl IntoIterator<Item = &'o Value>) -> BTreeSet<PluginPlace> {
    let plugins = objects.into_iter().filter_map(Plugin::read);
    plugins.map(|plugin| PluginPlace::of(&plugin)).collect()
}

/// The pods of the plugin at `place`: by their label, for the namespace may have others.
pub(super) async fn plugin_pods(client: &Client, place: &PluginPlace) -> Result<Vec<Value>, kube::Error> {
    let keep = |pod| Some(tidied(pod));
    list_labelled(
        client,
        &resource::PODS,
        Some(&place.namespace),
        Some(&place.selector()),
        keep,
    )
    .await
}

/// The objects of [`list`] that have `labels`, a selector as `kubectl` takes it.
pub(super) async fn list_labelled<T>(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    labels: Option<&str>,
    mut keep: impl FnMut(Value) -> Option<T>,
) -> Result<Vec<T>, kube::Error> {
    let request = Request::new(resource.path(namespace));
    let mut parameters = ListParams::default().limit(PAGE);
    parameters.label_selector = labels.map(str::to_owned);
    let (mut kept, mut seen) = (Vec::new(), 0);
    loop {
        let page = request.list(&parameters).map_err(kube::Error::BuildRequest)?;
        let page: Page = client.request(page).await?;
        let items = page.items.unwrap_or_default();
        seen += items.len();
        kept.extend(items.into_iter().filter_map(|object| keep(resource.typed(object))));
        match page.metadata.rest.filter(|rest| !rest.is_empty()) {
            Some(rest) => parameters.continue_token = Some(rest),
            None => return Ok(kept),
        }
        note_on_terminal(&format!("{}: {seen}…\n", resource.plural));
    }
}

/// One object; nothing where there is none of that name.
pub(super) async fn get(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, kube::Error> {
    let request = Request::new(resource.path(namespace)).get(name, &GetParams::default());
    match client.request(request.map_err(kube::Error::BuildRequest)?).await {
        Ok(object) => Ok(Some(resource.typed(object))),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the server answers to an object that is posted: for reviews, which are asked and not stored.
pub(super) async fn create(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    let request = Request::new(path).create(&PostParams::default(), serde_json::to_vec(object)?)?;
    Ok(client.request(request).await?)
}

/// The object without what nobody reads here: who wrote which field, and kubectl's copy of the whole.
pub(super) fn tidied(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

#[cfg(test)]
mod tests;
