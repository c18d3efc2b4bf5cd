//! One pass after another: each writes what has to be written.
//!
//! In every namespace what closes is there before what it replaces goes: objects are applied first, then others are deleted.
//! Where something could not be applied, nothing is deleted, and no `EgressNetwork` with `Allow` is applied. The global namespace is
//! first of all to be applied to and the last to be deleted in, for it counts where a namespace has nothing of its own.

use super::Shared;
use super::attempts::{Attempts, Need, Outcome, Target};
use super::known::{Key, Stamp};
use super::plan::{Apply, Plan, Work};
use super::write::{self, Fault};
use crate::egress::compile::hindrance::Hindrance;
use crate::egress::compile::kinds::POLICIES;
use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

/// How long changes are gathered: what is applied as one manifest comes within this time.
const GATHER: Duration = Duration::from_millis(200);

/// Namespaces that are written to at the same time: one where webhooks hang must not hold up all others.
const AT_ONCE: usize = 4;

/// How soon a pass is tried again when nobody answered.
const UNREACHABLE: Duration = Duration::from_secs(5);

/// What came of an object.
struct Written {
    key: Key,
    object: Value,
    outcome: Result<Stamp, Hindrance>,
    /// Whether it was not tried, for what hinders another.
    waits: bool,
}

/// Makes a pass whenever there is a reason to, for as long as it is polled.
pub(super) async fn run(shared: &Shared) {
    let mut attempts = Attempts::default();
    let mut again: Option<Instant> = None;
    loop {
        let is_time = async {
            match again {
                Some(again) => sleep_until(again).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.changed.notified() => {}
            () = is_time => {}
        }
        sleep(GATHER).await;
        again = match shared.known.is_settled() {
            true => Box::pin(pass(shared, &mut attempts)).await,
            // What is heard next changes something.
            false => None,
        };
    }
}

/// Makes a pass; when to make the next where nothing changes.
async fn pass(shared: &Shared, attempts: &mut Attempts) -> Option<Instant> {
    let mut plan = match compiled(shared, attempts).await {
        Ok(plan) => plan,
        Err(error) => {
            warn!(error, "policies cannot be compiled, trying again");
            shared.state().written = Err(format!("policies cannot be compiled: {error}"));
            return Some(Instant::now() + UNREACHABLE);
        }
    };
    let mut written = objects(shared, attempts, &mut plan).await;
    let hindered = plan.hindered.iter();
    plan.compiled
        .hinder(hindered.map(|(_, object, hindrance)| (object, hindrance.clone())));
    if written.is_ok() {
        written = statuses(shared, attempts, &mut plan).await;
    }
    attempts.retain(&plan.targets);
    shared.metrics.pass(&plan);
    if written.is_err() {
        plan.look_again(Instant::now() + UNREACHABLE);
    }
    let before = std::mem::replace(&mut shared.state().written, written.clone());
    match (before, written) {
        (Ok(()), Err(error)) => warn!(error, "nothing can be written, trying again"),
        (Err(_), Ok(())) => info!("writing goes on"),
        (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
    }
    plan.again
}

/// Compiles everything, on a thread of its own: however long it takes, the Lease is renewed and probes are answered meanwhile.
async fn compiled(shared: &Shared, attempts: &mut Attempts) -> Result<Plan, String> {
    let (view, surroundings) = (shared.known.view(), shared.options.surroundings.clone());
    let (kept, now) = (std::mem::take(attempts), Instant::now());
    let compiled = spawn_blocking(move || (Plan::new(&view, &kept, &surroundings, now), kept));
    let (plan, kept) = compiled.await.map_err(|error| error.to_string())?;
    *attempts = kept;
    Ok(plan)
}

/// Writes objects, and adds to the plan what could not be written. The error says why nobody answers.
async fn objects(shared: &Shared, attempts: &mut Attempts, plan: &mut Plan) -> Result<(), String> {
    let global_namespace = &shared.options.surroundings.global_namespace;
    let hindrances = &plan.hindrances();
    let mut work = std::mem::take(&mut plan.work);
    let global: BTreeMap<_, _> = work.remove_entry(global_namespace).into_iter().collect();
    for part in [&global, &work] {
        let all = stream::iter(part)
            .map(|(namespace, work)| async { apply(shared, work, hindrances.get(namespace).cloned()).await });
        let mut all = Box::pin(all.buffer_unordered(AT_ONCE));
        while let Some((written, unreachable)) = all.next().await {
            note(attempts, plan, written);
            if let Some(why) = unreachable {
                return Err(why);
            }
        }
    }
    let barriers = plan.barriers(global_namespace);
    for part in [work, global] {
        let all: Vec<_> = part
            .into_values()
            .map(|mut work| {
                work.delete.retain(|(key, _)| barriers.let_go(key));
                work
            })
            .collect();
        let all = stream::iter(all).map(|work| async move { delete(shared, &work).await });
        let mut all = Box::pin(all.buffer_unordered(AT_ONCE));
        while let Some(deleted) = all.next().await {
            for (key, stamp, deleted) in deleted {
                note_deletion(attempts, plan, &key, &stamp, deleted)?;
            }
        }
    }
    Ok(())
}

/// Applies the objects of one namespace, where something is `hindered` already or not; and why nobody answers. After a failure of
/// the API server the rest is not tried, and waits for the same reason. After any hindrance what loosens waits, unless it was
/// like that before.
async fn apply(shared: &Shared, work: &Work, mut hindered: Option<Hindrance>) -> (Vec<Written>, Option<String>) {
    let mut written = Vec::new();
    let mut failing = None;
    for apply in &work.apply {
        let mut note = |outcome, waits| {
            written.push(Written {
                key: apply.key.clone(),
                object: apply.object.clone(),
                outcome,
                waits,
            });
        };
        if let Some(hindrance) = &failing {
            note(Err(Hindrance::clone(hindrance)), false);
            continue;
        }
        let waits_for = hindered.clone().filter(|_| apply.loosens() && !apply.is_repair);
        match attempt(shared, apply, waits_for.is_some()).await {
            Ok(Some(stamp)) => note(Ok(stamp), false),
            Ok(None) => waits_for.into_iter().for_each(|hindrance| note(Err(hindrance), true)),
            Err(Fault::Unreachable(why)) => return (written, Some(why)),
            Err(Fault::Refused(message)) => {
                let hindrance = refused(&apply.key, message);
                note(Err(hindrance.clone()), false);
                hindered.get_or_insert(hindrance);
            }
            Err(Fault::Failing(message)) => {
                let hindrance = refused(&apply.key, message);
                note(Err(hindrance.clone()), false);
                failing = Some(hindrance);
            }
        }
    }
    (written, None)
}

/// Writes an object, or, where it has to wait, only looks whether it is there already; nothing where it is not.
async fn attempt(shared: &Shared, apply: &Apply, waits: bool) -> Result<Option<Stamp>, Fault> {
    if waits {
        return match write::look(&shared.client, apply).await {
            Err(Fault::Refused(_) | Fault::Failing(_)) => Ok(None),
            found => found,
        };
    }
    let outcome = write::apply(&shared.client, apply).await;
    shared.metrics.written("apply", outcome.as_ref().err());
    outcome.map(Some)
}

fn refused(key: &Key, message: String) -> Hindrance {
    Hindrance::Refused {
        object: key.to_string(),
        message,
    }
}

/// Notes what came of objects.
fn note(attempts: &mut Attempts, plan: &mut Plan, written: Vec<Written>) {
    for it in written {
        let Written { key, object, .. } = it;
        let outcome = match it.outcome {
            Ok(stamp) => Outcome::Done(stamp),
            Err(hindrance) => {
                plan.hindered.push((key.clone(), object.clone(), hindrance.clone()));
                Outcome::Hindered(hindrance)
            }
        };
        if it.waits {
            continue;
        }
        note_one(attempts, plan, &Target::Object(key), &object, outcome);
    }
}

/// Deletes objects of one namespace.
async fn delete(shared: &Shared, work: &Work) -> Vec<(Key, Stamp, Result<(), Fault>)> {
    let mut deleted = Vec::new();
    for (key, stamp) in &work.delete {
        let outcome = write::delete(&shared.client, key, stamp).await;
        shared.metrics.written("delete", outcome.as_ref().err());
        let is_over = matches!(outcome, Err(Fault::Unreachable(_) | Fault::Failing(_)));
        deleted.push((key.clone(), stamp.clone(), outcome));
        if is_over {
            break;
        }
    }
    deleted
}

fn note_deletion(
    attempts: &mut Attempts,
    plan: &mut Plan,
    key: &Key,
    stamp: &Stamp,
    deleted: Result<(), Fault>,
) -> Result<(), String> {
    let outcome = match deleted {
        Ok(()) => Outcome::Done(Stamp::default()),
        Err(Fault::Unreachable(why)) => return Err(why),
        Err(Fault::Refused(message) | Fault::Failing(message)) => Outcome::Hindered(refused(key, message)),
    };
    let uid = stamp.uid.as_str().into();
    note_one(attempts, plan, &Target::Deletion(key.clone()), &uid, outcome);
    Ok(())
}

/// Notes one attempt: says once that it failed, and when it is looked at again.
fn note_one(attempts: &mut Attempts, plan: &mut Plan, target: &Target, wanted: &Value, outcome: Outcome) {
    let now = Instant::now();
    let error = match &outcome {
        Outcome::Hindered(hindrance) => Some(hindrance.to_string()),
        Outcome::Done(_) => None,
    };
    let is_news = attempts.note(target.clone(), wanted.clone(), outcome, now);
    if let Need::Later(until, _) = attempts.need(target, wanted, None, now) {
        plan.look_again(until);
    }
    match error {
        Some(error) if is_news => warn!(error, "an object or status is not written, trying again"),
        Some(error) => debug!(error, "an object or status is not written"),
        None => {}
    }
}

/// Writes the statuses that differ. The error says why nobody answers.
async fn statuses(shared: &Shared, attempts: &mut Attempts, plan: &mut Plan) -> Result<(), String> {
    let (mut due, now) = (Vec::new(), Instant::now());
    let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for verdict in plan.compiled.verdicts.clone() {
        let Some(policy) = plan.policies.get(&verdict.policy) else {
            continue;
        };
        let target = Target::Status(verdict.policy.clone());
        plan.targets.insert(target.clone());
        let Some(conditions) = verdict.conditions_for(policy, &time) else {
            continue;
        };
        // But for the time, which goes on.
        let wanted = (policy.pointer("/metadata/generation"), &verdict.conditions);
        let wanted = serde_json::to_value(wanted).unwrap_or_default();
        match attempts.need(&target, &wanted, None, now) {
            Need::Later(until, _) => plan.look_again(until),
            Need::Due | Need::Settled => due.push((target, wanted, policy.clone(), conditions)),
        }
    }
    let all = stream::iter(due).map(|(target, wanted, policy, conditions)| async move {
        let kind = POLICIES
            .iter()
            .find(|kind| policy.get("kind").and_then(Value::as_str) == Some(kind.name));
        let outcome = match kind {
            Some(kind) => write::status(&shared.client, kind, &policy, &conditions).await,
            None => Ok(()),
        };
        shared.metrics.written("status", outcome.as_ref().err());
        (target, wanted, outcome)
    });
    let mut all = Box::pin(all.buffer_unordered(AT_ONCE));
    while let Some((target, wanted, outcome)) = all.next().await {
        let outcome = match outcome {
            Ok(()) => Outcome::Done(Stamp::default()),
            Err(Fault::Unreachable(why)) => return Err(why),
            Err(Fault::Refused(message) | Fault::Failing(message)) => {
                let Target::Status(object) = &target else { continue };
                let object = object.clone();
                Outcome::Hindered(Hindrance::Refused { object, message })
            }
        };
        note_one(attempts, plan, &target, &wanted, outcome);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::egress::{Controller, Options};
    use crate::egress::compile::Surroundings;
    use axum::Router;
    use futures::poll;
    use kube::Client;
    use serde_json::json;
    use std::pin::pin;

    #[tokio::test]
    async fn nobody_waits_for_policies_that_are_compiled() {
        let options = Options {
            control_plane: "linkerd".to_owned(),
            surroundings: Surroundings::default(),
            identity: "one".to_owned(),
        };
        let controller = Controller::new(Client::new(Router::new(), "default"), options);
        let policies = (0..200).map(|number| {
            let policy = json!({
                "apiVersion": "outrigger.linkerd.io/v1alpha1",
                "kind": "EgressPolicy",
                "metadata": {"name": format!("p{number}"), "namespace": "shop"},
                "spec": {"hosts": [format!("h{number}.example")]},
            });
            (format!("shop/p{number}").into(), policy)
        });
        let shared = &controller.shared;
        shared.known.policies[0].lock().found.reset(policies.collect());
        let mut attempts = Attempts::default();
        let mut compiled = pin!(compiled(shared, &mut attempts));
        // There is one thread for all else, and it goes on.
        assert!(poll!(&mut compiled).is_pending());
        assert_eq!(compiled.await.unwrap().compiled.verdicts.len(), 200);
    }
}
