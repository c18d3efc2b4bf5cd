//! The index: a plain structure, fed by watches or manifests, that never asks anything itself.

mod collection;
mod coverages;
mod read;

pub use collection::{Collection, Freshness};
pub use read::ObjectsError;
pub(super) use read::{Kept, NodeSpec, flatten, namespace, node, plugin};

use super::facts::{Facts, Namespace};
use crate::decide::coverage::Plugin;
use crate::decide::placement::Node;
use crate::pod::Pod;
use crate::policy::pod_security::Server;
use coverages::Coverages;
use serde_json::Value;

/// Everything that watches have told.
#[derive(Debug, Default)]
pub struct Index {
    /// Namespaces by name.
    pub namespaces: Collection<Namespace>,
    /// Nodes by name.
    pub nodes: Collection<Node>,
    /// Each DaemonSet of the CNI plugin, by `NAMESPACE/NAME`.
    pub plugins: Collection<Plugin>,
    coverages: Coverages,
    server: Option<Server>,
    /// Whether nobody can tell the server's release.
    untold: bool,
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
        let mut found = read::Objects::default();
        for object in flatten(objects) {
            found.take(object)?;
        }
        let mut index = Self::default();
        index.namespaces.reset(found.namespaces);
        index.nodes.reset(found.nodes);
        index.plugins.reset(found.plugins);
        index.untold = true;
        Ok(index)
    }

    /// Notes what the server says of its release; where it could not tell, what it said last stays.
    pub fn set_server(&mut self, server: Option<Server>) {
        self.server = server.or(self.server);
    }

    /// Whether namespaces were listed and the server has told its release, and everything else was listed or could not be.
    ///
    /// Namespaces are asked of the API server at every request otherwise, and a wrong release means wrong verdicts, so both
    /// are waited for however long it takes; a server that may not see nodes still decides, and says what it does not know.
    pub fn settled(&self) -> bool {
        matches!(self.namespaces.freshness(), Freshness::Current | Freshness::Stale)
            && self.nodes.freshness() != Freshness::Pending
            && self.plugins.freshness() != Freshness::Pending
            && (self.server.is_some() || self.untold)
    }

    /// The state of each watch.
    pub fn status(&self) -> Vec<Status> {
        vec![
            self.namespaces.status("namespaces"),
            self.nodes.status("nodes"),
            self.plugins.status("daemonsets"),
        ]
    }

    /// What the decision asks of the cluster for `pod`.
    pub fn facts(&mut self, pod: &Pod<'_>) -> Facts {
        let listed = self.nodes.is_listed() && self.plugins.is_listed();
        let troubles = [
            ("namespaces", self.namespaces.trouble()),
            ("nodes", self.nodes.trouble()),
            ("daemonsets", self.plugins.trouble()),
        ];
        Facts {
            server: self.server,
            coverage: listed.then(|| self.coverages.of(pod, &self.nodes, &self.plugins)),
            policies: std::sync::Arc::default(),
            foreign_plugin: self.plugins.iter().any(|plugin| !plugin.ours),
            troubles: troubles
                .into_iter()
                .filter_map(|(resource, why)| Some((resource, why?)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
