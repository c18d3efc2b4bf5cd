//! Pods that lost the race: meshed, to be redirected by the plugin, and without rules because it was not there yet.
//!
//! Each pod is looked at once, in its network namespace, when it has its address, and again when its validator fails. Rules
//! that are missing are written in place and read back; a pod that may have connections keeps them. Where that cannot be
//! done and the validator fails, the pod is deleted, if somebody makes another in its place: with its UID and version as
//! precondition, rarely, and with an event. A Job's pod is never deleted, for the Job would count it.

mod netns;
mod subject;

use super::Shared;
use crate::cni::config::NetworkConfig;
use crate::cni::rules::rules;
use crate::pod::Pod;
use crate::redirect::Redirection;
use crate::redirect::apply::{self, ApplyError, Options, Wait};
use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use subject::{Restraint, Subject};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// How long changes are gathered before pods are looked at.
const GATHER: Duration = Duration::from_millis(250);

/// How soon a pod is looked at again where nothing could be done.
const RETRY: Duration = Duration::from_secs(10);

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long whoever holds a lock is waited for; nothing is installed meanwhile.
const LOCKS: Duration = Duration::from_secs(3);

/// The component that Linkerd's repair controller names, as it does the reason; people filter by them.
const COMPONENT: &str = "linkerd-cni-repair-controller";
/// The reason of every event about a pod.
pub const EVENT_REASON: &str = "LinkerdCNINotConfigured";

/// What was found in a pod's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// The rules are in force.
    Fine,
    /// They were not, and are now.
    Repaired,
    /// They are not, and why.
    Broken(String),
    /// The namespace is nowhere to be seen, or cannot be told from another.
    Unseen,
}

/// What is remembered of a pod.
#[derive(Clone, Debug)]
struct Memory {
    addresses: Vec<IpAddr>,
    restarts: i64,
    finding: Finding,
    at: Instant,
    /// Whether people were told that nothing can be done.
    told: bool,
}

/// Repairs pods for as long as it is polled; `folder` is where network namespaces are bound.
pub(super) async fn keep_repaired(shared: &Shared, folder: &Path) {
    let reporter = Reporter {
        controller: COMPONENT.to_owned(),
        instance: Some(shared.node.clone()),
    };
    let recorder = Recorder::new(shared.client().clone(), reporter);
    let mut memories: HashMap<String, Memory> = HashMap::new();
    let mut restraint = Restraint::default();
    let mut changes = shared.pods.changes();
    loop {
        // Time goes by without changes, too.
        timeout(RETRY, changes.changed()).await.ok();
        sleep(GATHER).await;
        changes.borrow_and_update();
        let subjects: Vec<Subject> = shared.pods.all().iter().filter_map(Subject::of).collect();
        memories.retain(|uid, _| subjects.iter().any(|subject| subject.uid == *uid));
        let due: Vec<Subject> = subjects
            .into_iter()
            .filter(|subject| is_due(subject, &memories))
            .collect();
        if due.is_empty() {
            continue;
        }
        for (subject, finding) in look(shared, due, folder).await {
            let told = memories.get(&subject.uid).is_some_and(|memory| memory.told);
            let told = act(shared, &recorder, (&subject, &finding), &mut restraint, told).await;
            let memory = Memory {
                addresses: subject.addresses,
                restarts: subject.restarts,
                finding,
                at: Instant::now(),
                told,
            };
            memories.insert(subject.uid, memory);
        }
    }
}

/// Whether there is something to be found out about a pod: a new sandbox, a validator that failed anew, or nothing could
/// be done last time.
fn is_due(subject: &Subject, memories: &HashMap<String, Memory>) -> bool {
    let Some(memory) = memories.get(&subject.uid) else {
        return !subject.addresses.is_empty();
    };
    let done = matches!(memory.finding, Finding::Fine | Finding::Repaired);
    memory.addresses != subject.addresses
        || (subject.failing && memory.restarts != subject.restarts)
        || (!done && memory.at.elapsed() >= RETRY)
}

/// Looks into the network namespaces of `subjects`, and repairs there.
async fn look(shared: &Shared, subjects: Vec<Subject>, folder: &Path) -> Vec<(Subject, Finding)> {
    let folder = folder.to_owned();
    let looked = shared.with_installer(move |installer| {
        let Some(config) = installer.installed().map(|config| config.to_string()) else {
            return Vec::new();
        };
        let namespaces = netns::bound_in(&folder);
        let find = |subject: Subject| {
            let namespace = netns::of_addresses(&namespaces, &subject.addresses);
            let finding = namespace.map_or(Finding::Unseen, |namespace| examine(&subject, namespace, &config));
            (subject, finding)
        };
        subjects.into_iter().map(find).collect()
    });
    looked.await
}

