//! The namespaces, as they come, change and go.

use super::{LATER, SOON, Shared, is_wanted};
use crate::cluster::facts::Namespace;
use crate::cluster::index;
use crate::cluster::watch::{LONGEST_PAUSE, describe};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{Config, DefaultBackoff, Event, watcher};
use std::collections::BTreeSet;
use std::pin::pin;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// Follows them for as long as it is polled.
pub(super) async fn follow(shared: &Shared) {
    let api = Api::<PartialObjectMeta<v1::Namespace>>::all(shared.client.clone());
    let mut watch = pin!(watcher(api, Config::default()));
    let mut pauses = DefaultBackoff::default();
    let mut listed = BTreeSet::new();
    loop {
        match watch.try_next().await {
            Ok(Some(event)) => {
                pauses = DefaultBackoff::default();
                shared.take(event, &mut listed);
            }
            Ok(None) => return,
            Err(error) => {
                let why = format!("namespaces: {}", describe(&error));
                {
                    let mut state = shared.state();
                    if state.listed.as_ref().err() != Some(&why) {
                        warn!(error = why, "watch failed, trying again");
                    }
                    state.listed = Err(why);
                }
                shared.metrics.watch("namespaces", false);
                sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            }
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
                self.stands();
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
            state.write_within(LATER, Instant::now());
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
        info!(namespaces = state.schedule.len(), "watching namespaces");
        drop(state);
        self.stands();
        self.write.notify_one();
    }

    fn stands(&self) {
        self.state().listed = Ok(());
        self.metrics.watch("namespaces", true);
    }
}
