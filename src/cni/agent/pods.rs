//! The pods of this node, from a watch that asks for no others.
//!
//! Of a pod is kept what the plugin needs to know and what repair looks at, no more. Where the API server is away, what was
//! known last is served: a pod's rules do not change while it lives.

use crate::cni::call::PodName;
use crate::cni::facts::is_meant;
use crate::pod::{container_name, list, text};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

/// Fields that are kept, by the object that has them.
const METADATA: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "ownerReferences",
    "deletionTimestamp",
];
const SPEC: [&str; 6] = [
    "hostNetwork",
    "hostUsers",
    "securityContext",
    "restartPolicy",
    "dnsPolicy",
    "dnsConfig",
];
const STATUS: [&str; 4] = ["phase", "podIP", "podIPs", "initContainerStatuses"];
const PROXY: [&str; 4] = ["name", "env", "ports", "securityContext"];

/// Namespace and name.
type Name = (String, String);

/// The pods of this node.
#[derive(Debug)]
pub(super) struct Pods {
    known: Mutex<HashMap<Name, Arc<Value>>>,
    /// Counts changes; 0 before the first listing is complete.
    version: watch::Sender<u64>,
}

impl Pods {
    pub(super) fn new() -> Self {
        Self {
            known: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }

    /// Whether all pods of the node have been listed.
    pub(super) fn settled(&self) -> bool {
        *self.version.borrow() > 0
    }

    /// Tells of changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Value>> {
        self.lock().values().cloned().collect()
    }

    /// The pod that the runtime means by `name`.
    pub(super) fn find(&self, name: &PodName) -> Option<Arc<Value>> {
        let key = (name.namespace.clone(), name.name.clone());
        let found = self.lock().get(&key).cloned();
        found.filter(|pod| is_meant(pod, name))
    }

    /// The same, after waiting for it: the kubelet may hear of a pod before this watch does.
    pub(super) async fn wait(&self, name: &PodName, patience: Duration) -> Option<Arc<Value>> {
        let mut changes = self.changes();
        let waiting = async {
            loop {
                changes.borrow_and_update();
                if let Some(pod) = self.find(name) {
                    return Some(pod);
                }
                changes.changed().await.ok()?;
            }
        };
        timeout(patience, waiting).await.ok().flatten()
    }

    /// Keeps them up to date for as long as it is polled.
    pub(super) async fn follow(&self, client: Client, node: &str) {
        let api = Api::<DynamicObject>::all_with(client, &ApiResource::erase::<v1::Pod>(&()));
        let config = Config::default().fields(&format!("spec.nodeName={node}"));
        let mut events = pin!(watcher(api, config).default_backoff());
        let (mut listed, mut failing) = (HashMap::new(), false);
        while let Some(event) = events.next().await {
            match &event {
                Ok(Event::InitDone) if failing || !self.settled() => info!(pods = listed.len(), "watching pods"),
                Err(error) if !failing => warn!(%error, "pods cannot be watched, trying again"),
                Ok(_) | Err(_) => {}
            }
            failing = match event {
                Ok(event) => {
                    self.take(event, &mut listed);
                    false
                }
                Err(_said) => true,
            };
        }
    }

    fn take(&self, event: Event<DynamicObject>, listed: &mut HashMap<Name, Arc<Value>>) {
        match event {
            Event::Init => {
                listed.clear();
                return;
            }
            Event::InitApply(pod) => {
                listed.extend(keep(&pod));
                return;
            }
            Event::InitDone => *self.lock() = std::mem::take(listed),
            Event::Apply(pod) => self.lock().extend(keep(&pod)),
            Event::Delete(pod) => {
                if let Some((name, _)) = keep(&pod) {
                    self.lock().remove(&name);
                }
            }
        }
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes `pods` for all there are.
    #[cfg(test)]
    pub(super) fn listed(&self, pods: &[Value]) {
        let pods = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap());
        let mut listed = pods.filter_map(|pod| keep(&pod)).collect();
        self.take(Event::InitDone, &mut listed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Arc<Value>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(pod: &DynamicObject) -> Option<(Name, Arc<Value>)> {
    let facts = facts(&serde_json::to_value(pod).ok()?);
    let part = |key| text(facts.get("metadata")?, key).map(str::to_owned);
    Some(((part("namespace")?, part("name")?), Arc::new(facts)))
}

/// What is kept of a pod.
fn facts(pod: &Value) -> Value {
    let part = |key| pod.get(key).unwrap_or(&Value::Null);
    let mut spec = pick(part("spec"), &SPEC);
    for key in ["initContainers", "containers"] {
        let containers = list(part("spec"), key).map(|container| match container_name(container) {
            crate::inject::PROXY => pick(container, &PROXY).into(),
            name => json!({"name": name}),
        });
        spec.insert(key.to_owned(), containers.collect());
    }
    json!({"metadata": pick(part("metadata"), &METADATA), "spec": spec, "status": pick(part("status"), &STATUS)})
}

fn pick(object: &Value, keys: &[&str]) -> Map<String, Value> {
    let kept = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), object.get(key)?.clone())));
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str) -> DynamicObject {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "app", "name": name, "uid": uid, "managedFields": [],
                "annotations": {"kubernetes.io/config.mirror": "hash"}},
            "spec": {
                "nodeName": "n", "hostUsers": false, "volumes": [{"name": "v"}],
                "containers": [
                    {"name": "app", "env": [{"name": "SECRET", "value": "x"}], "image": "i"},
                    {"name": "linkerd-proxy", "env": [{"name": "A", "value": "b"}], "image": "i"},
                ],
            },
            "status": {"podIP": "10.0.0.1", "conditions": []},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_what_is_needed_is_kept() {
        let (name, kept) = keep(&pod("web", "1")).unwrap();
        assert_eq!(name, ("app".to_owned(), "web".to_owned()));
        let expected = json!({
            "metadata": {"namespace": "app", "name": "web", "uid": "1",
                "annotations": {"kubernetes.io/config.mirror": "hash"}},
            "spec": {"hostUsers": false, "initContainers": [], "containers": [
                {"name": "app"}, {"name": "linkerd-proxy", "env": [{"name": "A", "value": "b"}]}]},
            "status": {"podIP": "10.0.0.1"},
        });
        assert_eq!(*kept, expected);
    }

    #[tokio::test]
    async fn pods_come_and_go_and_another_of_the_same_name_is_not_the_one() {
        let (pods, mut listed) = (Pods::new(), HashMap::new());
        for event in [Event::Init, Event::InitApply(pod("web", "1"))] {
            pods.take(event, &mut listed);
        }
        let named = |namespace: &str, uid: Option<&str>| PodName {
            namespace: namespace.to_owned(),
            name: "web".to_owned(),
            uid: uid.map(str::to_owned),
        };
        let find = |uid| pods.find(&named("app", uid)).is_some();
        assert!(!pods.settled() && !find(None));
        pods.take(Event::InitDone, &mut listed);
        assert!(pods.settled() && find(None) && find(Some("1")) && find(Some("hash")));
        assert!(!find(Some("2")) && pods.find(&named("other", None)).is_none());
        let (second, patience) = (named("app", Some("2")), Duration::from_secs(20));
        let (waited, ()) = tokio::join!(pods.wait(&second, patience), async {
            pods.take(Event::Apply(pod("web", "2")), &mut HashMap::new());
        });
        assert!(waited.is_some());
        pods.take(Event::Delete(pod("web", "2")), &mut listed);
        assert!(pods.wait(&named("app", None), Duration::ZERO).await.is_none() && pods.all().is_empty());
    }
}
