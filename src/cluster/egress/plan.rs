//! What has to be written so that the cluster is as the policies want it.

use super::attempts::{Attempts, Need, Outcome, Target};
use super::known::{Key, Stamp, View};
use crate::cluster::index::Collection;
use crate::egress::compile::hindrance::Hindrance;
use crate::egress::compile::kinds::{Kind, NETWORK, POLICIES};
use crate::egress::compile::{Compiled, Surroundings, compile};
use crate::egress::{Policies, Policy};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// What has to be written, and what is to say.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What policies compile to.
    pub(super) compiled: Compiled,
    /// The policies as they are stored, by identifier.
    pub(super) policies: BTreeMap<String, Value>,
    /// Namespace by namespace.
    pub(super) work: BTreeMap<String, Work>,
    /// Objects that are not in the cluster as they are wanted.
    pub(super) hindered: Vec<(Key, Value, Hindrance)>,
    /// Everything that it is about.
    pub(super) targets: BTreeSet<Target>,
    /// When to look again.
    pub(super) again: Option<Instant>,
}

/// What has to be written in a namespace.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// In this order.
    pub(super) apply: Vec<Apply>,
    /// In this order.
    pub(super) delete: Vec<(Key, Stamp)>,
}

/// An object that has to be applied.
#[derive(Debug)]
pub(super) struct Apply {
    pub(super) key: Key,
    pub(super) object: Value,
    /// The one that is there, which is ours.
    pub(super) seen: Option<Stamp>,
    /// Whether it was there like that, and somebody has changed or deleted it.
    pub(super) is_repair: bool,
}

impl Apply {
    /// Whether it lets pass what no route is for.
    pub(super) fn loosens(&self) -> bool {
        self.key.kind() == Some(&NETWORK) && !denies(&self.object)
    }

    /// Its place in the order of application. Of networks one that closes everything is first, for any of them keeps the global
    /// ones away, and what loosens is last.
    fn place(&self) -> (usize, bool, bool, &Key) {
        let is_part = self.object.pointer("/spec/networks").is_some();
        (self.key.kind, self.loosens(), is_part, &self.key)
    }
}

/// Whether a network closes what has no route.
fn denies(network: &Value) -> bool {
    network.pointer("/spec/trafficPolicy").and_then(Value::as_str) == Some("Deny")
}

/// What stands in the way of deleting.
#[derive(Debug)]
pub(super) struct Barriers {
    /// Namespaces where something is not as it is wanted: what is to be deleted may be what it replaces.
    namespaces: BTreeSet<String>,
    /// Whether something that closes is not as it is wanted in the global namespace.
    is_global: bool,
    /// Namespaces that still have something of their own.
    kept: BTreeSet<String>,
}

/// What a plan goes by.
struct There<'t> {
    view: &'t View,
    attempts: &'t Attempts,
    held: &'t Held,
    now: Instant,
}

/// Where nothing is opened or deleted, because a policy that counts there cannot be read, and which.
#[derive(Debug, Default)]
struct Held {
    everywhere: Option<String>,
    namespaces: BTreeMap<String, String>,
}

impl Plan {
    /// What has to be written at `now`, where everything is as in `view`.
    pub(super) fn new(view: &View, attempts: &Attempts, surroundings: &Surroundings, now: Instant) -> Self {
        let mut plan = Self::default();
        let held = plan.compile(view, surroundings);
        let there = There {
            view,
            attempts,
            held: &held,
            now,
        };
        let mut wanted = BTreeSet::new();
        let objects = std::mem::take(&mut plan.compiled.objects);
        for object in &objects {
            let Some(key) = Key::of(object) else {
                let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let missing = Hindrance::KindMissing {
                    kind: text("kind"),
                    api_version: text("apiVersion"),
                };
                plan.compiled.hinder([(object, missing)]);
                continue;
            };
            plan.want(&key, object, &there);
            wanted.insert(key);
        }
        plan.compiled.objects = objects;
        plan.restore(&there);
        plan.delete(&wanted, &there);
        for work in plan.work.values_mut() {
            work.apply.sort_by(|a, b| a.place().cmp(&b.place()));
            work.delete.sort_by(|(a, _), (b, _)| b.cmp(a));
        }
        plan
    }

