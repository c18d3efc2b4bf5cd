//! The index: a plain structure, fed by watches or manifests, that never asks anything itself.

mod collection;
mod compiler;
mod placements;
mod plugin_pods;
mod read;
mod sources;

pub use collection::{Collection, Freshness};
pub(super) use compiler::Compiler;
pub use plugin_pods::{PluginPlace, PluginPod, PluginPods};
pub(super) use plugin_pods::{PodSpec, PodStatus, plugin_pod};
pub use read::ObjectsError;
pub(super) use read::{
    Kept, NodeSpec, NodeStatus, binding, findings, flatten, limits, namespace, node, plugin, policy, role,
};
pub use sources::{Served, Sources};

use super::facts::{Facts, Findings, Namespace};
use crate::decide::coverage::Plugin;
use crate::decide::placement::Node;
use crate::pod::Pod;
use crate::policy::installed::Source;
use crate::policy::pod_security::{Configuration, Server};
use crate::policy::probe::{CONFIG_MAP, Report, Standing};
use crate::policy::{Installed, Release};
use k8s_openapi::jiff::Timestamp;
use placements::Placements;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Everything that watches have told.
#[derive(Debug, Default)]
pub struct Index {
    /// Namespaces by name.
    pub namespaces: Collection<Namespace>,
    /// Nodes by name.
    pub nodes: Collection<Node>,
    /// Each DaemonSet that says that it is of the CNI plugin, by `NAMESPACE/NAME`.
    pub plugins: Collection<Plugin>,
    /// Those of them that are believed: listed once namespaces are known as well.
    believed: Collection<Plugin>,
    /// Why the others are not.
    disbelieved: BTreeMap<Arc<str>, String>,
    /// What Pod Security does where no label says so.
    pod_security: Configuration,
    /// The pods of these.
    pub plugin_pods: PluginPods,
    /// The nodes where they have been failing for long, by name: listed once all of these have been, or could not be.
    failing: Collection<()>,
    /// What policies are compiled from.
    pub sources: Sources,
    /// What a probe found out: the ConfigMap of that name, where there is one.
    pub findings: Collection<Report>,
    /// Whether somebody listens for that.
    listens_to_probe: bool,
    /// What was compiled last.
    installed: Arc<Installed>,
    /// Whether that was compiled from all that there was.
    compiled: bool,
    placements: Placements,
    server: Option<Server>,
    /// Whether nobody can tell the server's release.
    untold: bool,
}

/// A list that tells where the CNI plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeList {
    /// Nodes.
    Nodes,
    /// The `DaemonSets` that put the plugin on them.
    Plugins,
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

/// Linux nodes by what the CNI plugin does there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CniReach {
    /// Those that a plugin is meant for, and has not been failing on for long.
    pub covered: usize,
    /// Those that it is meant for and has been failing on for long.
    pub failing: usize,
    /// Those that none is meant for.
    pub uncovered: usize,
}

