//! The watches. A kind that the API server does not have is looked for again and again.

use super::Shared;
use super::known::{Listing, object, policy, resource};
use crate::cluster::index::Freshness;
use crate::cluster::watch::{Failure, QUIET, Steps, Told, take};
use crate::egress::compile::kinds::{KINDS, POLICIES};
use futures::Stream;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, Event, watcher};
use std::sync::Arc;
use tracing::{info, warn};

/// Follows them for as long as it is polled.
pub(super) async fn follow(shared: &Shared) {
    let policies = POLICIES.iter().zip(&shared.known.policies).map(|(kind, listing)| {
        let api = Api::<DynamicObject>::all_with(shared.client.clone(), &resource(kind));
        let keep = move |object: DynamicObject| policy(kind, object);
        let watch = move || watcher(api.clone(), Config::default());
        heed(shared, kind.plural, listing, keep, watch)
    });
    let objects = KINDS.iter().zip(&shared.known.objects).map(|(kind, listing)| {
        let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(shared.client.clone(), &resource(kind));
        let watch = move || watcher(api.clone(), Config::default());
        heed(shared, kind.plural, listing, object, watch)
    });
    let api = Api::<PartialObjectMeta<Namespace>>::all(shared.client.clone());
    let watch = || watcher(api.clone(), Config::default());
    let namespaces = heed(shared, "namespaces", &shared.known.namespaces, namespace, watch);
    tokio::join!(join_all(policies), join_all(objects), namespaces);
}

/// What is kept of a namespace: that it is there.
fn namespace(object: PartialObjectMeta<Namespace>) -> (Arc<str>, Option<()>) {
    let is_going = object.metadata.deletion_timestamp.is_some();
    let name = object.metadata.name.unwrap_or_default();
    (name.into(), (!is_going).then_some(()))
}

/// Heeds one watch, which is begun anew where nothing is known for sure and it has been quiet for long.
async fn heed<K, T, W>(
    shared: &Shared,
    resource: &'static str,
    listing: &Listing<T>,
    keep: impl Fn(K) -> (Arc<str>, Option<T>),
    watch: impl Fn() -> W,
) where
    T: PartialEq,
    W: Stream<Item = watcher::Result<Event<K>>>,
{
    let mut steps = Steps::new(watch, QUIET);
    let mut listed = None;
    let state = || {
        let listed = listing.lock();
        (listed.found.freshness(), listed.found.generation(), listed.failures)
    };
    loop {
        let before = state();
        let is_current = before.0 == Freshness::Current;
        match steps.next(is_current).await {
            Told::Event(event) => {
                let mut listing = listing.lock();
                take(&mut listing.found, &keep, &mut listed, event);
                if listing.found.is_listed() {
                    (listing.is_missing, listing.failures) = (false, 0);
                }
            }
            Told::Failed(failure) => fail(shared, resource, listing, &failure),
            Told::End => return,
        }
        let after = state();
        if !is_current && after.0 == Freshness::Current {
            info!(resource, "watching");
            shared.metrics.watch(resource, true);
        }
        if before != after {
            shared.changed.notify_one();
        }
    }
}

/// Notes that a resource cannot be watched; where the server has no such resource, nothing of it is known.
fn fail<T: PartialEq>(shared: &Shared, resource: &'static str, listing: &Listing<T>, failure: &Failure) {
    let why = failure.describe();
    let mut listing = listing.lock();
    let was_failing = listing.found.trouble().is_some();
    listing.count_failure();
    if failure.is_absence() {
        let was_missing = std::mem::replace(&mut listing.is_missing, true);
        if !was_missing {
            listing.found.withhold(why.as_str().into());
        }
    } else {
        listing.found.fail(why.as_str().into());
    }
    drop(listing);
    if !was_failing {
        warn!(resource, error = why, "watch failed, trying again");
    }
    shared.metrics.watch(resource, false);
}
