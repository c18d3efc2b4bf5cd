//! What watches have told: policies, namespaces, and the objects of every kind that is compiled.

use crate::cluster::index::Collection;
use crate::egress::compile::MANAGED_BY;
use crate::egress::compile::kinds::{KINDS, Kind, NETWORK, POLICIES};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What watches tell.
#[derive(Default)]
pub(super) struct Known {
    /// Policies as they are stored, [`POLICIES`] by `NAMESPACE/NAME`.
    pub(super) policies: [Listing<Value>; POLICIES.len()],
    /// Namespaces that are there, and stay.
    pub(super) namespaces: Listing<()>,
    /// The objects of each of [`KINDS`], by `NAMESPACE/NAME`.
    pub(super) objects: [Listing<Seen>; KINDS.len()],
}

/// One resource, which its watch feeds.
#[derive(Debug)]
pub(super) struct Listing<T>(Mutex<Listed<T>>);

/// The objects of one resource. A clone shares them.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) found: Collection<T>,
    /// Whether the API server has no such resource.
    pub(super) is_missing: bool,
    /// How often in a row it could not be watched, up to [`PATIENCE`].
    pub(super) failures: u8,
}

/// How often a kind may fail before it counts as one that cannot be listed: with the pauses of a watch, some five seconds. Until
/// then nothing is written, for an API server that has just started would have every policy say that it is not programmed.
const PATIENCE: u8 = 3;

/// What was known at one time.
#[derive(Clone, Default)]
pub(super) struct View {
    pub(super) policies: [Collection<Value>; POLICIES.len()],
    pub(super) namespaces: Collection<()>,
    pub(super) objects: [Listed<Seen>; KINDS.len()],
}

/// An object, as far as it has to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    /// Whether it has our label.
    pub(super) is_ours: bool,
    /// Whether it is being deleted.
    pub(super) is_going: bool,
}

/// What tells whether an object says the same as before: its generation grows with what it says, and not with what others write
/// about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) uid: String,
    pub(super) generation: i64,
}

/// Which object something is: sorted in the order of application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its place in [`KINDS`].
    pub(super) kind: usize,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Known {
    /// Forgets everything.
    pub(super) fn forget(&self) {
        self.policies
            .iter()
            .for_each(|listing| *listing.lock() = Listed::default());
        *self.namespaces.lock() = Listed::default();
        self.objects
            .iter()
            .for_each(|listing| *listing.lock() = Listed::default());
    }

    /// What is known now.
    pub(super) fn view(&self) -> View {
        View {
            policies: self.policies.each_ref().map(|listing| listing.lock().found.clone()),
            namespaces: self.namespaces.lock().found.clone(),
            objects: self.objects.each_ref().map(|listing| listing.lock().clone()),
        }
    }

    /// Whether everything was listed that has to be; the error says what was not.
    pub(super) fn heard(&self) -> Result<(), String> {
        let policies = POLICIES.iter().zip(&self.policies);
        policies
            .map(|(kind, listing)| heard(kind.plural, &listing.lock().found))
            .chain([heard("namespaces", &self.namespaces.lock().found)])
            .collect()
    }

    /// Whether enough is known to act: of a kind that cannot be listed it is known that it cannot.
    pub(super) fn is_settled(&self) -> bool {
        let is_open = |listing: &Listing<Seen>| {
            let listed = listing.lock();
            !listed.found.is_listed() && !listed.is_missing && listed.failures < PATIENCE
        };
        self.policies.iter().all(|listing| listing.lock().found.is_listed())
            && self.namespaces.lock().found.is_listed()
            && !self.objects.iter().any(is_open)
    }
}

impl<T> Listed<T> {
    /// Notes that it could not be watched once more.
    pub(super) fn count_failure(&mut self) {
        self.failures = self.failures.saturating_add(1).min(PATIENCE);
    }
}

impl<T> Listing<T> {
    /// What is listed, to look at or to change.
    pub(super) fn lock(&self) -> MutexGuard<'_, Listed<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self {
            found: Collection::default(),
            is_missing: false,
            failures: 0,
        }
    }
}

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Self {
        Self {
            found: self.found.clone(),
            ..*self
        }
    }
}

