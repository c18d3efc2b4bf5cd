//! Watches that feed the index, each with its own back-off, none waiting for another.

mod discovery;
mod plugin_pods;
mod policies;
mod steps;

pub use discovery::{resource_of, server_of, serves};
pub(crate) use steps::{Failure, QUIET, Steps, Told, shows_that_it_stands};

use super::index::{self, Collection, Freshness, Index, Kept, NodeSpec, NodeStatus, Served};
use crate::policy::probe::CONFIG_MAP;
use futures::Stream;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1};
use kube::api::{ApiResource, NotUsed, Object, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

/// Objects a page of the first listing: small pages keep small what is held while they are read. A node can have 20 KiB.
const PAGE: u32 = 100;

/// How long what is made of all objects stays as it is at least, however much changes: a rollout changes the status of a quota
/// with every pod, and a look takes as long as there are pods of the plugin. Before it is `settled` nothing is answered, so
/// the pause is only what keeps a long listing from being gone through for each of its pages.
fn pause(settled: bool) -> Duration {
    Duration::from_millis(if settled { 200 } else { 5 })
}

/// What the watches feed.
struct Feed<'f> {
    client: &'f Client,
    index: &'f Mutex<Index>,
    /// Told of every event: policies may have to be compiled anew.
    changed: Notify,
    /// Told of every event as well: the plugin may have come, gone, or got its pods.
    moved: Notify,
    /// Which policies the server has.
    served: watch::Sender<Served>,
}

/// How one resource gets into the index.
struct Resource<K, T> {
    /// Its name, plural.
    name: &'static str,
    /// What is kept of an object.
    keep: fn(K) -> Kept<T>,
    /// Where it is kept.
    collection: Box<Place<T>>,
}

/// Finds the collection of a resource.
type Place<T> = dyn Fn(&mut Index) -> &mut Collection<T> + Send + Sync;

/// Runs all watches.
pub(super) async fn all(client: &Client, index: &Mutex<Index>, findings_in: Option<&str>) {
    let feed = Feed::new(client, index);
    tokio::join!(
        namespaces(&feed),
        nodes(&feed),
        plugins(&feed),
        plugin_pods::run(&feed),
        discovery::run(&feed),
        policies::run(&feed),
        findings(&feed, findings_in),
    );
}

impl<'f> Feed<'f> {
    fn new(client: &'f Client, index: &'f Mutex<Index>) -> Self {
        Self {
            client,
            index,
            changed: Notify::new(),
            moved: Notify::new(),
            served: watch::Sender::default(),
        }
    }

    /// Tells whoever makes something of what is known that it is not the same any more.
    fn tell(&self) {
        self.changed.notify_one();
        self.moved.notify_one();
    }

    fn index(&self) -> MutexGuard<'f, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn namespaces(feed: &Feed<'_>) {
    let api = Api::<PartialObjectMeta<v1::Namespace>>::all(feed.client.clone());
    let resource = Resource::new("namespaces", index::namespace, |index| &mut index.namespaces);
    let watch = || watcher(api.clone(), Config::default().page_size(PAGE));
    follow(watch, feed, &resource, QUIET).await;
}

async fn nodes(feed: &Feed<'_>) {
    let nodes = ApiResource::erase::<v1::Node>(&());
    let api = Api::<Object<NodeSpec, NodeStatus>>::all_with(feed.client.clone(), &nodes);
    let resource = Resource::new("nodes", index::node, |index| &mut index.nodes);
    let watch = || watcher(api.clone(), Config::default().page_size(PAGE));
    follow(watch, feed, &resource, QUIET).await;
}

async fn plugins(feed: &Feed<'_>) {
    let daemon_sets = ApiResource::erase::<DaemonSet>(&());
    let api = Api::<Object<Value, NotUsed>>::all_with(feed.client.clone(), &daemon_sets);
    let resource = Resource::new("daemonsets", index::plugin, |index| &mut index.plugins);
    let watch = || watcher(api.clone(), Config::default().page_size(PAGE));
    follow(watch, feed, &resource, QUIET).await;
}

/// What a probe reports in `namespace`, where somebody wants to know.
async fn findings(feed: &Feed<'_>, namespace: Option<&str>) {
    let Some(namespace) = namespace else { return };
    let api = Api::<v1::ConfigMap>::namespaced(feed.client.clone(), namespace);
    let resource = Resource::new("configmaps", index::findings, |index| &mut index.findings);
    // By its name: the webhook's account may read no other.
    let config = Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let watch = || watcher(api.clone(), config.clone());
    follow(watch, feed, &resource, QUIET).await;
}

/// Feeds the events of one watch into the index. The watch is begun anew where the objects are not up to date and it has
/// been `quiet` for long.
async fn follow<K, T: PartialEq, W: Stream<Item = watcher::Result<Event<K>>>>(
    watch: impl Fn() -> W,
    feed: &Feed<'_>,
    resource: &Resource<K, T>,
    quiet: Duration,
) {
    let mut steps = Steps::new(watch, quiet);
    let mut listed = None;
    loop {
        let (before, generation) = resource.state(&mut feed.index());
        let told = steps.next(before == Freshness::Current).await;
        let mut index = feed.index();
        match told {
            Told::Event(event) => resource.take(&mut index, &mut listed, event),
            Told::Failed(failure) => (resource.collection)(&mut index).fail(failure.describe().into()),
            Told::End => return,
        }
        resource.report(&mut index, before);
        if resource.state(&mut index) != (before, generation) {
            feed.tell();
        }
    }
}

