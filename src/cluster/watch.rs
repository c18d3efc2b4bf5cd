//! Watches that feed the index, each with its own back-off, none waiting for another.

use super::index::{self, Collection, Freshness, Index, Kept, NodeSpec};
use crate::policy::Release;
use crate::policy::pod_security::Server;
use futures::{Stream, StreamExt};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{ApiResource, NotUsed, Object, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use std::error::Error;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// Objects a page of the first listing: small pages keep small what is held while they are read. A node can have 20 KiB.
const PAGE: u32 = 100;

/// How often the server is asked for its release, which changes with an upgrade.
const RELEASE_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// How soon it is asked again when it did not tell.
const RELEASE_RETRY: Duration = Duration::from_secs(10);

/// How long it may take to tell its release.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A watch that stands again says nothing until an object changes. One that has been quiet for this long is taken to stand:
/// each further attempt would have failed by then (30 s to connect, as long again to back off). A first listing that has
/// been quiet for as long has failed.
const QUIET: Duration = Duration::from_secs(2 * 60);

/// How long a failing watch pauses at most, as in client-go.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The trouble of such a listing.
const NO_ANSWER: &str = "the API server does not answer";

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
pub(super) async fn all(client: &Client, index: &Mutex<Index>) {
    tokio::join!(
        namespaces(client, index),
        nodes(client, index),
        plugins(client, index),
        release(client, index),
    );
}

async fn namespaces(client: &Client, index: &Mutex<Index>) {
    let api = Api::<PartialObjectMeta<v1::Namespace>>::all(client.clone());
    let resource = Resource {
        name: "namespaces",
        keep: index::namespace,
        collection: |index| &mut index.namespaces,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), index, &resource, QUIET).await;
}

async fn nodes(client: &Client, index: &Mutex<Index>) {
    let nodes = ApiResource::erase::<v1::Node>(&());
    let api = Api::<Object<NodeSpec, NotUsed>>::all_with(client.clone(), &nodes);
    let resource = Resource {
        name: "nodes",
        keep: index::node,
        collection: |index| &mut index.nodes,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), index, &resource, QUIET).await;
}

async fn plugins(client: &Client, index: &Mutex<Index>) {
    let daemon_sets = ApiResource::erase::<DaemonSet>(&());
    let api = Api::<Object<Value, NotUsed>>::all_with(client.clone(), &daemon_sets);
    let resource = Resource {
        name: "daemonsets",
        keep: index::plugin,
        collection: |index| &mut index.plugins,
    };
    follow(watcher(api, Config::default().page_size(PAGE)), index, &resource, QUIET).await;
}

/// Feeds the events of one watch into the index.
async fn follow<K, T: PartialEq>(
    watch: impl Stream<Item = watcher::Result<Event<K>>>,
    index: &Mutex<Index>,
    resource: &Resource<K, T>,
    quiet: Duration,
) {
    let mut watch = pin!(watch);
    let mut pauses = DefaultBackoff::default();
    let mut listed = Vec::new();
    loop {
        let before = (resource.collection)(&mut lock(index)).freshness();
        let next = match before {
            Freshness::Pending | Freshness::Stale => timeout(quiet, watch.next()).await,
            Freshness::Unavailable | Freshness::Current => Ok(watch.next().await),
        };
        let failed = matches!(next, Ok(Some(Err(_))));
        {
            let mut index = lock(index);
            let collection = (resource.collection)(&mut index);
            match next {
                Ok(Some(Ok(event))) => resource.take(&mut index, &mut listed, event),
                Ok(Some(Err(error))) => collection.fail(describe(&error).into()),
                Ok(None) => return,
                Err(_) if before == Freshness::Pending => collection.fail(NO_ANSWER.into()),
                Err(_) => collection.recover(),
            }
            resource.report(&mut index, before);
        }
        if failed {
            // The watch's own back-off would start anew with every attempt, since each begins with a sign of life.
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
    }
}

impl<K, T: PartialEq> Resource<K, T> {
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

async fn release(client: &Client, index: &Mutex<Index>) {
    let mut failing = false;
    loop {
        let told = match timeout(RELEASE_TIMEOUT, client.apiserver_version()).await {
            Ok(Ok(info)) => server_of(&info).ok_or_else(|| format!("minor release {:?} is no number", info.minor)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(NO_ANSWER.to_owned()),
        };
        match &told {
            Err(error) if !failing => warn!(error, "the API server does not tell its release, trying again"),
            Err(error) => debug!(error, "the API server does not tell its release"),
            Ok(server) if failing => info!(release = %server.release, "the API server tells its release"),
            Ok(_) => {}
        }
        failing = told.is_err();
        let pause = if failing { RELEASE_RETRY } else { RELEASE_INTERVAL };
        lock(index).set_server(told.ok());
        sleep(pause).await;
    }
}

/// The server that tells `info` at `/version`; an emulated release is told from 1.31 on. Nothing where it is no release.
pub fn server_of(info: &Info) -> Option<Server> {
    let release = |minor: &str| format!("1.{minor}").parse::<Release>().ok();
    let binary = release(&info.minor)?;
    let emulated = info.emulation_minor.as_deref().and_then(release);
    Some(Server {
        emulated: emulated.filter(|emulated| *emulated != binary),
        ..Server::from(binary)
    })
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::placement::Node;
    use futures::future::{Either, select};
    use futures::stream;

    fn info(minor: &str, emulation_minor: Option<&str>) -> Info {
        Info {
            major: "1".to_owned(),
            minor: minor.to_owned(),
            emulation_minor: emulation_minor.map(str::to_owned),
            ..Info::default()
        }
    }

    #[tokio::test]
    async fn a_watch_that_stays_quiet_after_a_failure_is_taken_to_stand() {
        let index = Mutex::new(Index::default());
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
                while lock(&index).nodes.freshness() != expected {
                    tokio::task::yield_now().await;
                }
            }
        };
        let follow = follow(watch, &index, &resource, Duration::from_millis(50));
        let (seen, follow) = (pin!(seen), pin!(follow));
        let both = select(seen, follow);
        assert!(matches!(
            timeout(Duration::from_secs(10), both).await,
            Ok(Either::Left(_))
        ));
        assert_eq!(lock(&index).status()[1].failures, 1);
    }

    #[test]
    fn an_emulated_release_is_told_apart() {
        let emulating = |emulated| Server {
            emulated: Some(Release(emulated)),
            ..Server::from(Release(36))
        };
        assert_eq!(server_of(&info("27+", None)), Some(Release(27).into()));
        assert_eq!(server_of(&info("36", Some("35"))), Some(emulating(35)));
        assert_eq!(server_of(&info("36", Some("36"))), Some(Release(36).into()));
        assert_eq!(server_of(&info("36", Some(""))), Some(Release(36).into()));
        assert_eq!(server_of(&info("", None)), None);
    }
}
