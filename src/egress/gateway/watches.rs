//! Policies, pods and ConfigMaps of a cluster, watched. While the API server is away, what was known last is gone by.

mod standing;

use super::knowledge::Knowledge;
use super::pods::{self, Seen};
use super::rules::{self, Found, MapName, Maps, Rules};
use crate::cluster::{QUIET, Steps, Told, shows_that_it_stands};
use crate::egress::compile::kinds::{Kind, POLICIES};
use crate::egress::policy::{GROUP, Id, KIND, Policy, VERSION};
use futures::Stream;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use standing::{Failing, Standing};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

/// Objects a page of the first listing, as by the webhook: a pod can have 20 KiB, of which a few hundred bytes are kept.
const PAGE: u32 = 100;

/// How long rules stay as they are at least: where many policies change at once, they are not made anew for each.
const PAUSE: Duration = Duration::from_millis(50);

/// ConfigMaps that are watched, each by itself. Of those of further policies, the younger ones, no certificate is taken.
const MAPS: usize = 256;

/// Pods that have ended have no addresses of their own any more: the API server need not tell of them.
const NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The watches of a cluster.
pub(super) struct Watches {
    client: Client,
    /// Where the ConfigMaps of cluster-wide policies are.
    namespace: String,
    known: Arc<Knowledge>,
    state: Mutex<State>,
    /// Told of everything that rules are made of.
    changed: Notify,
    failing: Failing,
    was_ready: AtomicBool,
}

/// What was heard.
#[derive(Default)]
struct State {
    /// By kind, once they are listed: each policy, or nothing where it cannot be read.
    policies: BTreeMap<&'static str, BTreeMap<Id, Option<Policy>>>,
    /// Those that are there.
    maps: Maps,
    /// Those that policies name; of each whether it is known whether it is there.
    wanted: HashMap<MapName, bool>,
    pods_are_listed: bool,
}

impl Watches {
    /// Watches that will tell `known`, by `client`.
    pub(super) fn new(client: Client, namespace: String, known: Arc<Knowledge>, registry: &mut Registry) -> Arc<Self> {
        Arc::new(Self {
            client,
            namespace,
            known,
            state: Mutex::default(),
            changed: Notify::new(),
            failing: Failing::register(registry),
            was_ready: AtomicBool::new(false),
        })
    }

    /// Whether everything was known once, or else what is not. A policy that comes later and names another ConfigMap takes no
    /// gateway away from the others.
    pub(super) fn ready(&self) -> Result<(), String> {
        if self.was_ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        let state = self.state();
        let is_listed = |kind: &str| state.policies.contains_key(kind);
        let missing = POLICIES.iter().filter(|kind| !is_listed(kind.name));
        let mut missing: Vec<_> = missing.map(|kind| kind.plural).collect();
        if !state.pods_are_listed {
            missing.push("pods");
        }
        if state.wanted.values().any(|is_known| !is_known) {
            missing.push("configmaps");
        }
        drop(state);
        match missing.is_empty() && self.known.rules().is_some() {
            true => {
                self.was_ready.store(true, Ordering::Relaxed);
                Ok(())
            }
            false => Err(format!("not known yet: {}", missing.join(", "))),
        }
    }

    /// Watches until it is dropped.
    pub(super) async fn run(self: Arc<Self>) {
        let [policies, cluster_wide] = &POLICIES;
        tokio::join!(
            self.policies(policies),
            self.policies(cluster_wide),
            self.pods(),
            self.make_rules(),
        );
    }

