//! Linkerd's two counters, under its names, for as long as a namespace exists.
//!
//! Of their labels those that copy the pod's annotations are left out: they hold whatever people write.

use crate::cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Labels of Linkerd's counter of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LinkerdRequest {
    /// The owner's kind in lower case; empty for kinds that Linkerd does not know.
    pub owner_kind: &'static str,
    /// The namespace of the request; it must exist.
    pub namespace: String,
    /// Where injection was asked for or forbidden: `namespace`, `workload` or empty.
    pub annotation_at: &'static str,
}

/// Labels of Linkerd's counter of responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LinkerdResponse {
    owner_kind: &'static str,
    namespace: String,
    skip: bool,
    skip_reason: String,
    annotation_at: &'static str,
}

/// What was counted, by namespace.
#[derive(Debug)]
pub(super) struct Linkerd {
    cluster: Arc<Cluster>,
    namespaces: Mutex<BTreeMap<String, Counts>>,
}

/// What was counted in one namespace.
#[derive(Debug, Default)]
struct Counts {
    requests: HashMap<LinkerdRequest, u64>,
    responses: HashMap<LinkerdResponse, u64>,
    /// Whether the watch has told of the namespace. Until then it may lag; from then on it tells when the namespace goes.
    watched: bool,
}

impl Linkerd {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            namespaces: Mutex::default(),
        }
    }

    /// Counts a request, and its response where Linkerd counts one.
    pub(super) fn count(&self, request: &LinkerdRequest, skipped: Option<&str>) {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains_key(&request.namespace) {
            self.forget_deleted(&mut namespaces);
        }
        let counts = namespaces.entry(request.namespace.clone()).or_default();
        *counts.requests.entry(request.clone()).or_default() += 1;
        if let Some(reasons) = skipped {
            let response = LinkerdResponse {
                owner_kind: request.owner_kind,
                namespace: request.namespace.clone(),
                skip: !reasons.is_empty(),
                skip_reason: reasons.to_owned(),
                annotation_at: request.annotation_at,
            };
            *counts.responses.entry(response).or_default() += 1;
        }
    }

    fn forget_deleted(&self, namespaces: &mut BTreeMap<String, Counts>) {
        namespaces.retain(|name, counts| {
            let exists = self.cluster.known_namespace(name).is_some();
            let deleted = counts.watched && !exists;
            counts.watched = exists;
            !deleted
        });
    }
}

/// Linkerd's counters as they are collected.
#[derive(Debug)]
pub(super) struct Counters(pub(super) Arc<Linkerd>);

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut namespaces = self.0.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.forget_deleted(&mut namespaces);
        let requests = namespaces.values().flat_map(|counts| &counts.requests);
        let help = "A counter for number of admission requests to proxy injector";
        write(&mut encoder, ("proxy_inject_admission_requests", help), requests)?;
        let responses = namespaces.values().flat_map(|counts| &counts.responses);
        let help = "A counter for number of admission responses from proxy injector";
        write(&mut encoder, ("proxy_inject_admission_responses", help), responses)
    }
}

fn write<'a, L: EncodeLabelSet + 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = (&'a L, &'a u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in series {
        ConstCounter::new(*count).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    #[test]
    fn the_series_of_a_deleted_namespace_go_with_it() {
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let objects = ["shop", "gone"].map(namespace);
        let cluster = Arc::new(Cluster::of_manifests(&objects, None).unwrap());
        let linkerd = Arc::new(Linkerd::new(Arc::clone(&cluster)));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Counters(Arc::clone(&linkerd))));
        let count = |name: &str| {
            let request = LinkerdRequest {
                owner_kind: "pod",
                namespace: name.to_owned(),
                annotation_at: "",
            };
            linkerd.count(&request, Some("windows_pod"));
        };
        let series = || {
            let mut all = String::new();
            text::encode(&mut all, &registry).unwrap();
            all
        };
        for name in ["shop", "shop", "gone", "new"] {
            count(name);
        }
        let before = series();
        for line in [
            "proxy_inject_admission_requests_total{owner_kind=\"pod\",namespace=\"shop\",annotation_at=\"\"} 2",
            "proxy_inject_admission_responses_total{owner_kind=\"pod\",namespace=\"shop\",skip=\"true\",skip_reason=\"windows_pod\",annotation_at=\"\"} 2",
        ] {
            assert!(before.lines().any(|found| found == line), "{before}");
        }
        assert!(before.contains("\"gone\""));
        cluster.index().namespaces.delete("gone");
        let after = series();
        assert!(!after.contains("\"gone\""), "{after}");
        assert!(after.contains("\"shop\""));
        assert!(after.contains("\"new\""), "the watch has not told of it yet");
        assert_eq!(linkerd.namespaces.lock().unwrap().len(), 2);
    }
}