impl<K, T: PartialEq> Resource<K, T> {
    fn new(
        name: &'static str,
        keep: fn(K) -> Kept<T>,
        collection: impl Fn(&mut Index) -> &mut Collection<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            keep,
            collection: Box::new(collection),
        }
    }

    fn state(&self, index: &mut Index) -> (Freshness, u64) {
        let collection = (self.collection)(index);
        (collection.freshness(), collection.generation())
    }

    /// Takes one event.
    fn take(&self, index: &mut Index, listed: &mut Option<Vec<(Arc<str>, T)>>, event: Event<K>) {
        take((self.collection)(index), self.keep, listed, event);
    }

    /// Says once that a watch fails, and once that it stands.
    fn report(&self, index: &mut Index, before: Freshness) {
        let (resource, collection) = (self.name, (self.collection)(index));
        let trouble = collection.trouble().unwrap_or_default();
        match (before, collection.freshness()) {
            (before, after) if before == after => {}
            (Freshness::Pending | Freshness::Current, Freshness::Unavailable | Freshness::Stale) => {
                warn!(resource, error = &*trouble, "watch failed, trying again");
            }
            (_, Freshness::Current) => info!(resource, objects = collection.iter().count(), "watching"),
            (_, _) => {}
        }
    }
}

/// Takes one event into `collection`; a listing counts when it is complete, and is nothing before it begins and after it has
/// ended.
pub(super) fn take<K, T: PartialEq>(
    collection: &mut Collection<T>,
    keep: impl Fn(K) -> Kept<T>,
    listed: &mut Option<Vec<(Arc<str>, T)>>,
    event: Event<K>,
) {
    match event {
        Event::Init => *listed = Some(Vec::new()),
        Event::InitApply(object) => {
            let (name, item) = keep(object);
            listed.get_or_insert_default().extend(item.map(|item| (name, item)));
        }
        Event::InitDone => collection.reset(listed.take().unwrap_or_default()),
        Event::Apply(object) => match keep(object) {
            (name, Some(item)) => collection.apply(name, item),
            (name, None) => collection.delete(&name),
        },
        Event::Delete(object) => collection.delete(&keep(object).0),
    }
}

fn describe(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => with_cause(error),
    }
}

/// An error with what is at the bottom of it: "client error" alone helps nobody.
fn with_cause(error: &watcher::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let (text, cause) = (error.to_string(), cause.to_string());
    if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::placement::Node;
    use futures::StreamExt;
    use futures::future::{Either, select};
    use futures::stream;
    use std::pin::pin;
    use tokio::time::timeout;

    /// Follows the watches of `begun`, one after the other, until the nodes were seen as `expected`, in that order; how
    /// often they have failed.
    async fn seen<const N: usize>(begun: [Vec<watcher::Result<Event<Node>>>; N], expected: &[Freshness]) -> u64 {
        let (index, client) = (Mutex::default(), Client::new(axum::Router::new(), "default"));
        let feed = Feed::new(&client, &index);
        let keep = |node: Node| (node.name.as_str().into(), Some(node));
        let resource = Resource::new("nodes", keep, |index| &mut index.nodes);
        let begun = Mutex::new(begun.into_iter());
        // One that has nothing more to tell is silent, and lets the others be looked at between two events.
        let watch = || {
            let events = begun.lock().unwrap().next().expect("no watch is begun without need");
            let events = stream::iter(events).then(async |event| {
                tokio::task::yield_now().await;
                event
            });
            events.chain(stream::pending())
        };
        let seen = async {
            for expected in expected {
                while feed.index().nodes.freshness() != *expected {
                    tokio::task::yield_now().await;
                }
            }
        };
        let follow = follow(watch, &feed, &resource, Duration::from_millis(50));
        let (seen, follow) = (pin!(seen), pin!(follow));
        let both = select(seen, follow);
        assert!(matches!(
            timeout(Duration::from_secs(10), both).await,
            Ok(Either::Left(_))
        ));
        feed.index().status()[1].failures
    }

    #[tokio::test]
    async fn what_stays_quiet_after_a_failure_is_listed_anew() {
        let failing = vec![
            Ok(Event::Init),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
        ];
        let standing = vec![Ok(Event::Init), Ok(Event::InitDone)];
        let failures = seen([failing, standing], &[Freshness::Stale, Freshness::Current]).await;
        assert_eq!(failures, 1);
    }

    #[tokio::test]
    async fn a_listing_that_is_not_answered_fails_and_is_not_taken_to_stand() {
        let hanging = |before: Vec<_>| before.into_iter().chain([Ok(Event::Init)]).collect::<Vec<_>>();
        let standing = || vec![Ok(Event::Init), Ok(Event::InitDone)];
        // As after a 410: there is a failure, and then a listing.
        let desynced = vec![
            Ok(Event::Init),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
        ];
        let again = [hanging(desynced), hanging(Vec::new()), standing()];
        assert_eq!(seen(again, &[Freshness::Stale, Freshness::Current]).await, 3);
        // The first listing of all, and one after that.
        let first = [hanging(Vec::new()), hanging(Vec::new()), standing()];
        assert_eq!(seen(first, &[Freshness::Unavailable, Freshness::Current]).await, 2);
    }
}
