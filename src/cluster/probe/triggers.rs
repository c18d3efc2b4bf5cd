//! What makes everything be found out anew: policies and webhook configurations that change.
//!
//! What cannot be watched, such as the policies behind a webhook, is found out every so often.

use super::Shared;
use crate::cluster::resource_of;
use crate::cluster::watch::{QUIET, Steps, Told, shows_that_it_stands};
use crate::policy::installed::Source;
use futures::Stream;
use futures::future::join_all;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, Event, watcher};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{info, warn};

/// How often a server that has no such resource is asked whether it has it by now.
const ABSENT: Duration = Duration::from_secs(5 * 60);

/// Kinds of `admissionregistration.k8s.io/v1`, with their resources.
const KINDS: [(&str, &str); 4] = [
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

/// Each object's state, by name: its generation grows with what it says, and not with what others write about it.
pub(super) type Seen = BTreeMap<String, String>;

/// Follows them for as long as it is polled.
pub(super) async fn follow(shared: &Shared) {
    let registered = KINDS.map(|(kind, plural)| {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        (plural, ApiResource::from_gvk_with_plural(&kind, plural))
    });
    let others = [Source::PodSecurityPolicy, Source::Constraint].map(|source| (source.resource(), resource_of(source)));
    let all = registered.iter().chain(&others);
    join_all(all.map(|(name, resource)| heed(shared, name, resource))).await;
}

/// Follows one resource, for as long as the server has it.
async fn heed(shared: &Shared, name: &'static str, resource: &ApiResource) {
    let mut seen = None;
    loop {
        let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(shared.client.clone(), resource);
        let watch = || watcher(api.clone(), Config::default());
        listen(shared, name, Steps::new(watch, QUIET), &mut seen).await;
        if seen.take().is_some_and(|seen: Seen| !seen.is_empty()) {
            info!(resource = name, "the API server has it no more");
            shared.doubt_everything(name);
        }
        seen = Some(Seen::new());
        sleep(ABSENT).await;
    }
}

/// Listens to one watch until the server has no such resource.
pub(super) async fn listen<W, B>(shared: &Shared, name: &'static str, mut steps: Steps<B, W>, seen: &mut Option<Seen>)
where
    W: Stream<Item = watcher::Result<Event<PartialObjectMeta<DynamicObject>>>>,
    B: Fn() -> W,
{
    let mut listed = Seen::new();
    let (mut is_current, mut failing) = (false, false);
    loop {
        match steps.next(is_current).await {
            Told::Event(event) => {
                let stands = shows_that_it_stands(&event);
                if take(event, &mut listed, seen) {
                    shared.doubt_everything(name);
                }
                if stands {
                    (is_current, failing) = (true, false);
                    shared.metrics.watch(name, true);
                }
            }
            Told::Failed(failure) if failure.is_absence() => {
                // There is nothing to watch, which is no failure.
                shared.metrics.watch(name, true);
                return;
            }
            Told::Failed(failure) => {
                if !failing {
                    warn!(
                        resource = name,
                        error = failure.describe(),
                        "watch failed, trying again"
                    );
                }
                (is_current, failing) = (false, true);
                shared.metrics.watch(name, false);
            }
            Told::End => return,
        }
    }
}

/// Takes one event; whether something has changed since it was seen. What is listed for the first time has not.
fn take(event: Event<PartialObjectMeta<DynamicObject>>, listed: &mut Seen, seen: &mut Option<Seen>) -> bool {
    match event {
        Event::Init => {
            listed.clear();
            false
        }
        Event::InitApply(object) => {
            let (name, state) = state(object.metadata);
            listed.insert(name, state);
            false
        }
        Event::InitDone => {
            let before = seen.replace(std::mem::take(listed));
            before.is_some_and(|before| Some(before) != *seen)
        }
        Event::Apply(object) => {
            let (name, state) = state(object.metadata);
            let seen = seen.get_or_insert_default();
            seen.insert(name, state.clone()) != Some(state)
        }
        Event::Delete(object) => {
            let (name, _) = state(object.metadata);
            seen.get_or_insert_default().remove(&name).is_some()
        }
    }
}

/// An object's name, and what tells whether it has changed.
fn state(metadata: ObjectMeta) -> (String, String) {
    let uid = metadata.uid.unwrap_or_default();
    let version = match metadata.generation {
        Some(generation) => generation.to_string(),
        None => metadata.resource_version.unwrap_or_default(),
    };
    (metadata.name.unwrap_or_default(), format!("{uid} {version}"))
}
