//! The watches of the CNI plugin's own pods, one a node, by its label and where it is installed alone: no right on the pods
//! of other namespaces is needed. Without it, where the plugin is meant to be is all that is known.

use super::{Feed, PAGE, QUIET, Resource, follow, pause};
use crate::cluster::index::{self, PluginPlace};
use futures::future::{join_all, pending};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, Object};
use kube::runtime::watcher::{Config, watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// How often it is looked for how long the plugin's pods have been failing: often against the minutes that a failure counts
/// after.
const LOOK: Duration = Duration::from_secs(5);

/// Runs all of them.
pub(super) async fn run(feed: &Feed<'_>) {
    let (mut places, mut said) = (BTreeSet::new(), BTreeMap::new());
    loop {
        tokio::select! {
            () = watch(feed, &places) => {}
            moved = look(feed, &places, &mut said) => places = moved,
        }
    }
}

/// Looks again and again until the plugin has its pods elsewhere. Says once of each DaemonSet that it is not believed.
async fn look(
    feed: &Feed<'_>,
    places: &BTreeSet<PluginPlace>,
    said: &mut BTreeMap<Arc<str>, String>,
) -> BTreeSet<PluginPlace> {
    loop {
        let (now, disbelieved) = {
            let mut index = feed.index();
            (index.look_after_plugins(Timestamp::now()), index.disbelieved().clone())
        };
        for (name, why) in disbelieved.iter().filter(|(name, why)| said.get(*name) != Some(*why)) {
            warn!(
                daemon_set = &**name,
                why, "this DaemonSet is not taken for the CNI plugin"
            );
        }
        *said = disbelieved;
        if now != *places {
            return now;
        }
        let settled = feed.index().settled();
        sleep(pause(settled)).await;
        // At once where something has changed: the webhook gets ready only when it is known where the plugin fails.
        timeout(LOOK, feed.moved.notified()).await.ok();
    }
}

/// Watches the pods at each of `places`.
async fn watch(feed: &Feed<'_>, places: &BTreeSet<PluginPlace>) {
    join_all(places.iter().map(|place| at(feed, place))).await;
    pending::<()>().await;
}

async fn at(feed: &Feed<'_>, place: &PluginPlace) {
    let pods = ApiResource::erase::<Pod>(&());
    let api =
        Api::<Object<index::PodSpec, index::PodStatus>>::namespaced_with(feed.client.clone(), &place.namespace, &pods);
    let key = place.clone();
    let resource = Resource::new("pods", index::plugin_pod, move |index| index.plugin_pods.at(&key));
    let config = Config::default().labels(&place.selector()).page_size(PAGE);
    let watch = || watcher(api.clone(), config.clone());
    Box::pin(follow(watch, feed, &resource, QUIET)).await;
}
