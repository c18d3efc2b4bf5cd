//! Which nodes each placement that was asked for leads to: judged once, until a node or a plugin changes.

use super::Collection;
use crate::decide::Coverage;
use crate::decide::coverage::{Plugin, judge};
use crate::decide::native_sidecars::OldKubelets;
use crate::decide::placement::{self, Node, Placement};
use crate::pod::{Pod, list, text};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// Placements that are remembered. Pods of one workload share theirs, and most workloads have the empty one.
const REMEMBERED: usize = 1024;

/// What is remembered of a placement, which is as long as its author likes: a digest (SHA-256).
type Key = [u8; 32];

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
        // Values have a JSON form, all of them: what is equal there is equal.
        let source = serde_json::to_vec(&placement::source(pod)).unwrap_or_default();
        let key = Sha256::digest(source).into();
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
