//! What a cluster says of everything that is checked. Nothing is created: what is asked besides lists are reviews of access
//! and dry runs.

pub(super) mod access;
mod control_plane;
pub(super) mod dry_run;
pub(super) mod handshake;
mod nodes;
mod takeover;
mod withheld;

pub(super) use withheld::{Part, Withheld, unseen};

use super::rules::certificates::Stored;
use super::rules::installation::Injector;
use super::rules::proxies::{Running, asks_since};
use super::rules::webhook::{Endpoints, asks};
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
use withheld::Need;

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
    /// Whether the server has told its release; else the newest is assumed.
    pub(super) release_told: bool,
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
    /// Values that lie over those.
    pub(super) overrides: Option<String>,
    /// The trust anchors of their own ConfigMap.
    pub(super) anchors: Option<String>,
    /// What a probe reports, where there is one.
    pub(super) probe: Option<Value>,
    /// The webhook's Secret.
    pub(super) secret: Stored,
    /// Who stands behind the webhook's Service, and where it is.
    pub(super) endpoints: Option<Endpoints>,
    pub(super) service_address: Option<String>,
    /// The Services behind registrations of injectors.
    pub(super) services: Vec<Value>,
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

/// What makes pods, but for Deployments and `DaemonSets`, which are listed for other reasons too.
const WORKLOADS: [(&Resource, Need); 5] = {
    const PODS: Need = Need {
        parts: &[Part::Workloads],
        unknown: "their pods",
    };
    [
        (&resource::STATEFUL_SETS, PODS),
        (&resource::CRON_JOBS, PODS),
        (&resource::JOBS, PODS),
        (
            &resource::REPLICA_SETS,
            Need {
                unknown: "pods of those that no Deployment owns",
                ..PODS
            },
        ),
        (&resource::REPLICATION_CONTROLLERS, PODS),
    ]
};

/// Deployments; lists are missing where they may not be read.
struct Deployments {
    workloads: Option<Vec<Value>>,
    of_control_plane: Option<Vec<Value>>,
}

struct Gatherer<'a> {
    client: &'a Client,
    withheld: Vec<Withheld>,
}

/// Gathers everything. A server that does not answer is an error; one that refuses is not.
pub(super) async fn gather(client: &Client, wanted: Wanted<'_>) -> Result<Gathered> {
    let info = client.apiserver_version().await.context("release of the API server")?;
    let told = server_of(&info);
    let server = told.unwrap_or_else(|| Release::NEWEST.into());
    let mut gatherer = Gatherer {
        client,
        withheld: Vec::new(),
    };
    let (namespaces, asks_since) = gatherer.namespaces(wanted).await?;
    let Fleet {
        nodes,
        daemon_sets,
        plugin_pods,
    } = gatherer.nodes(wanted.namespace).await?;
    let webhooks = gatherer.webhooks().await?;
    let deployments = gatherer.deployments(wanted).await?;
    let mut workloads = gatherer.workloads(wanted).await?;
    let own = match (&daemon_sets, wanted.namespace) {
        (None, Some(namespace)) => gatherer.own_daemon_sets(namespace).await?,
        (_, _) => None,
    };
    let listed = deployments.workloads.iter().chain(&daemon_sets).chain(&own).flatten();
    let here = |object: &&Value| wanted.namespace.is_none_or(|namespace| is_in(object, namespace));
    workloads.extend(listed.filter(here).filter(|object| is_root(object)).cloned());
    let network_policies = gatherer.network_policies(wanted.namespace).await?;
    let pods = match wanted.pods {
        true => gatherer.pods(wanted.namespace, namespaces.as_deref()).await?,
        false => None,
    };
    let policies = gatherer.policies(server, wanted.namespace).await;
    let values = gatherer.values(wanted.control_plane).await?;
    let overrides = gatherer.overrides(wanted.control_plane).await?;
    let anchors = gatherer.anchors(wanted.control_plane).await?;
    let probe = gatherer.probe(wanted.control_plane).await?;
    let injectors = deployments.of_control_plane.iter().flatten().filter_map(Injector::read);
    let secret = injectors.filter(|it| it.is_ours()).find_map(Injector::secret);
    let secret = gatherer.secret(wanted.control_plane, secret).await?;
    let (endpoints, service_address) = gatherer.service(webhooks.as_deref()).await?;
    let services = gatherer.services(webhooks.as_deref()).await?;
    Ok(Gathered {
        server,
        release_told: told.is_some(),
        namespaces,
        asks_since,
        nodes,
        daemon_sets,
        plugin_pods,
        workloads,
        deployments: deployments.of_control_plane,
        webhooks,
        network_policies,
        policies,
        pods,
        values,
        overrides,
        anchors,
        probe,
        secret,
        endpoints,
        service_address,
        services,
        withheld: gatherer.withheld,
    })
}

