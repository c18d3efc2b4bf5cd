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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Namespaces that are counted before anybody looks which of them are gone, where nobody asks for metrics.
const CROWD: usize = 256;

/// What was counted.
#[derive(Debug)]
pub(super) struct Linkerd {
    cluster: Arc<Cluster>,
    counted: Mutex<Counted>,
}

/// What was counted, by namespace.
#[derive(Debug)]
struct Counted {
    namespaces: BTreeMap<String, Counts>,
    /// As many as these and the gone ones among them are forgotten: twice what was left the last time, so that a new
    /// namespace does not cost a look at all others.
    crowd: usize,
}

/// What was counted in one namespace: a handful of series, of which a list takes the least memory.
#[derive(Debug)]
struct Counts {
    series: Vec<(Series, u64)>,
    /// Whether a namespace that the watch does not have is gone. One that it has never had may be new, for the watch may lag;
    /// when it is missing twice, it came and went between two looks.
    gone_if_missing: bool,
}

impl Linkerd {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            counted: Mutex::new(Counted {
                namespaces: BTreeMap::new(),
                crowd: CROWD,
            }),
        }
    }

    /// Counts a request, and its response where Linkerd counts one.
    pub(super) fn count(&self, request: &LinkerdRequest, skipped: Option<&str>) {
        let mut counted = self.counted();
        if counted.namespaces.len() >= counted.crowd && !counted.namespaces.contains_key(&request.namespace) {
            self.forget_deleted(&mut counted);
        }
        let counts = match counted.namespaces.get_mut(&request.namespace) {
            Some(counts) => counts,
            None => counted
                .namespaces
                .entry(request.namespace.clone())
                .or_insert_with(|| Counts {
                    series: Vec::new(),
                    gone_if_missing: self.exists(&request.namespace),
                }),
        };
        counts.increment(request, None);
        if skipped.is_some() {
            counts.increment(request, skipped);
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exists(&self, namespace: &str) -> bool {
        self.cluster.known_namespace(namespace).is_some()
    }

    fn forget_deleted(&self, counted: &mut Counted) {
        counted.namespaces.retain(|name, counts| {
            let exists = self.exists(name);
            let gone = counts.gone_if_missing && !exists;
            counts.gone_if_missing = true;
            !gone
        });
        counted.crowd = CROWD.max(2 * counted.namespaces.len());
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
        let mut counted = self.0.counted();
        self.0.forget_deleted(&mut counted);
        let all = || {
            counted.namespaces.iter().flat_map(|(name, counts)| {
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
        for name in ["shop", "shop", "gone"] {
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
        count("new");
        let after = series();
        assert!(!after.contains("\"gone\""), "{after}");
        assert!(after.contains("\"shop\""));
        assert!(after.contains("\"new\""), "the watch has not told of it yet");
        let after = series();
        assert!(!after.contains("\"new\""), "it came and went: {after}");
        assert!(after.contains("\"shop\""));
    }

    #[test]
    fn namespaces_that_come_and_go_are_forgotten_though_nobody_asks() {
        let cluster = Arc::new(Cluster::of_manifests(&[], None).unwrap());
        let linkerd = Linkerd::new(cluster);
        for number in 0..100_000 {
            let request = LinkerdRequest {
                owner_kind: "pod",
                namespace: format!("ci-{number}"),
                annotation_at: "",
            };
            linkerd.count(&request, Some(""));
            assert!(linkerd.counted().namespaces.len() <= 4 * CROWD);
        }
    }
}