fn examine(subject: &Subject, namespace: &Path, config: &str) -> Finding {
    let broken = |why: &dyn std::fmt::Display| Finding::Broken(why.to_string());
    let config = match NetworkConfig::parse(config) {
        Ok(config) => config,
        Err(failure) => return broken(&failure),
    };
    let rules = match rules(&Pod::new(&subject.pod), &subject.name, &config) {
        Ok(rules) => rules,
        Err(failure) => return broken(&failure),
    };
    let wanted = Redirection {
        new_connections_only: subject.runs,
        ..rules.redirection.clone()
    };
    let options = Options {
        wait: Wait::Until(Instant::now() + LOCKS),
        ..rules.options
    };
    let work = || match apply::check(&rules.redirection, options) {
        Ok(()) => Ok(Finding::Fine),
        Err(ApplyError::NotInForce { .. }) => {
            apply::apply(&wanted, options)?;
            apply::check(&wanted, options).map(|()| Finding::Repaired)
        }
        Err(error) => Err(error),
    };
    let done = apply::inside(namespace, work).and_then(|done| done);
    done.unwrap_or_else(|error| broken(&error))
}

/// Does what follows from a finding; whether people have been told that nothing can be done.
async fn act(
    shared: &Shared,
    recorder: &Recorder,
    (subject, finding): (&Subject, &Finding),
    restraint: &mut Restraint,
    told: bool,
) -> bool {
    let pod = subject.name.path();
    let why = match finding {
        Finding::Fine => return told,
        Finding::Repaired => {
            info!(pod, "the pod had no redirect rules; they are in place now");
            shared.metrics.repaired("in_place");
            let note = "the pod started before the CNI plugin was there; its redirect rules are in place now";
            tell(recorder, subject, "Repairing", note).await;
            return told;
        }
        Finding::Broken(why) => why.as_str(),
        Finding::Unseen => "its network namespace is not found, or another has its address",
    };
    if !subject.failing {
        return told;
    }
    if restraint.allows(subject, Instant::now()) {
        tell(
            recorder,
            subject,
            "Deleting",
            &format!("deleted for want of redirect rules: {why}"),
        )
        .await;
        delete(shared, subject).await;
        return told;
    }
    if subject.is_replaceable() || told {
        return told;
    }
    warn!(
        pod,
        why, "the pod has no redirect rules, cannot be repaired and is not deleted"
    );
    shared.metrics.repaired("left_alone");
    let note = format!("the pod has no redirect rules and cannot be repaired: {why}; delete it");
    tell(recorder, subject, "Repairing", &note).await;
    true
}

async fn delete(shared: &Shared, subject: &Subject) {
    let api = Api::<v1::Pod>::namespaced(shared.client().clone(), &subject.name.namespace);
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(subject.uid.clone()),
            resource_version: Some(subject.version.clone()),
        }),
        ..DeleteParams::default()
    };
    let pod = subject.name.path();
    match timeout(TIMEOUT, api.delete(&subject.name.name, &parameters)).await {
        Ok(Ok(_)) => {
            warn!(pod, "the pod had no redirect rules and is deleted");
            shared.metrics.repaired("deleted");
        }
        // It has changed, or is gone: it is looked at again.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
        Ok(Err(error)) => {
            warn!(pod, %error, "the pod has no redirect rules and cannot be deleted");
            shared.metrics.repaired("failed");
        }
        Err(_late) => shared.metrics.repaired("failed"),
    }
}

async fn tell(recorder: &Recorder, subject: &Subject, action: &str, note: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: EVENT_REASON.to_owned(),
        note: Some(note.chars().take(1000).collect()),
        action: action.to_owned(),
        secondary: None,
    };
    let regarding = v1::ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(subject.name.namespace.clone()),
        name: Some(subject.name.name.clone()),
        uid: Some(subject.uid.clone()),
        ..v1::ObjectReference::default()
    };
    if let Ok(Err(error)) = timeout(TIMEOUT, recorder.publish(&event, &regarding)).await {
        warn!(%error, "an event cannot be published");
    }
}