impl Gatherer<'_> {
    /// A list; nothing, and a note, where the server refuses it.
    async fn list<T>(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        need: Need,
        keep: impl FnMut(Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let found = live::list(self.client, resource, namespace, keep).await;
        self.unless_refused(found, (resource, namespace), need)
    }

    fn unless_refused<T>(
        &mut self,
        found: Result<T, kube::Error>,
        (resource, namespace): (&Resource, Option<&str>),
        need: Need,
    ) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) => {
                let what = match namespace {
                    Some(namespace) => format!("{} of {namespace}", resource.plural),
                    None => resource.plural.to_owned(),
                };
                self.withheld.push(Withheld {
                    what,
                    why: status.message.clone(),
                    need,
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
        let need = Need {
            parts: &[Part::Namespaces],
            unknown: "which workloads ask for the mesh",
        };
        let found = self.unless_refused(found, (&resource::NAMESPACES, None), need)?;
        Ok((found, since))
    }

    async fn webhooks(&mut self) -> Result<Option<Vec<Value>>> {
        let need = Need {
            parts: &[Part::Webhooks],
            unknown: "which pods the webhook is asked about",
        };
        let keep = |webhook| Some(tidied(webhook));
        self.list(&resource::MUTATING_WEBHOOKS, None, need, keep).await
    }

    async fn network_policies(&mut self, namespace: Option<&str>) -> Result<Option<Vec<Value>>> {
        let need = Need {
            parts: &[Part::Network],
            unknown: "what reaches the proxy's port",
        };
        let keep = |policy| Some(tidied(policy));
        self.list(&resource::NETWORK_POLICIES, namespace, need, keep).await
    }

    /// Those that are looked at for their pods, and those among which the injector is: the same list mostly.
    async fn deployments(&mut self, wanted: Wanted<'_>) -> Result<Deployments> {
        const WORKLOADS: Need = Need {
            parts: &[Part::Workloads],
            unknown: "their pods",
        };
        const INJECTOR: Need = Need {
            parts: &[Part::Injector],
            unknown: "the injector's Deployment",
        };
        const BOTH: Need = Need {
            parts: &[Part::Workloads, Part::Injector],
            unknown: "their pods, and the injector's Deployment",
        };
        let keep = |deployment| Some(tidied(deployment));
        let elsewhere = wanted.namespace.filter(|namespace| *namespace != wanted.control_plane);
        let Some(namespace) = elsewhere else {
            let all = self.list(&resource::DEPLOYMENTS, wanted.namespace, BOTH, keep).await?;
            return Ok(Deployments {
                workloads: all.clone(),
                of_control_plane: all,
            });
        };
        Ok(Deployments {
            workloads: self
                .list(&resource::DEPLOYMENTS, Some(namespace), WORKLOADS, keep)
                .await?,
            of_control_plane: self
                .list(&resource::DEPLOYMENTS, Some(wanted.control_plane), INJECTOR, keep)
                .await?,
        })
    }

    async fn workloads(&mut self, wanted: Wanted<'_>) -> Result<Vec<Value>> {
        let mut workloads = Vec::new();
        for (resource, need) in WORKLOADS {
            let keep = |object: Value| (is_root(&object) && !is_over(&object)).then(|| tidied(object));
            let found = self.list(resource, wanted.namespace, need, keep).await?;
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
        let need = Need {
            parts: &[Part::Pods],
            unknown: "running pods",
        };
        self.list(&resource::PODS, namespace, need, keep).await
    }

    async fn policies(&mut self, server: Server, namespace: Option<&str>) -> Policies {
        let one: BTreeSet<_> = namespace.into_iter().map(str::to_owned).collect();
        let scope = match namespace {
            Some(_) => Scope::Namespaces(&one),
            None => Scope::Everywhere,
        };
        let policies = Policies::ask(self.client, Some(server.release), scope).await;
        self.withheld.extend(withheld::policies(&policies));
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