    /// Reads the policies and compiles them.
    fn compile(&mut self, view: &View, surroundings: &Surroundings) -> Held {
        let (mut read, mut errors, mut held) = (Vec::new(), Vec::new(), Held::default());
        for object in view.policies.iter().flat_map(Collection::iter) {
            let id = match Policy::read(object, "") {
                Some(Ok(policy)) => {
                    let id = policy.id.to_string();
                    read.push(policy);
                    id
                }
                Some(Err(error)) => {
                    held.add(object, &error.object);
                    let id = error.object.clone();
                    errors.push(error);
                    id
                }
                None => continue,
            };
            self.policies.insert(id, object.clone());
        }
        let surroundings = Surroundings {
            foreign: view.foreign_networks(),
            ..surroundings.clone()
        };
        self.compiled = compile(&Policies::new(read), &surroundings);
        self.compiled.refuse(errors);
        held
    }

    /// Adds what has to be done about an object that policies compile to.
    fn want(&mut self, key: &Key, object: &Value, there: &There<'_>) {
        let target = Target::Object(key.clone());
        if there.is_settled(&target, key, object) {
            self.targets.insert(target);
            return;
        }
        let is_repair = there.attempts.done(&target) == Some(object);
        let held = there
            .held
            .by(&key.namespace)
            .filter(|_| !is_repair && !there.only_closes(key, object));
        let held = held.map(|policy| Hindrance::Held {
            policy: policy.to_owned(),
        });
        if let Some(hindrance) = hindrance(key, there.view).or(held) {
            // What was written of it before is not there any more, and is due at once when nothing hinders it.
            self.hindered.push((key.clone(), object.clone(), hindrance));
            return;
        }
        self.targets.insert(target);
        self.add(key, object, is_repair, there);
    }

    /// Adds what has to be done so that in namespaces that are held everything is as it was applied.
    fn restore(&mut self, there: &There<'_>) {
        for (key, object) in there.attempts.applied() {
            let target = Target::Object(key.clone());
            if there.held.by(&key.namespace).is_none() || self.targets.contains(&target) {
                continue;
            }
            if !there.is_settled(&target, key, object) && hindrance(key, there.view).is_none() {
                self.add(key, object, true, there);
            }
            self.targets.insert(target);
        }
    }

    /// Adds the deletion of what is not wanted any more.
    fn delete(&mut self, wanted: &BTreeSet<Key>, there: &There<'_>) {
        for (key, seen) in there.view.ours() {
            if wanted.contains(&key) || there.held.by(&key.namespace).is_some() {
                continue;
            }
            let target = Target::Deletion(key.clone());
            match there
                .attempts
                .need(&target, &seen.stamp.uid.as_str().into(), None, there.now)
            {
                Need::Later(until, _) => self.look_again(until),
                Need::Due | Need::Settled => {
                    let work = self.work.entry(key.namespace.clone()).or_default();
                    work.delete.push((key, seen.stamp.clone()));
                }
            }
            self.targets.insert(target);
        }
    }

    /// Adds what has to be done about an object that nothing hinders.
    fn add(&mut self, key: &Key, object: &Value, is_repair: bool, there: &There<'_>) {
        match there.need(&Target::Object(key.clone()), key, object) {
            Need::Later(until, outcome) => {
                self.look_again(until);
                if let Outcome::Hindered(hindrance) = outcome {
                    self.hindered.push((key.clone(), object.clone(), hindrance.clone()));
                }
            }
            Need::Due | Need::Settled => {
                let work = self.work.entry(key.namespace.clone()).or_default();
                work.apply.push(Apply {
                    key: key.clone(),
                    object: object.clone(),
                    seen: there.view.seen(key).map(|seen| seen.stamp.clone()),
                    is_repair,
                });
            }
        }
    }