impl Index {
    /// An index of `objects` alone, judged by `server`; kinds that it does not hold are passed over.
    pub fn from_objects<'o>(
        objects: impl IntoIterator<Item = &'o Value>,
        server: Option<Server>,
    ) -> Result<Self, ObjectsError> {
        let mut found = read::Objects::default();
        for object in flatten(objects) {
            found.take(object)?;
        }
        let mut index = Self {
            sources: found.sources,
            untold: true,
            ..Self::default()
        };
        index.namespaces.reset(found.namespaces);
        index.nodes.reset(found.nodes);
        index.plugins.reset(found.plugins);
        index.findings.reset(found.findings);
        for (place, name, pod) in found.plugin_pods {
            let pods = index.plugin_pods.at(&place);
            pods.apply(name, pod);
            pods.seal();
        }
        let places: Vec<_> = index.plugins.iter().map(PluginPlace::of).collect();
        // There are no more pods than these.
        for place in &places {
            index.plugin_pods.at(place).seal();
        }
        index.look_after_plugins(Timestamp::now());
        index.sources.complete();
        index.set_server(server);
        index.compile();
        Ok(index)
    }

    /// Notes that what a probe finds out is to come.
    pub(super) fn listen_to_probe(&mut self) {
        self.listens_to_probe = true;
    }

    /// What policies are compiled from, and for which release: as they are now, for whoever has the time.
    pub fn snapshot(&self) -> (Sources, Option<Release>) {
        (self.sources.clone(), self.server.map(|server| server.release))
    }

    /// Takes what was compiled of `sources`.
    pub fn install(&mut self, installed: Installed, sources: &Sources) {
        self.installed = Arc::new(installed);
        self.compiled |= sources.are_heard();
    }

    /// Notes that the objects of `source` cannot be told.
    pub(super) fn withhold(&mut self, source: Source, why: Arc<str>) {
        self.sources.withhold(source, why);
        self.compile();
    }

    /// Notes that a list that tells where the CNI plugin is cannot be seen.
    pub(super) fn withhold_nodes(&mut self, list: NodeList, why: Arc<str>) {
        match list {
            NodeList::Nodes => self.nodes.withhold(why),
            NodeList::Plugins => self.plugins.withhold(why),
        }
        self.look_after_plugins(Timestamp::now());
    }

    /// What was compiled last.
    pub fn installed(&self) -> &Arc<Installed> {
        &self.installed
    }

    /// Compiles policies at once.
    pub(super) fn compile(&mut self) {
        let (sources, release) = self.snapshot();
        self.install(Compiler::default().compile(&sources, release), &sources);
    }

    /// Notes what the server says of its release; where it could not tell, what it said last stays.
    pub fn set_server(&mut self, server: Option<Server>) {
        self.server = server.or(self.server);
    }

    /// Notes which `DaemonSets` are believed to be of the plugin and where it has been failing for long at `now`, and says
    /// where it has its pods; those elsewhere are forgotten.
    pub fn look_after_plugins(&mut self, now: Timestamp) -> BTreeSet<PluginPlace> {
        self.believe();
        let places: BTreeSet<_> = self.believed.iter().map(PluginPlace::of).collect();
        self.plugin_pods.retain(&places);
        let failing = self.plugin_pods.failing(&self.nodes, now);
        let are_heard = self.believed.is_listed() && places.iter().all(|place| self.plugin_pods.are_heard(place));
        // A plugin that comes later keeps nobody waiting.
        if are_heard || self.failing.is_listed() {
            self.failing.reset(failing);
        }
        places
    }

    /// What Pod Security does where no label says so, from now on.
    pub(super) fn set_pod_security(&mut self, configuration: &Configuration) {
        self.pod_security.clone_from(configuration);
        self.look_after_plugins(Timestamp::now());
    }

    /// The `DaemonSets` that say that they are of the plugin and are not believed, and why not.
    pub fn disbelieved(&self) -> &BTreeMap<Arc<str>, String> {
        &self.disbelieved
    }

    fn believe(&mut self) {
        let are_heard = |freshness| freshness != Freshness::Pending;
        if !are_heard(self.plugins.freshness()) || !are_heard(self.namespaces.freshness()) {
            return;
        }
        let server = self.server.unwrap_or_else(|| Release::NEWEST.into());
        let (mut believed, mut disbelieved) = (Vec::new(), BTreeMap::new());
        for (name, plugin) in self.plugins.named() {
            let namespace = self.namespaces.get(plugin.namespace());
            let labels = namespace.as_ref().map(|namespace| &namespace.labels);
            match plugin.objection(labels, &self.pod_security, server) {
                Some(why) => drop(disbelieved.insert(name.into(), why)),
                None => believed.push((name.into(), plugin.clone())),
            }
        }
        self.believed.reset(believed);
        self.disbelieved = disbelieved;
    }

    /// Whether namespaces were listed and the server has told its release, and everything else was listed or could not be,
    /// policies are compiled, and it is known where the plugin has been failing.
    ///
    /// Namespaces are asked of the API server at every request otherwise, and a wrong release means wrong verdicts, so both
    /// are waited for however long it takes; a server that may not see nodes still decides, and says what it does not know.
    pub fn settled(&self) -> bool {
        matches!(self.namespaces.freshness(), Freshness::Current | Freshness::Stale)
            && self.nodes.freshness() != Freshness::Pending
            && self.failing.is_listed()
            && !(self.listens_to_probe && self.findings.freshness() == Freshness::Pending)
            && (self.server.is_some() || self.untold)
            && self.compiled
    }

    /// The state of each watch.
    pub fn status(&self) -> Vec<Status> {
        let mut all = vec![
            self.namespaces.status("namespaces"),
            self.nodes.status("nodes"),
            self.plugins.status("daemonsets"),
        ];
        all.extend(self.sources.status());
        all.extend(self.listens_to_probe.then(|| self.findings.status("configmaps")));
        all.extend(self.plugin_pods.status());
        all
    }

    /// Where the CNI plugin is; nothing where nodes or plugins cannot be read.
    pub fn cni_reach(&self) -> Option<CniReach> {
        if !self.nodes.is_listed() || !self.believed.is_listed() {
            return None;
        }
        let mut reach = CniReach::default();
        for node in self.nodes.iter().filter(|node| !node.is_windows()) {
            let is_meant = self.believed.iter().any(|plugin| plugin.covers(node));
            *match (is_meant, self.failing.contains(&node.name)) {
                (false, _) => &mut reach.uncovered,
                (true, true) => &mut reach.failing,
                (true, false) => &mut reach.covered,
            } += 1;
        }
        Some(reach)
    }

    /// How much a probe tells at `now`, counted from 1970; nothing where none reports.
    pub fn probe_standing(&self, now: Duration) -> Option<Standing> {
        Some(self.findings.get(CONFIG_MAP)?.standing(now))
    }

    /// What the decision asks of the cluster for `pod`.
    pub fn facts(&mut self, pod: &Pod<'_>) -> Facts {
        let placed = self
            .nodes
            .is_listed()
            .then(|| self.placements.of(pod, &self.nodes, &self.believed, &self.failing));
        let troubles = [
            ("namespaces", self.namespaces.trouble()),
            ("nodes", self.nodes.trouble()),
            ("daemonsets", self.plugins.trouble()),
        ];
        Facts {
            server: self.server,
            coverage: placed
                .as_ref()
                .filter(|_| self.plugins.is_listed() && self.believed.is_listed())
                .map(|placed| Arc::clone(&placed.coverage)),
            old_kubelets: placed.and_then(|placed| placed.old_kubelets),
            policies: Arc::clone(&self.installed),
            foreign_plugin: self.believed.iter().any(|plugin| !plugin.ours),
            troubles: troubles
                .into_iter()
                .filter_map(|(resource, why)| Some((resource, why?)))
                .collect(),
            findings: Findings {
                report: self.findings.get(CONFIG_MAP),
                trouble: self.findings.trouble(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
