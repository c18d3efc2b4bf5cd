//! Policies, pods and ConfigMaps from files.

use super::knowledge::Knowledge;
use super::pods::{self, Entry, Key};
use super::rules::{Found, Maps, Rules};
use crate::egress::policy::{Id, Policy, PolicyError};
use crate::egress::spec::Placement;
use crate::pod::manifest::{self, ManifestError};
use crate::webhook::reload::{Change, LoadError, Reloaded, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::Utf8Error;
use std::sync::Arc;

/// Files that are compared again and again.
#[derive(Debug)]
pub(super) struct Files(Reloaded<Manifests>);

/// What they hold.
#[derive(Debug)]
struct Manifests {
    rules: Arc<Rules>,
    pods: Vec<(Key, Entry)>,
}

/// Why manifests cannot be gone by. What is wrong with one of them is wrong with all: half of the policies could open what the
/// other half closes.
#[derive(Debug, thiserror::Error)]
enum ManifestsError {
    #[error("it is no text: {0}")]
    Text(#[from] Utf8Error),
    #[error("{0} of the files holds no objects, and what it held may have closed something")]
    Empty(usize),
    #[error("an object is {0}: expected a map with apiVersion and kind")]
    NoObject(String),
    #[error("there is no policy, and everything would go out")]
    NoPolicy,
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{policy}: the gateway cannot enforce it as it is written: {why}")]
    Refused { policy: Id, why: String },
}

impl Files {
    /// Reads the files; objects without a namespace, and ConfigMaps of cluster-wide policies, are in `namespace`.
    pub(super) fn load(paths: Vec<PathBuf>, namespace: String) -> Result<Self, LoadError> {
        let sources = paths.into_iter().map(Source::File).collect();
        Reloaded::load_all(sources, move |contents| Manifests::read(contents, &namespace)).map(Self)
    }

    /// Compares the files.
    pub(super) fn check(&self) -> Change {
        self.0.check()
    }

    /// Has `known` go by them.
    pub(super) fn tell(&self, known: &Knowledge) {
        let manifests = self.0.current();
        known.pods.reset(manifests.pods.iter().cloned());
        known.set_rules(Arc::clone(&manifests.rules));
    }
}

impl Manifests {
    /// Reads manifests: policies, pods and ConfigMaps; others are passed over.
    fn read(contents: &[Vec<u8>], namespace: &str) -> Result<Arc<Self>, ManifestsError> {
        let (mut found, mut maps, mut pods) = (Found::default(), Maps::new(), Vec::new());
        for (number, content) in (1..).zip(contents) {
            let mut documents = manifest::read(str::from_utf8(content)?)?;
            documents.retain(|document| !document.value.is_null());
            if documents.is_empty() {
                return Err(ManifestsError::Empty(number));
            }
            for document in documents {
                for object in manifest::items(&document.value) {
                    if !object.is_object() {
                        return Err(ManifestsError::NoObject(object.to_string()));
                    }
                    if let Some(policy) = Policy::read(&object, namespace) {
                        found.policies.push(policy?);
                    }
                    pods.extend(pod(&object, namespace));
                    keep_map(&mut maps, &object, namespace);
                }
            }
        }
        if found.policies.is_empty() {
            return Err(ManifestsError::NoPolicy);
        }
        for policy in &found.policies {
            refuse(policy)?;
        }
        let rules = Arc::new(Rules::new(found, &maps, namespace, None));
        Ok(Arc::new(Self { rules, pods }))
    }
}

/// What the gateway is to enforce and cannot must not be left out: that could open what it is to close.
fn refuse(policy: &Policy) -> Result<(), ManifestsError> {
    let refusals = policy.refusals();
    if policy.placement != Placement::Gateway || refusals.is_empty() {
        return Ok(());
    }
    let why: Vec<_> = refusals.into_iter().map(|refusal| refusal.message).collect();
    Err(ManifestsError::Refused {
        policy: policy.id.clone(),
        why: why.join("; "),
    })
}

fn is(object: &Value, kind: &str) -> bool {
    object["kind"] == kind && object["apiVersion"] == "v1"
}

/// A pod, where it is one and anything of it is kept.
fn pod(object: &Value, namespace: &str) -> Option<(Key, Entry)> {
    if !is(object, "Pod") {
        return None;
    }
    let mut object = object.clone();
    object.as_object_mut()?.entry("spec").or_insert_with(|| json!({}));
    let (key, entry) = pods::read(serde_json::from_value(object).ok()?, namespace);
    Some((key, entry?))
}

fn keep_map(maps: &mut Maps, object: &Value, default_namespace: &str) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let Some(name) = text("/metadata/name").filter(|_| is(object, "ConfigMap")) else {
        return;
    };
    let namespace = text("/metadata/namespace").unwrap_or(default_namespace);
    let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
    let data: BTreeMap<_, _> = data
        .filter_map(|(key, text)| Some((key.clone(), text.as_str()?.into())))
        .collect();
    maps.insert((namespace.to_owned(), name.to_owned()), data);
}
