//! The objects of one resource.

use super::Status;
use crate::cluster::facts::Known;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of one resource by name, and how far they can be trusted.
#[derive(Debug)]
pub struct Collection<T> {
    items: BTreeMap<Arc<str>, Arc<T>>,
    /// `items` as a list, made when it is first asked for.
    list: Option<Arc<[Arc<T>]>>,
    listed: bool,
    trouble: Option<Arc<str>>,
    generation: u64,
    failures: u64,
}

/// How far a collection can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing was heard yet.
    Pending,
    /// The objects could not be listed so far.
    Unavailable,
    /// The objects were listed and are being watched.
    Current,
    /// The objects were listed, and the watch has failed since.
    Stale,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            list: None,
            listed: false,
            trouble: None,
            generation: 0,
            failures: 0,
        }
    }
}

impl<T: PartialEq> Collection<T> {
    /// One object.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.items.get(name).cloned()
    }

    /// Adds or replaces an object. One that is equal to what is known changes nothing: a node reports in every few
    /// minutes, and what was derived from it must last.
    pub fn apply(&mut self, name: Arc<str>, item: T) {
        self.trouble = None;
        if self.items.get(&name).is_some_and(|known| **known == item) {
            return;
        }
        self.items.insert(name, Arc::new(item));
        self.changed();
    }

    /// Removes an object.
    pub fn delete(&mut self, name: &str) {
        self.trouble = None;
        if self.items.remove(name).is_some() {
            self.changed();
        }
    }

    /// Replaces all objects.
    pub fn reset(&mut self, items: Vec<(Arc<str>, T)>) {
        let known = std::mem::take(&mut self.items);
        let shared = items.into_iter().map(|(name, item)| match known.get(&name) {
            Some(same) if **same == item => (name, Arc::clone(same)),
            _ => (name, Arc::new(item)),
        });
        self.items = shared.collect();
        self.trouble = None;
        let same = known.len() == self.items.len()
            && known
                .iter()
                .zip(&self.items)
                .all(|((name, old), (other, new))| name == other && Arc::ptr_eq(old, new));
        if !same || !self.listed {
            self.changed();
        }
        self.listed = true;
    }

    /// Notes that the watch failed; what is known stays.
    pub fn fail(&mut self, why: Arc<str>) {
        self.failures += 1;
        self.trouble = Some(why);
    }

    /// Notes that the watch stands again.
    pub fn recover(&mut self) {
        self.trouble = None;
    }

    /// How many objects there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// How far the objects can be trusted.
    pub fn freshness(&self) -> Freshness {
        match (self.listed, &self.trouble) {
            (false, None) => Freshness::Pending,
            (false, Some(_)) => Freshness::Unavailable,
            (true, None) => Freshness::Current,
            (true, Some(_)) => Freshness::Stale,
        }
    }

    /// Why the objects are missing or out of date.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.clone()
    }

    /// A number that grows with every change of an object.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The objects as a list that stays as it is.
    pub fn known(&mut self) -> Known<T> {
        if self.list.is_none() && self.listed {
            self.list = Some(self.items.values().cloned().collect());
        }
        Known {
            items: self.list.clone(),
            trouble: self.trouble.clone(),
        }
    }

    pub(super) fn status(&self, resource: &'static str) -> Status {
        Status {
            resource,
            objects: self.len(),
            freshness: self.freshness(),
            failures: self.failures,
        }
    }

    fn changed(&mut self) {
        self.list = None;
        self.generation += 1;
    }
}
