//! The index: a plain structure, fed by watches or manifests, that never asks anything itself.

mod collection;
mod read;

pub use collection::{Collection, Freshness};
pub use read::{Interner, ObjectsError, PLUGIN_LABEL, PLUGIN_NAMES};
pub(super) use read::{NodeSpec, flatten, namespace, node, plugin};

use super::facts::{Facts, Namespace, Node, Plugin};
use crate::policy::Release;
use serde_json::Value;

/// Everything that watches have told.
#[derive(Debug, Default)]
pub struct Index {
    /// Namespaces by name.
    pub namespaces: Collection<Namespace>,
    /// Nodes by name.
    pub nodes: Collection<Node>,
    /// Plugins by `NAMESPACE/NAME`.
    pub plugins: Collection<Plugin>,
    /// Texts that many objects have in common.
    pub interner: Interner,
    release: Option<Release>,
    release_asked: bool,
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The resource, plural.
    pub resource: &'static str,
    /// How many objects are known.
    pub objects: usize,
    /// Whether they are up to date.
    pub freshness: Freshness,
    /// How often the watch has failed.
    pub failures: u64,
}

impl Index {
    /// An index of `objects` alone; kinds that it does not hold are passed over.
    pub fn from_objects(objects: &[Value]) -> Result<Self, ObjectsError> {
        let mut index = Self::default();
        let mut found = read::Objects::default();
        for object in flatten(objects) {
            found.take(&mut index.interner, object)?;
        }
        index.namespaces.reset(found.namespaces);
        index.nodes.reset(found.nodes);
        index.plugins.reset(found.plugins);
        index.release_asked = true;
        Ok(index)
    }

    /// Notes what the server says of its release; where it could not tell, what it said last stays.
    pub fn set_release(&mut self, release: Option<Release>) {
        self.release = release.or(self.release);
        self.release_asked = true;
    }

    /// Whether namespaces were listed, and everything else was or could not be.
    ///
    /// Namespaces are asked of the API server at every request otherwise, so they are waited for however long it takes;
    /// a server that may not see nodes still decides, and says what it does not know.
    pub fn settled(&self) -> bool {
        matches!(self.namespaces.freshness(), Freshness::Current | Freshness::Stale)
            && self.nodes.freshness() != Freshness::Pending
            && self.plugins.freshness() != Freshness::Pending
            && self.release_asked
    }

    /// The state of each watch.
    pub fn status(&self) -> Vec<Status> {
        vec![
            self.namespaces.status("namespaces"),
            self.nodes.status("nodes"),
            self.plugins.status("daemonsets"),
        ]
    }

    /// What the decision asks of the cluster.
    pub fn facts(&mut self) -> Facts {
        Facts {
            release: self.release,
            namespaces_stale: self.namespaces.trouble(),
            // Each only ever grows, so the sum is new whenever one of them is.
            generation: self.nodes.generation() + self.plugins.generation(),
            nodes: self.nodes.known(),
            plugins: self.plugins.known(),
        }
    }
}

#[cfg(test)]
mod tests;
