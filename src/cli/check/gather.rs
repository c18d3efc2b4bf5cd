//! What a cluster says of everything that is checked. Nothing is created: what is asked besides lists are reviews of access
//! and dry runs.

pub(super) mod access;
mod control_plane;
pub(super) mod dry_run;
pub(super) mod handshake;
mod nodes;

use super::rules::proxies::{Running, asks_since};
use super::rules::webhook::asks;
use crate::cli::live::policies::{Policies, Scope};
use crate::cli::live::{self, Resource, resource, tidied};
use crate::cluster::{Owner, server_of};
use crate::policy::Release;
use crate::policy::pod_security::Server;
use anyhow::{Context, Result};
use kube::Client;
use nodes::Fleet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A list that may not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Withheld {
    /// The resource.
    pub(super) resource: String,
    /// The server's words.
    pub(super) why: String,
    /// What cannot be told without it.
    pub(super) unknown: &'static str,
}

/// Which part of the cluster is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// One namespace, or all.
    pub(super) namespace: Option<&'a str>,
    /// The control plane's.
    pub(super) control_plane: &'a str,
    /// Whether running pods are wanted.
    pub(super) pods: bool,
}

/// What there is. Lists are missing where they may not be read.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) server: Server,
    pub(super) namespaces: Option<Vec<Value>>,
    /// Since when a namespace asks for injection.
    pub(super) asks_since: BTreeMap<String, String>,
    pub(super) nodes: Option<Vec<Value>>,
    /// Of all namespaces, for the CNI plugin may be in any.
    pub(super) daemon_sets: Option<Vec<Value>>,
    /// The pods of the CNI plugin, as far as they may be read.
    pub(super) plugin_pods: Vec<Value>,
    /// Everything that makes pods and is made by nothing else that does.
    pub(super) workloads: Vec<Value>,
    /// Deployments of the control plane's namespace, or of all.
    pub(super) deployments: Option<Vec<Value>>,
    pub(super) webhooks: Option<Vec<Value>>,
    pub(super) network_policies: Option<Vec<Value>>,
    pub(super) policies: Policies,
    /// Running pods, in short; whole are those without a proxy where one may be wanted.
    pub(super) pods: Option<Vec<(Running, Option<Value>)>>,
    pub(super) values: Values,
    /// The trust anchors of their own ConfigMap.
    pub(super) anchors: Option<String>,
    /// What a probe reports, where there is one.
    pub(super) probe: Option<Value>,
    /// `tls.crt` of the webhook's Secret.
    pub(super) secret: Option<Vec<u8>>,
    /// Whether the webhook's Service has a ready endpoint, and where it is.
    pub(super) endpoints: Option<bool>,
    pub(super) service_address: Option<String>,
    pub(super) withheld: Vec<Withheld>,
}

/// `values` of the ConfigMap `linkerd-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// It may not be read.
    Withheld,
    /// There is none.
    Missing,
    /// YAML.
    Document(String),
}

/// What lacks when a list does.
const TELLS: [(&Resource, &str); 8] = [
    (&resource::REPLICATION_CONTROLLERS, "their pods"),
    (&resource::DEPLOYMENTS, "their pods, and the injector's Deployment"),
    (&resource::REPLICA_SETS, "pods of those that no Deployment owns"),
    (&resource::DAEMON_SETS, "their pods, and where the CNI plugin is"),
    (&resource::STATEFUL_SETS, "their pods"),
    (&resource::JOBS, "their pods"),
    (&resource::CRON_JOBS, "their pods"),
    (&resource::NETWORK_POLICIES, "what reaches the proxy's port"),
];

struct Gatherer<'a> {
    client: &'a Client,
    withheld: Vec<Withheld>,
}