    async fn policies(
        &self,
        Kind {
            group,
            version,
            name: kind,
            plural,
        }: &Kind,
    ) {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let begin = || watcher(api.clone(), Config::default().page_size(PAGE));
        let mut listed = BTreeMap::new();
        let take = |event| {
            let mut state = self.state();
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => listed.extend([read(object, kind)]),
                Event::InitDone => drop(state.policies.insert(kind, std::mem::take(&mut listed))),
                Event::Apply(object) => state.policies.entry(kind).or_default().extend([read(object, kind)]),
                Event::Delete(object) => {
                    let id = id(&object, kind);
                    state.policies.entry(kind).or_default().remove(&id);
                }
            }
            drop(state);
            self.changed.notify_one();
        };
        follow(begin, Standing::new((*plural).to_owned(), &self.failing), take, || {}).await;
    }

    async fn pods(&self) {
        let api = Api::<Seen>::all_with(self.client.clone(), &ApiResource::erase::<Pod>(&()));
        let config = Config::default().page_size(PAGE).fields(NOT_OVER);
        let begin = || watcher(api.clone(), config.clone());
        let mut listed = Vec::new();
        let read = |pod| pods::read(pod, &self.namespace);
        let take = |event| {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(pod) => {
                    let (key, entry) = read(pod);
                    listed.extend(entry.map(|entry| (key, entry)));
                }
                Event::InitDone => {
                    self.known.pods.reset(std::mem::take(&mut listed));
                    self.state().pods_are_listed = true;
                }
                Event::Apply(pod) => {
                    let (key, entry) = read(pod);
                    self.known.pods.apply(key, entry);
                }
                Event::Delete(pod) => self.known.pods.delete(&read(pod).0),
            }
            self.known.tell();
        };
        follow(begin, Standing::new("pods".to_owned(), &self.failing), take, || {}).await;
    }

    /// Makes rules of all policies whenever something has changed, and watches the ConfigMaps that these name.
    async fn make_rules(self: &Arc<Self>) {
        let (mut watching, mut tasks) = (HashMap::new(), JoinSet::new());
        loop {
            tokio::select! {
                () = self.changed.notified() => {}
                Some(_ended) = tasks.join_next() => continue,
            }
            let wanted = self.look();
            let is_gone = |name: &MapName| !wanted.contains(name);
            let gone: Vec<MapName> = watching.keys().filter(|name| is_gone(name)).cloned().collect();
            for task in gone.iter().filter_map(|name| watching.remove(name)) {
                let task: tokio::task::AbortHandle = task;
                task.abort();
            }
            for name in wanted {
                let watch = || tasks.spawn(Arc::clone(self).map(name.clone()));
                watching.entry(name.clone()).or_insert_with(watch);
            }
            sleep(PAUSE).await;
        }
    }

    /// Makes rules of what is known, where that is all; which ConfigMaps policies name.
    fn look(&self) -> BTreeSet<MapName> {
        let mut state = self.state();
        let mut found = Found::default();
        for (id, policy) in state.policies.values().flatten() {
            match policy {
                Some(policy) => found.policies.push(policy.clone()),
                None => found.unreadable.push(id.clone()),
            }
        }
        let wanted = wanted(&found.policies, &self.namespace);
        state.wanted.retain(|name, _| wanted.contains(name));
        state.maps.retain(|name, _| wanted.contains(name));
        for name in &wanted {
            state.wanted.entry(name.clone()).or_insert(false);
        }
        if state.policies.len() == POLICIES.len() {
            let before = self.known.rules();
            let rules = Rules::new(found, &state.maps, &self.namespace, before.as_deref());
            drop(state);
            self.known.set_rules(Arc::new(rules));
        }
        wanted
    }

    /// Watches one ConfigMap: an account that may read no other will do.
    async fn map(self: Arc<Self>, name: MapName) {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &name.0);
        let config = Config::default().fields(&format!("metadata.name={}", name.1));
        let begin = || watcher(api.clone(), config.clone());
        let is_known = || {
            if let Some(is_known) = self.state().wanted.get_mut(&name) {
                *is_known = true;
            }
            self.changed.notify_one();
        };
        let mut listed = None;
        let take = |event| {
            let mut state = self.state();
            let mut put = |data: Option<_>| match data.filter(|_| state.wanted.contains_key(&name)) {
                Some(data) => drop(state.maps.insert(name.clone(), data)),
                None => drop(state.maps.remove(&name)),
            };
            match event {
                Event::Init => listed = None,
                Event::InitApply(map) => listed = Some(data(map)),
                Event::InitDone => put(listed.take()),
                Event::Apply(map) => put(Some(data(map))),
                Event::Delete(_) => put(None),
            }
            drop(state);
            is_known();
        };
        let standing = Standing::new(format!("configmaps {}/{}", name.0, name.1), &self.failing);
        // One that may not be read is none, as one that is not there.
        follow(begin, standing, take, is_known).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has `take` take what a watch tells, and calls `failed` where it fails.
async fn follow<K, W: Stream<Item = watcher::Result<Event<K>>>>(
    begin: impl Fn() -> W,
    mut standing: Standing<'_>,
    mut take: impl FnMut(Event<K>),
    failed: impl Fn(),
) {
    let mut steps = Steps::new(begin, QUIET);
    loop {
        match steps.next(standing.stands()).await {
            Told::Event(event) => {
                let stands = shows_that_it_stands(&event);
                take(event);
                if stands {
                    standing.up();
                }
            }
            Told::Failed(failure) => {
                standing.down(&failure.describe());
                failed();
            }
            Told::End => return,
        }
    }
}

fn id(object: &DynamicObject, kind: &str) -> Id {
    let namespace = object.metadata.namespace.clone().filter(|_| kind == KIND);
    let name = object.metadata.name.clone().unwrap_or_default();
    Id { namespace, name }
}

/// A policy; of what cannot be read its name alone, which is said.
fn read(object: DynamicObject, kind: &str) -> (Id, Option<Policy>) {
    let id = id(&object, kind);
    let DynamicObject { metadata, mut data, .. } = object;
    let spec = data.get_mut("spec").map(Value::take);
    let read = Policy::read(
        &json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": kind,
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "creationTimestamp": metadata.creation_timestamp},
            "spec": spec,
        }),
        "",
    );
    // Of another kind it cannot be.
    let read = read.and_then(|read| {
        read.inspect_err(|error| warn!(%error, "a policy cannot be read, and closes all that it may be for"))
            .ok()
    });
    if let Some(policy) = &read {
        for refusal in policy.refusals() {
            let message = &*refusal.message;
            warn!(policy = %id, reason = %refusal.reason, message, "a policy cannot be enforced as it is written");
        }
    }
    (id, read)
}

fn data(map: ConfigMap) -> BTreeMap<String, Arc<str>> {
    let data = map.data.unwrap_or_default().into_iter();
    data.map(|(key, text)| (key, text.into())).collect()
}

/// The ConfigMaps that policies name, those of older ones first.
fn wanted(policies: &[Policy], namespace: &str) -> BTreeSet<MapName> {
    let mut policies: Vec<_> = policies.iter().collect();
    policies.sort_by_key(|policy| (policy.created.is_none(), &policy.created, &policy.id));
    let mut wanted = BTreeSet::new();
    for (name, _) in policies.iter().filter_map(|policy| rules::names(policy, namespace)) {
        if wanted.len() < MAPS {
            wanted.insert(name);
        } else if !wanted.contains(&name) {
            warn!(
                namespace = name.0,
                config_map = name.1,
                "too many ConfigMaps are named: this one is not read"
            );
        }
    }
    wanted
}