    /// What stands in the way of deleting, once everything was applied that could be.
    pub(super) fn barriers(&self, global_namespace: &str) -> Barriers {
        let namespaces = self.hindered.iter().map(|(key, _, _)| key.namespace.clone());
        let is_global = |(key, ..): &(Key, Value, Hindrance)| key.namespace == global_namespace && closes(key);
        let wanted = self.compiled.objects.iter();
        let own = wanted.filter_map(|object| object.pointer("/metadata/namespace")?.as_str());
        Barriers {
            namespaces: namespaces.collect(),
            is_global: self.hindered.iter().any(is_global),
            kept: own.map(str::to_owned).collect(),
        }
    }

    /// What hinders something in each namespace.
    pub(super) fn hindrances(&self) -> BTreeMap<String, Hindrance> {
        let hindered = self.hindered.iter();
        hindered
            .map(|(key, _, hindrance)| (key.namespace.clone(), hindrance.clone()))
            .collect()
    }

    /// Notes that something is due at `until`.
    pub(super) fn look_again(&mut self, until: Instant) {
        self.again = Some(self.again.map_or(until, |again| again.min(until)));
    }
}

/// What stands against writing an object, without asking.
fn hindrance(key: &Key, view: &View) -> Option<Hindrance> {
    let (kind, listed) = (key.kind()?, view.objects.get(key.kind)?);
    let refused = |message: &str| Hindrance::Refused {
        object: key.to_string(),
        message: message.to_owned(),
    };
    if listed.is_missing {
        return Some(Hindrance::KindMissing {
            kind: kind.name.to_owned(),
            api_version: kind.api_version(),
        });
    }
    if let (false, Some(why)) = (listed.found.is_listed(), listed.found.trouble()) {
        return Some(refused(&why));
    }
    if !view.namespaces.contains(&key.namespace) {
        return Some(Hindrance::NamespaceMissing {
            namespace: key.namespace.clone(),
        });
    }
    let seen = view.seen(key)?;
    if !seen.is_ours {
        return Some(Hindrance::ForeignObject {
            object: key.to_string(),
        });
    }
    seen.is_going
        .then(|| refused("it is being deleted, and comes again after that"))
}

impl<'t> There<'t> {
    fn need(&self, target: &Target, key: &Key, object: &Value) -> Need<'t> {
        let seen = self.view.seen(key);
        self.attempts
            .need(target, object, seen.map(|seen| &seen.stamp), self.now)
    }

    /// Whether an object is there as it was written, and was written like `object`.
    fn is_settled(&self, target: &Target, key: &Key, object: &Value) -> bool {
        let is_there = self.view.seen(key).is_some_and(|seen| seen.is_ours && !seen.is_going);
        is_there && self.need(target, key, object) == Need::Settled
    }

    /// Whether nothing that is closed is opened by `object`, whatever else counts: a network that denies everything, or a part of
    /// it that has no network yet, beside another, for the first of a namespace keeps the global ones away.
    fn only_closes(&self, key: &Key, object: &Value) -> bool {
        let is_part = object.pointer("/spec/networks").is_some();
        let is_first = || !self.view.has_any(key.kind, &key.namespace);
        key.kind() == Some(&NETWORK) && denies(object) && (!is_part || self.view.seen(key).is_none() && !is_first())
    }
}

impl Barriers {
    /// Whether the object of `key` may be deleted. Where the global namespace does not close yet, what closes stays, and the last
    /// that a namespace has: after that the global one counts.
    pub(super) fn let_go(&self, key: &Key) -> bool {
        let is_last = !self.kept.contains(&key.namespace);
        !self.namespaces.contains(&key.namespace) && !(self.is_global && (closes(key) || is_last))
    }
}

fn closes(key: &Key) -> bool {
    key.kind().is_some_and(Kind::closes)
}

impl Held {
    fn add(&mut self, policy: &Value, id: &str) {
        let text = |pointer| policy.pointer(pointer).and_then(Value::as_str);
        let [_, cluster_wide] = POLICIES;
        match text("/metadata/namespace").filter(|_| text("/kind") != Some(cluster_wide.name)) {
            Some(namespace) => drop(self.namespaces.insert(namespace.to_owned(), id.to_owned())),
            None => self.everywhere = Some(id.to_owned()),
        }
    }

    /// The policy that holds everything in `namespace`.
    fn by(&self, namespace: &str) -> Option<&str> {
        let own = self.namespaces.get(namespace);
        own.or(self.everywhere.as_ref()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