/// Gathers everything. A server that does not answer is an error; one that refuses is not.
pub(super) async fn gather(client: &Client, wanted: Wanted<'_>) -> Result<Gathered> {
    let info = client.apiserver_version().await.context("release of the API server")?;
    let server = server_of(&info).unwrap_or_else(|| Release::NEWEST.into());
    let mut gatherer = Gatherer {
        client,
        withheld: Vec::new(),
    };
    let (namespaces, asks_since) = gatherer.namespaces(wanted).await?;
    let Fleet {
        nodes,
        daemon_sets,
        plugin_pods,
    } = gatherer.nodes().await?;
    let webhooks = gatherer
        .list(
            &resource::MUTATING_WEBHOOKS,
            None,
            "which pods the webhook is asked about",
            |it| Some(tidied(it)),
        )
        .await?;
    let mut deployments = gatherer.of(&resource::DEPLOYMENTS, wanted.namespace).await?;
    let mut workloads = gatherer.workloads(wanted).await?;
    let here = |object: &&Value| wanted.namespace.is_none_or(|namespace| is_in(object, namespace));
    let listed = deployments.iter().chain(&daemon_sets).flatten();
    workloads.extend(listed.filter(here).filter(|object| is_root(object)).cloned());
    if wanted
        .namespace
        .is_some_and(|namespace| namespace != wanted.control_plane)
    {
        deployments = gatherer.of(&resource::DEPLOYMENTS, Some(wanted.control_plane)).await?;
    }
    let network_policies = gatherer.of(&resource::NETWORK_POLICIES, wanted.namespace).await?;
    let pods = match wanted.pods {
        true => gatherer.pods(wanted.namespace, namespaces.as_deref()).await?,
        false => None,
    };
    let policies = gatherer.policies(server, wanted.namespace).await;
    let values = gatherer.values(wanted.control_plane).await?;
    let anchors = gatherer.anchors(wanted.control_plane).await?;
    let probe = gatherer.probe(wanted.control_plane).await?;
    let secret = gatherer.secret(wanted.control_plane).await?;
    let (endpoints, service_address) = gatherer.service(webhooks.as_deref()).await?;
    Ok(Gathered {
        server,
        namespaces,
        asks_since,
        nodes,
        daemon_sets,
        plugin_pods,
        workloads,
        deployments,
        webhooks,
        network_policies,
        policies,
        pods,
        values,
        anchors,
        probe,
        secret,
        endpoints,
        service_address,
        withheld: gatherer.withheld,
    })
}

