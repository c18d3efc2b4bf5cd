//! Watches that feed the index, each with its own back-off, none waiting for another.

mod discovery;
mod policies;

pub use discovery::{resource_of, server_of, serves};

use super::index::{self, Collection, Freshness, Index, Kept, NodeSpec, Served};
use crate::policy::probe::CONFIG_MAP;
use futures::{Stream, StreamExt};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1};
use kube::api::{ApiResource, NotUsed, Object, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use std::error::Error;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Objects a page of the first listing: small pages keep small what is held while they are read. A node can have 20 KiB.
const PAGE: u32 = 100;

/// A watch that stands again says nothing until an object changes. One that has been quiet for this long is taken to stand:
/// each further attempt would have failed by then (30 s to connect, as long again to back off). A first listing that has
/// been quiet for as long has failed.
pub(super) const QUIET: Duration = Duration::from_secs(2 * 60);

/// How long a failing watch pauses at most, as in client-go.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The trouble of such a listing.
const NO_ANSWER: &str = "the API server does not answer";

/// What the watches feed.
struct Feed<'f> {
    client: &'f Client,
    index: &'f Mutex<Index>,
    /// Told of every event: policies may have to be compiled anew.
    changed: Notify,
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
    collection: fn(&mut Index) -> &mut Collection<T>,
}

/// Runs all watches.
pub(super) async fn all(client: &Client, index: &Mutex<Index>, findings_in: Option<&str>) {
    let feed = Feed::new(client, index);
    tokio::join!(
        namespaces(&feed),
        nodes(&feed),
        plugins(&feed),
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
            served: watch::Sender::default(),
        }
    }

    fn index(&self) -> MutexGuard<'f, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn namespaces(feed: &Feed<'_>) {
    let api = Api::<PartialObjectMeta<v1::Namespace>>::all(feed.client.clone());
    let resource = Resource {
        name: "namespaces",
        keep: index::namespace,
        collection: |index| &mut index.namespaces,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), feed, &resource, QUIET).await;
}

async fn nodes(feed: &Feed<'_>) {
    let nodes = ApiResource::erase::<v1::Node>(&());
    let api = Api::<Object<NodeSpec, NotUsed>>::all_with(feed.client.clone(), &nodes);
    let resource = Resource {
        name: "nodes",
        keep: index::node,
        collection: |index| &mut index.nodes,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), feed, &resource, QUIET).await;
}

async fn plugins(feed: &Feed<'_>) {
    let daemon_sets = ApiResource::erase::<DaemonSet>(&());
    let api = Api::<Object<Value, NotUsed>>::all_with(feed.client.clone(), &daemon_sets);
    let resource = Resource {
        name: "daemonsets",
        keep: index::plugin,
        collection: |index| &mut index.plugins,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), feed, &resource, QUIET).await;
}

/// What a probe reports in `namespace`, where somebody wants to know.
async fn findings(feed: &Feed<'_>, namespace: Option<&str>) {
    let Some(namespace) = namespace else { return };
    let api = Api::<v1::ConfigMap>::namespaced(feed.client.clone(), namespace);
    let resource = Resource {
        name: "configmaps",
        keep: index::findings,
        collection: |index| &mut index.findings,
    };
    // By its name: the webhook's account may read no other.
    let config = Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    follow(watcher(api, config), feed, &resource, QUIET).await;
}

/// Feeds the events of one watch into the index.
async fn follow<K, T: PartialEq>(
    watch: impl Stream<Item = watcher::Result<Event<K>>>,
    feed: &Feed<'_>,
    resource: &Resource<K, T>,
    quiet: Duration,
) {
    let mut watch = pin!(watch);
    let mut pauses = DefaultBackoff::default();
    let mut listed = Vec::new();
    loop {
        let (before, generation) = resource.state(&mut feed.index());
        let next = match before {
            Freshness::Pending | Freshness::Stale => timeout(quiet, watch.next()).await,
            Freshness::Unavailable | Freshness::Current => Ok(watch.next().await),
        };
        let failed = matches!(next, Ok(Some(Err(_))));
        {
            let mut index = feed.index();
            let collection = (resource.collection)(&mut index);
            match next {
                Ok(Some(Ok(event))) => resource.take(&mut index, &mut listed, event),
                Ok(Some(Err(error))) => collection.fail(describe(&error).into()),
                Ok(None) => return,
                Err(_) if before == Freshness::Pending => collection.fail(NO_ANSWER.into()),
                Err(_) => collection.recover(),
            }
            resource.report(&mut index, before);
            if resource.state(&mut index) != (before, generation) {
                feed.changed.notify_one();
            }
        }
        if failed {
            // The watch's own back-off would start anew with every attempt, since each begins with a sign of life.
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
    }
}

impl<K, T: PartialEq> Resource<K, T> {
    fn state(&self, index: &mut Index) -> (Freshness, u64) {
        let collection = (self.collection)(index);
        (collection.freshness(), collection.generation())
    }

    /// Takes one event; a listing counts when it is complete.
    fn take(&self, index: &mut Index, listed: &mut Vec<(Arc<str>, T)>, event: Event<K>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let (name, item) = (self.keep)(object);
                listed.extend(item.map(|item| (name, item)));
            }
            Event::InitDone => (self.collection)(index).reset(mem::take(listed)),
            Event::Apply(object) => match (self.keep)(object) {
                (name, Some(item)) => (self.collection)(index).apply(name, item),
                (name, None) => (self.collection)(index).delete(&name),
            },
            Event::Delete(object) => (self.collection)(index).delete(&(self.keep)(object).0),
        }
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

pub(super) fn describe(error: &watcher::Error) -> String {
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
    use futures::future::{Either, select};
    use futures::stream;

    #[tokio::test]
    async fn a_watch_that_stays_quiet_after_a_failure_is_taken_to_stand() {
        let (index, client) = (Mutex::default(), Client::new(axum::Router::new(), "default"));
        let feed = Feed::new(&client, &index);
        let resource: Resource<Node, Node> = Resource {
            name: "nodes",
            keep: |node| (node.name.as_str().into(), Some(node)),
            collection: |index| &mut index.nodes,
        };
        let events = [
            Ok(Event::Init),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
        ];
        let watch = stream::iter(events).chain(stream::pending());
        let seen = async {
            for expected in [Freshness::Stale, Freshness::Current] {
                while feed.index().nodes.freshness() != expected {
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
        assert_eq!(feed.index().status()[1].failures, 1);
    }
}