fn heard<T: PartialEq>(resource: &str, found: &Collection<T>) -> Result<(), String> {
    match (found.is_listed(), found.trouble()) {
        (_, Some(why)) => Err(format!("{resource}: {why}")),
        (false, None) => Err(format!("{resource} are not listed yet")),
        (true, None) => Ok(()),
    }
}

impl View {
    /// The object that `key` names.
    pub(super) fn seen(&self, key: &Key) -> Option<&Seen> {
        self.objects.get(key.kind)?.found.item(&key.path())
    }

    /// Whether a namespace has any object of a kind, whoever made it.
    pub(super) fn has_any(&self, kind: usize, namespace: &str) -> bool {
        let mut all = self
            .objects
            .get(kind)
            .into_iter()
            .flat_map(|listed| listed.found.named());
        all.any(|(path, _)| path.split_once('/').is_some_and(|(own, _)| own == namespace))
    }

    /// Every object that is ours and stays, with its key.
    pub(super) fn ours(&self) -> impl Iterator<Item = (Key, &Seen)> {
        self.objects.iter().enumerate().flat_map(|(kind, listed)| {
            let ours = listed.found.named().filter(|(_, seen)| seen.is_ours && !seen.is_going);
            ours.filter_map(move |(path, seen)| Some((Key::at(kind, path)?, seen)))
        })
    }

    /// The `EgressNetworks` of others: namespace and name.
    pub(super) fn foreign_networks(&self) -> BTreeSet<(String, String)> {
        let networks = KINDS.iter().zip(&self.objects).filter(|(kind, _)| **kind == NETWORK);
        networks
            .flat_map(|(_, listed)| listed.found.named())
            .filter(|(_, seen)| !seen.is_ours)
            .filter_map(|(path, _)| path.split_once('/'))
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect()
    }
}

impl Key {
    fn at(kind: usize, path: &str) -> Option<Self> {
        let (namespace, name) = path.split_once('/')?;
        Some(Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Which object `object` is, and of which kind; nothing where it is of none of [`KINDS`].
    pub(super) fn of(object: &Value) -> Option<Self> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            kind: Kind::index_of(object)?,
            namespace: text("/metadata/namespace").unwrap_or_default(),
            name: text("/metadata/name").unwrap_or_default(),
        })
    }

    /// Its kind; there is none but of a key that was made up.
    pub(super) fn kind(&self) -> Option<&'static Kind> {
        KINDS.get(self.kind)
    }

    /// Its name in a collection.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind().map_or("object", |kind| kind.name);
        write!(f, "{kind} {}", self.path())
    }
}

/// `kind` for a client.
pub(super) fn resource(kind: &Kind) -> ApiResource {
    let names = GroupVersionKind::gvk(kind.group, kind.version, kind.name);
    ApiResource::from_gvk_with_plural(&names, kind.plural)
}

/// What is kept of a policy of `kind`.
pub(super) fn policy(kind: &Kind, object: DynamicObject) -> (Arc<str>, Option<Value>) {
    let path = path(&object.metadata);
    let DynamicObject { metadata, mut data, .. } = object;
    let ObjectMeta {
        name,
        namespace,
        generation,
        creation_timestamp,
        ..
    } = metadata;
    let mut part = |key: &str| data.get_mut(key).map(Value::take).unwrap_or_default();
    let kept = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generation": generation,
            "creationTimestamp": creation_timestamp,
        },
        "spec": part("spec"),
        "status": part("status"),
    });
    (path, Some(kept))
}

/// What is kept of an object.
pub(super) fn object(object: PartialObjectMeta<DynamicObject>) -> (Arc<str>, Option<Seen>) {
    let metadata = object.metadata;
    let (path, stamp) = (path(&metadata), Stamp::of(&metadata));
    let seen = Seen {
        stamp,
        is_ours: is_ours(&metadata),
        is_going: metadata.deletion_timestamp.is_some(),
    };
    (path, Some(seen))
}

/// Whether an object has our label.
pub(super) fn is_ours(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0));
    label.is_some_and(|label| label == MANAGED_BY.1)
}

impl Stamp {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
        }
    }
}

fn path(metadata: &ObjectMeta) -> Arc<str> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name)).into()
}
