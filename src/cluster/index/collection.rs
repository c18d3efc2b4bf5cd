//! The objects of one resource.

use super::Status;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of one resource by name, and how far they can be trusted.
///
/// A clone shares the objects, and costs as much however many there are.
#[derive(Debug)]
pub struct Collection<T> {
    items: Arc<BTreeMap<Arc<str>, Arc<T>>>,
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
            items: Arc::default(),
            listed: false,
            trouble: None,
            generation: 0,
            failures: 0,
        }
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            items: Arc::clone(&self.items),
            trouble: self.trouble.clone(),
            ..*self
        }
    }
}

impl<T: PartialEq> Collection<T> {
    /// One object.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.items.get(name).cloned()
    }

    /// The same to look at.
    pub fn item(&self, name: &str) -> Option<&T> {
        self.items.get(name).map(|item| &**item)
    }

    /// Whether there is one of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.items.contains_key(name)
    }

    /// All objects, by name.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.values().map(|item| &**item)
    }

    /// All objects with their names, in order.
    pub fn named(&self) -> impl Iterator<Item = (&str, &T)> {
        self.items.iter().map(|(name, item)| (&**name, &**item))
    }

    /// Adds or replaces an object. One that is equal to what is known changes nothing: a node reports in every few
    /// minutes, and what was derived from it must last.
    pub fn apply(&mut self, name: Arc<str>, item: T) {
        self.trouble = None;
        if self.items.get(&name).is_some_and(|known| **known == item) {
            return;
        }
        Arc::make_mut(&mut self.items).insert(name, Arc::new(item));
        self.generation += 1;
    }

    /// Removes an object.
    pub fn delete(&mut self, name: &str) {
        self.trouble = None;
        if self.items.contains_key(name) {
            Arc::make_mut(&mut self.items).remove(name);
            self.generation += 1;
        }
    }

    /// Replaces all objects.
    pub fn reset(&mut self, items: Vec<(Arc<str>, T)>) {
        let items: BTreeMap<_, _> = items.into_iter().map(|(name, item)| (name, Arc::new(item))).collect();
        self.trouble = None;
        self.listed = true;
        if *self.items != items {
            self.items = Arc::new(items);
            self.generation += 1;
        }
    }

    /// Notes that what is known are all objects.
    pub fn seal(&mut self) {
        self.listed = true;
    }

    /// Notes that the objects cannot be told: none is known.
    pub fn withhold(&mut self, why: Arc<str>) {
        self.forget();
        self.fail(why);
    }

    /// Notes that the watch failed; what is known stays.
    pub fn fail(&mut self, why: Arc<str>) {
        self.failures += 1;
        self.trouble = Some(why);
    }

    /// Forgets all objects, which nobody watches any more.
    pub fn forget(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            failures: self.failures,
            ..Self::default()
        };
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

    /// Whether the objects were listed once.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Why the objects are missing or out of date.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.clone()
    }

    /// A number that grows with every change of an object.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn status(&self, resource: &'static str) -> Status {
        Status {
            resource,
            objects: self.items.len(),
            freshness: self.freshness(),
            failures: self.failures,
        }
    }
}
