//! What is known of the cluster: watches into an index, and look-ups where the index does not reach.
//!
//! No request waits for the API server while caches are warm. A namespace that is not in the index yet costs one get, an
//! unknown owner one get, each with a deadline and shared by all requests that ask at the same time. There is never a
//! watch on pods but for those of the CNI plugin. Where the API server cannot be reached, what was known last is served and said to be stale.

pub mod connect;
pub mod egress;
pub mod events;
pub mod facts;
pub mod index;
pub mod owner;
pub mod probe;

mod lease;
mod lookup;
mod metrics;
mod watch;

pub use connect::{Access, ConnectError, configure, connect};
pub use facts::{Facts, Findings, Namespace};
pub use index::NodeList;
pub use lookup::LookupError;
pub use owner::Owner;
pub use watch::{resource_of, server_of, serves};

/// What the egress gateway watches by as well.
#[cfg(feature = "egress-gateway")]
pub(crate) use watch::{QUIET, Steps, Told, shows_that_it_stands};

use crate::pod::Pod;
use crate::policy::installed::Source;
use crate::policy::pod_security::{Configuration, Server as ApiServer};
use crate::policy::probe::Standing;
use facts::since_1970;
use index::{CniReach, Index, ObjectsError, Status};
use k8s_openapi::api::core::v1;
use kube::{Api, Client};
use lookup::Lookups;
use owner::{Child, Owners};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The cluster, as the webhook sees it.
pub struct Cluster {
    index: Mutex<Index>,
    origin: Origin,
}

/// Where facts come from.
enum Origin {
    /// An API server.
    Server(Box<Server>),
    /// Manifests: all that will ever be known.
    Manifests { owners: HashMap<Child, Owner> },
}

struct Server {
    client: Client,
    /// The namespace of a probe's findings; nothing where nobody wants to know.
    findings: Option<String>,
    namespaces: Lookups<String, Option<Arc<Namespace>>>,
    owners: Owners,
}

impl Cluster {
    /// The cluster behind `client`. Nothing is known until [`Cluster::watch`] runs.
    pub fn connected(client: Client) -> Self {
        Self {
            index: Mutex::default(),
            origin: Origin::Server(Box::new(Server {
                findings: None,
                namespaces: Lookups::new(0),
                owners: Owners::new(client.clone()),
                client,
            })),
        }
    }

    /// The same, with what a probe reports in `namespace`, where it is there.
    #[must_use]
    pub fn with_findings_in(mut self, namespace: &str) -> Self {
        if let Origin::Server(server) = &mut self.origin {
            server.findings = Some(namespace.to_owned());
            self.index().listen_to_probe();
        }
        self
    }

    /// A cluster that consists of `objects`, judged by `server` where that is known.
    pub fn of_manifests<'o>(
        objects: impl IntoIterator<Item = &'o Value> + Clone,
        server: Option<ApiServer>,
    ) -> Result<Self, ObjectsError> {
        let index = Index::from_objects(objects.clone(), server)?;
        let owners = index::flatten(objects).filter_map(|object| Some((Child::of(object)?, Owner::of(object)?)));
        Ok(Self {
            index: Mutex::new(index),
            origin: Origin::Manifests {
                owners: owners.collect(),
            },
        })
    }

    /// Notes that the objects of `source` cannot be told, and `why`: what is compiled from them is unknown.
    pub fn withhold(&self, source: Source, why: &str) {
        self.index().withhold(source, why.into());
    }

    /// Notes that a list that tells where the CNI plugin is cannot be seen, and `why`.
    pub fn withhold_nodes(&self, list: NodeList, why: &str) {
        self.index().withhold_nodes(list, why.into());
    }

    /// What Pod Security does where no label says so, from now on: which `DaemonSets` are the CNI plugin depends on it.
    pub fn set_pod_security(&self, configuration: &Configuration) {
        self.index().set_pod_security(configuration);
    }

    /// The `DaemonSets` that say that they are the CNI plugin and are not believed, by `NAMESPACE/NAME`, and why not.
    pub fn disbelieved_plugins(&self) -> BTreeMap<Arc<str>, String> {
        self.index().disbelieved().clone()
    }

    /// Keeps the index up to date until it is dropped; ends at once where there is no API server.
    pub async fn watch(&self) {
        if let Origin::Server(server) = &self.origin {
            Box::pin(watch::all(&server.client, &self.index, server.findings.as_deref())).await;
        }
    }

    /// Whether namespaces and the server's release are known, and everything else is known or was found to be unavailable.
    pub fn settled(&self) -> bool {
        self.index().settled()
    }

    /// The state of each watch, for metrics.
    pub fn status(&self) -> Vec<Status> {
        self.index().status()
    }

    /// Where the CNI plugin is; nothing where nodes or plugins cannot be read.
    pub fn cni_reach(&self) -> Option<CniReach> {
        self.index().cni_reach()
    }

    /// How much a probe tells at `now`; nothing where none reports.
    pub fn probe_standing(&self, now: SystemTime) -> Option<Standing> {
        self.index().probe_standing(since_1970(now))
    }

    /// What the decision asks of the cluster for `pod`, a pod or a pod template.
    pub fn facts(&self, pod: &Pod<'_>) -> Facts {
        self.index().facts(pod)
    }

    /// The namespace called `name` where the index has it: nobody is asked.
    pub fn known_namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.index().namespaces.get(name)
    }

    /// The namespace called `name`; nothing where there is none.
    pub async fn namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, LookupError> {
        if let Some(namespace) = self.known_namespace(name) {
            return Ok(Some(namespace));
        }
        let Origin::Server(server) = &self.origin else {
            return Ok(None);
        };
        if !lookup::is_name(name) {
            return Ok(None);
        }
        let api = Api::<v1::Namespace>::all(server.client.clone());
        let get = async || {
            let found = api.get_metadata_opt(name).await?;
            Ok(found.and_then(|found| index::namespace(found).1).map(Arc::new))
        };
        // In a place of its own: every request's future would have room for the question, and hardly any asks.
        Box::pin(server.namespaces.ask(name.to_owned(), get)).await
    }

    /// What a pod is named after: the Deployment of its ReplicaSet, the owner of its Job, else the owner it names, the
    /// controller where it names several; nothing where it names none.
    ///
    /// An owner that cannot be looked up in time stands for its own owner, as with Linkerd.
    pub async fn owner(&self, namespace: &str, pod: &Value) -> Option<Owner> {
        let owner = Owner::of(pod)?;
        let Some(child) = Child::owning(namespace, &owner) else {
            return Some(owner);
        };
        let above = match &self.origin {
            Origin::Server(server) => {
                // As with namespaces.
                let above = Box::pin(server.owners.above(&child)).await;
                above.filter(|above| child.yields_to(above))
            }
            Origin::Manifests { .. } => self.listed_above(&child),
        };
        Some(above.unwrap_or(owner))
    }

    /// The same as far as manifests tell: nobody is asked.
    pub fn known_owner(&self, namespace: &str, pod: &Value) -> Option<Owner> {
        let owner = Owner::of(pod)?;
        let above = Child::owning(namespace, &owner).and_then(|child| self.listed_above(&child));
        Some(above.unwrap_or(owner))
    }

    fn listed_above(&self, child: &Child) -> Option<Owner> {
        let Origin::Manifests { owners } = &self.origin else {
            return None;
        };
        let above = owners.get(&child.clone().by_name()).cloned();
        above.filter(|above| child.yields_to(above))
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
