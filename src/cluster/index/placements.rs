//! Which nodes each placement that was asked for leads to: judged once, until a node or a plugin changes.

use super::Collection;
use crate::decide::Coverage;
use crate::decide::coverage::{Plugin, judge};
use crate::decide::native_sidecars::OldKubelets;
use crate::decide::placement::{self, Node, Placement};
use crate::pod::{Pod, list, text};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// Placements that are remembered. Pods of one workload share theirs, and most workloads have the empty one.
const REMEMBERED: usize = 1024;

/// What is remembered of a placement, which is as long as its author likes: a hash. Its secret is this process's own, so
/// that nobody can make two placements collide, and among so few none does by chance.
type Key = u64;

/// What is known of the nodes that a pod can land on.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// Where the CNI plugin is among them.
    pub(super) coverage: Arc<Coverage>,
    /// Those that have no native sidecars.
    pub(super) old_kubelets: Option<Arc<OldKubelets>>,
}

/// The same by placement.
#[derive(Debug, Default)]
pub(super) struct Placements {
    judged: HashMap<Key, Placed>,
    secret: RandomState,
    /// The generations of nodes and plugins that were judged.
    generations: (u64, u64),
}

impl Placements {
    pub(super) fn of(&mut self, pod: &Pod<'_>, nodes: &Collection<Node>, plugins: &Collection<Plugin>) -> Placed {
        let generations = (nodes.generation(), plugins.generation());
        if generations != self.generations || self.judged.len() >= REMEMBERED {
            self.judged.clear();
            self.generations = generations;
        }
        if let Some(name) = only_node(pod) {
            // Each pod of a DaemonSet has a placement of its own: not worth remembering, and only one node to look at.
            let node = nodes.get(name);
            return Placed::judge(pod, || node.as_deref().into_iter(), plugins);
        }
        let key = self.secret.hash_one(placement::source(pod));
        if let Some(known) = self.judged.get(&key) {
            return known.clone();
        }
        let placed = Placed::judge(pod, || nodes.iter(), plugins);
        self.judged.insert(key, placed.clone());
        placed
    }
}

impl Placed {
    fn judge<'n, N: Iterator<Item = &'n Node>>(
        pod: &Pod<'_>,
        nodes: impl Fn() -> N,
        plugins: &Collection<Plugin>,
    ) -> Self {
        let placement = Placement::of(pod);
        let plugins: Vec<Plugin> = plugins.iter().cloned().collect();
        Self {
            coverage: Arc::new(judge(&placement, nodes(), &plugins)),
            old_kubelets: OldKubelets::judge(&placement, nodes()).map(Arc::new),
        }
    }
}

/// The node that a pod is bound to, by name or as the DaemonSet controller does it, by the one term of its affinity.
fn only_node<'a>(pod: &Pod<'a>) -> Option<&'a str> {
    let spec = pod.spec();
    if let Some(name) = text(spec, "nodeName").filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let term = only(list(pod.required_node_affinity()?, "nodeSelectorTerms"))?;
    let mut fields = list(term, "matchFields");
    let field =
        fields.find(|field| text(field, "key") == Some("metadata.name") && text(field, "operator") == Some("In"))?;
    only(list(field, "values"))?.as_str()
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}
