//! The namespaces, as they come, change and go.

use super::{SOON, Shared, is_wanted};
use crate::cluster::facts::Namespace;
use crate::cluster::index;
use crate::cluster::watch::{QUIET, Steps, Told, shows_that_it_stands};
use futures::Stream;
use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Config, Event, watcher};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

/// Follows them for as long as it is polled.
pub(super) async fn follow(shared: &Shared) {
    let api = Api::<PartialObjectMeta<v1::Namespace>>::all(shared.client.clone());
    heed(shared, || watcher(api.clone(), Config::default()), QUIET).await;
}

/// Heeds what a watch tells, which is begun anew where nothing is known for sure and it has been `quiet` for long.
pub(super) async fn heed<W: Stream<Item = watcher::Result<Event<PartialObjectMeta<v1::Namespace>>>>>(
    shared: &Shared,
    watch: impl Fn() -> W,
    quiet: Duration,
) {
    let mut steps = Steps::new(watch, quiet);
    let mut listed = BTreeSet::new();
    loop {
        let is_current = shared.state().watched.is_ok();
        match steps.next(is_current).await {
            Told::Event(event) => {
                let stands = shows_that_it_stands(&event);
                shared.take(event, &mut listed);
                if stands {
                    shared.stands();
                }
            }
            Told::Failed(failure) => {
                let why = format!("namespaces: {}", failure.describe());
                let mut state = shared.state();
                if state.watched.as_ref().err() != Some(&why) {
                    warn!(error = why, "watch failed, trying again");
                }
                state.watched = Err(why);
                drop(state);
                shared.metrics.watch("namespaces", false);
            }
            Told::End => return,
        }
    }
}

impl Shared {
    /// Takes one event.
    fn take(&self, event: Event<PartialObjectMeta<v1::Namespace>>, listed: &mut BTreeSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let is_going = object.metadata.deletion_timestamp.is_some();
                if let (name, Some(namespace)) = index::namespace(object) {
                    listed.insert(name.to_string());
                    self.put(namespace, is_going);
                }
            }
            Event::InitDone => self.complete(listed),
            Event::Apply(object) => {
                let is_going = object.metadata.deletion_timestamp.is_some();
                if let (_, Some(namespace)) = index::namespace(object) {
                    self.put(namespace, is_going);
                }
            }
            Event::Delete(object) => self.forget(&index::namespace(object).0),
        }
    }

    fn put(&self, namespace: Namespace, is_going: bool) {
        if is_going || !is_wanted(&self.options, &namespace) {
            self.forget(&namespace.name);
        } else if self.state().schedule.put(namespace, Instant::now()) {
            self.wake.notify_one();
        }
    }

    fn forget(&self, name: &str) {
        let mut state = self.state();
        if state.schedule.remove(name) | state.findings.remove(name).is_some() {
            state.write_within(SOON, Instant::now());
            drop(state);
            self.write.notify_one();
        }
    }

    /// Forgets what was not listed.
    fn complete(&self, listed: &BTreeSet<String>) {
        let mut state = self.state();
        state.schedule.retain(|name| listed.contains(name));
        let super::State { schedule, findings, .. } = &mut *state;
        findings.retain(|name, _| schedule.has(name));
        // An empty report still says that there is a probe.
        state.write_within(SOON, Instant::now());
        state.listed = true;
        info!(namespaces = state.schedule.len(), "watching namespaces");
        drop(state);
        self.write.notify_one();
    }

    /// Notes that the watch stands; one that never listed anything does not.
    fn stands(&self) {
        let mut state = self.state();
        if state.listed {
            state.watched = Ok(());
            drop(state);
            self.metrics.watch("namespaces", true);
        }
    }
}
