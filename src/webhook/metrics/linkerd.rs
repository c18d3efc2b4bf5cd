//! Linkerd's two counters, under its names, for as long as a namespace exists.
//!
//! Of their labels those that copy the pod's annotations are left out: they hold whatever people write.

use crate::cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Labels of Linkerd's counter of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkerdRequest {
    /// The owner's kind in lower case; empty for kinds that Linkerd does not know.
    pub owner_kind: &'static str,
    /// The namespace of the request; it must exist.
    pub namespace: String,
    /// Where injection was asked for or forbidden: `namespace`, `workload` or empty.
    pub annotation_at: &'static str,
}

/// What the series of one namespace differ in; the counter of requests has no `skipped`.
#[derive(Debug, PartialEq, Eq)]
struct Series {
    owner_kind: &'static str,
    annotation_at: &'static str,
    /// Why the object was left alone; empty where it was not.
    skipped: Option<Box<str>>,
}

/// What was counted, by namespace.
#[derive(Debug)]
pub(super) struct Linkerd {
    cluster: Arc<Cluster>,
    namespaces: Mutex<BTreeMap<String, Counts>>,
}

/// What was counted in one namespace: a handful of series, of which a list takes the least memory.
#[derive(Debug, Default)]
struct Counts {
    series: Vec<(Series, u64)>,
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
        let counts = match namespaces.get_mut(&request.namespace) {
            Some(counts) => counts,
            None => namespaces.entry(request.namespace.clone()).or_default(),
        };
        counts.increment(request, None);
        if skipped.is_some() {
            counts.increment(request, skipped);
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

impl Counts {
    fn increment(&mut self, request: &LinkerdRequest, skipped: Option<&str>) {
        let known = self.series.iter_mut().find(|(series, _)| {
            series.skipped.as_deref() == skipped
                && (series.owner_kind, series.annotation_at) == (request.owner_kind, request.annotation_at)
        });
        if let Some((_, count)) = known {
            *count += 1;
            return;
        }
        let series = Series {
            owner_kind: request.owner_kind,
            annotation_at: request.annotation_at,
            skipped: skipped.map(Box::from),
        };
        self.series.reserve_exact(1);
        self.series.push((series, 1));
    }
}

/// Linkerd's counters as they are collected.
#[derive(Debug)]
pub(super) struct Counters(pub(super) Arc<Linkerd>);

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut namespaces = self.0.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.forget_deleted(&mut namespaces);
        let all = || {
            namespaces.iter().flat_map(|(name, counts)| {
                counts
                    .series
                    .iter()
                    .map(move |(series, count)| (&**name, series, *count))
            })
        };
        let requests = all().filter(|(_, series, _)| series.skipped.is_none());
        let requests = requests.map(|(namespace, series, count)| {
            let labels = [
                ("owner_kind", series.owner_kind),
                ("namespace", namespace),
                ("annotation_at", series.annotation_at),
            ];
            (labels, count)
        });
        let help = "A counter for number of admission requests to proxy injector";
        write(&mut encoder, ("proxy_inject_admission_requests", help), requests)?;
        let responses = all().filter_map(|(namespace, series, count)| {
            let skipped = series.skipped.as_deref()?;
            let labels = [
                ("owner_kind", series.owner_kind),
                ("namespace", namespace),
                ("skip", if skipped.is_empty() { "false" } else { "true" }),
                ("skip_reason", skipped),
                ("annotation_at", series.annotation_at),
            ];
            Some((labels, count))
        });
        let help = "A counter for number of admission responses from proxy injector";
        write(&mut encoder, ("proxy_inject_admission_responses", help), responses)
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = (impl EncodeLabelSet, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in series {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
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