impl Gatherer<'_> {
    /// A list; nothing, and a note, where the server refuses it.
    async fn list<T>(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        unknown: &'static str,
        keep: impl FnMut(Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let found = live::list(self.client, resource, namespace, keep).await;
        self.unless_refused(found, resource, unknown)
    }

    async fn of(&mut self, resource: &Resource, namespace: Option<&str>) -> Result<Option<Vec<Value>>> {
        let tells = TELLS.iter().find(|(listed, _)| *listed == resource);
        let unknown = tells.map_or("what they say", |(_, unknown)| unknown);
        self.list(resource, namespace, unknown, |object| Some(tidied(object)))
            .await
    }

    fn unless_refused<T>(
        &mut self,
        found: Result<T, kube::Error>,
        resource: &Resource,
        unknown: &'static str,
    ) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) => {
                self.withheld.push(Withheld {
                    resource: resource.plural.to_owned(),
                    why: status.message.clone(),
                    unknown,
                });
                Ok(None)
            }
            Err(error) => Err(error).context(resource.plural),
        }
    }

    /// All namespaces; of a user who may see one alone, that one.
    async fn namespaces(&mut self, wanted: Wanted<'_>) -> Result<(Option<Vec<Value>>, BTreeMap<String, String>)> {
        let mut since = BTreeMap::new();
        let mut keep = |namespace: Value| {
            let name = namespace.pointer("/metadata/name").and_then(Value::as_str);
            if let Some((name, time)) = name.zip(asks_since(&namespace)) {
                since.insert(name.to_owned(), time);
            }
            Some(tidied(namespace))
        };
        let all = live::list(self.client, &resource::NAMESPACES, None, &mut keep).await;
        let found = match (all, wanted.namespace) {
            (Err(kube::Error::Api(_)), Some(name)) => {
                let one = live::get(self.client, &resource::NAMESPACES, None, name).await;
                one.map(|one| one.into_iter().filter_map(keep).collect())
            }
            (all, _) => all,
        };
        let found = self.unless_refused(found, &resource::NAMESPACES, "which workloads ask for the mesh")?;
        Ok((found, since))
    }

    /// What makes pods, but for Deployments and `DaemonSets`, which are listed for other reasons too.
    async fn workloads(&mut self, wanted: Wanted<'_>) -> Result<Vec<Value>> {
        let mut workloads = Vec::new();
        for resource in [
            &resource::STATEFUL_SETS,
            &resource::CRON_JOBS,
            &resource::JOBS,
            &resource::REPLICA_SETS,
            &resource::REPLICATION_CONTROLLERS,
        ] {
            let unknown = TELLS
                .iter()
                .find(|(listed, _)| *listed == resource)
                .map_or("", |(_, it)| it);
            let keep = |object: Value| (is_root(&object) && !is_over(&object)).then(|| tidied(object));
            let found = self.list(resource, wanted.namespace, unknown, keep).await?;
            workloads.extend(found.into_iter().flatten());
        }
        Ok(workloads)
    }

    /// Running pods. There may be very many: of most the little that is looked at is kept.
    async fn pods(
        &mut self,
        namespace: Option<&str>,
        namespaces: Option<&[Value]>,
    ) -> Result<Option<Vec<(Running, Option<Value>)>>> {
        let asking = namespaces.into_iter().flatten().filter(|namespace| asks(namespace));
        let names = asking.filter_map(|namespace| namespace.pointer("/metadata/name")?.as_str());
        let asking: BTreeSet<_> = names.collect();
        let keep = |pod: Value| {
            let running = Running::read(&pod)?;
            let wanted = asks(&pod) || asking.contains(running.namespace());
            let whole = (wanted && !running.is_meshed()).then(|| tidied(pod));
            Some((running, whole))
        };
        self.list(&resource::PODS, namespace, "running pods", keep).await
    }

    async fn policies(&mut self, server: Server, namespace: Option<&str>) -> Policies {
        let one: BTreeSet<_> = namespace.into_iter().map(str::to_owned).collect();
        let scope = match namespace {
            Some(_) => Scope::Namespaces(&one),
            None => Scope::Everywhere,
        };
        let policies = Policies::ask(self.client, Some(server.release), scope).await;
        self.withheld
            .extend(policies.withheld.iter().map(|(source, why)| Withheld {
                resource: source.resource().to_owned(),
                why: why.clone(),
                unknown: "what these policies say to pods",
            }));
        policies
    }
}

fn is_in(object: &Value, namespace: &str) -> bool {
    object.pointer("/metadata/namespace").and_then(Value::as_str) == Some(namespace)
}

/// Whether nothing that is listed itself makes the object.
fn is_root(object: &Value) -> bool {
    Owner::of(object).and_then(|owner| owner.known_kind()).is_none()
}

/// Whether no pod of it will come: a Job that is done, a `ReplicaSet` that is scaled away.
fn is_over(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut done = conditions.into_iter().flatten().filter(|condition| {
        let is = |key: &str, words: &[&str]| {
            let word = condition.get(key).and_then(Value::as_str);
            word.is_some_and(|word| words.contains(&word))
        };
        is("type", &["Complete", "Failed"]) && is("status", &["True"])
    });
    let is = |kind: &str| object.get("kind").is_some_and(|it| it == kind);
    (is("ReplicaSet") && number("/spec/replicas") == Some(0)) || (is("Job") && done.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_makes_pods_by_itself_is_a_workload() {
        let owned = |api_version: &str, kind: &str| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": true});
            json!({"metadata": {"ownerReferences": [owner]}})
        };
        assert!(is_root(&json!({"metadata": {}})));
        assert!(!is_root(&owned("apps/v1", "Deployment")));
        assert!(is_root(&owned("argoproj.io/v1alpha1", "Rollout")));
        assert!(is_over(&json!({"kind": "ReplicaSet", "spec": {"replicas": 0}})));
        let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert!(is_over(&json!({"kind": "Job", "status": done})));
        assert!(!is_over(&json!({"kind": "Job", "status": {}})));
    }
}
