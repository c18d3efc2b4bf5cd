//! Metrics, in OpenMetrics. Every label takes few values, but for `namespace` of Linkerd's two counters: dashboards ask for
//! it, and only namespaces that exist are counted.

mod certificate;
mod linkerd;
mod probe;

pub use certificate::Certificates;
pub use linkerd::LinkerdRequest;

use crate::cluster::events::{Counts, Events};
use crate::cluster::index::Freshness;
use crate::cluster::{self, Cluster};
use linkerd::{Counters, Linkerd};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Everything that is measured.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests and their answers.
    pub admission: Admission,
    /// Connections to the webhook's port.
    pub connections: Connections,
    /// Files that are reloaded.
    pub reloads: Reloads,
    /// The certificate as API servers see it.
    pub certificate: Certificates,
    linkerd: Arc<Linkerd>,
}

/// Requests and their answers.
#[derive(Debug)]
pub struct Admission {
    answers: Family<AnswerLabels, Counter>,
    duration: Histogram,
    refused: Family<RefusalLabels, Counter>,
    contradictions: Counter,
    /// Requests that are being answered.
    pub in_flight: Gauge,
}

/// Connections to the webhook's port.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// Those accepted so far.
    pub accepted: Counter,
    /// Those open now.
    pub open: Gauge,
    failed: Family<FailureLabels, Counter>,
}

/// Files that are reloaded.
#[derive(Clone, Debug, Default)]
pub struct Reloads {
    done: Family<ReloadLabels, Counter>,
    failing: Family<FilesLabels, Gauge>,
    /// When the certificate in use ends, in seconds since 1970.
    pub certificate_end: Gauge,
}

/// Labels of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabels {
    /// The code of the decision.
    pub decision: &'static str,
    /// `init-container`, `cni` or `none`.
    pub redirection: &'static str,
    /// The Pod Security level that the namespace enforces.
    pub level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FilesLabels {
    files: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    files: &'static str,
    outcome: &'static str,
}

impl Metrics {
    /// All metrics, those of `cluster` and `events` among them.
    pub fn new(cluster: Arc<Cluster>, events: Events) -> Self {
        let mut registry = Registry::default();
        let linkerd = Arc::new(Linkerd::new(Arc::clone(&cluster)));
        registry.register_collector(Box::new(Counters(Arc::clone(&linkerd))));
        let ours = registry.sub_registry_with_prefix("outrigger");
        ours.register(
            "build",
            "This program",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let admission = Admission::register(ours);
        let connections = Connections::register(ours);
        let reloads = Reloads::register(ours);
        let certificate = Certificates::register(ours);
        ours.register_collector(Box::new(probe::Findings(Arc::clone(&cluster))));
        ours.register_collector(Box::new(Watches(cluster)));
        ours.register_collector(Box::new(Published(events)));
        Self {
            registry,
            admission,
            connections,
            reloads,
            certificate,
            linkerd,
        }
    }

    /// The metrics as text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts a request as Linkerd does, and its answer where Linkerd counts one: `skipped` is empty for an answer that
    /// changes the object, and holds the reasons for leaving it alone otherwise.
    pub fn count_as_linkerd(&self, request: &LinkerdRequest, skipped: Option<&str>) {
        self.linkerd.count(request, skipped);
    }
}

impl Admission {
    fn register(registry: &mut Registry) -> Self {
        let all = Self {
            answers: Family::default(),
            // 50 µs to 1.6 s: an answer from warm caches takes a few hundred microseconds.
            duration: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            refused: Family::default(),
            contradictions: Counter::default(),
            in_flight: Gauge::default(),
        };
        registry.register("admission_answers", "Reviews that were answered", all.answers.clone());
        let help = "Time from the head of a request to its answer";
        registry.register_with_unit("admission_duration", help, Unit::Seconds, all.duration.clone());
        registry.register(
            "admission_refused",
            "Requests that were no review, or not answered",
            all.refused.clone(),
        );
        registry.register(
            "probe_contradictions",
            "Pods for which a dry run contradicts what is configured",
            all.contradictions.clone(),
        );
        registry.register(
            "admission_in_flight",
            "Requests that are being answered",
            all.in_flight.clone(),
        );
        all
    }

    /// Counts an answer that took `seconds`.
    pub fn answered(&self, labels: &AnswerLabels, seconds: f64) {
        self.answers.get_or_create(labels).inc();
        self.duration.observe(seconds);
    }

    /// Counts a pod for which a dry run contradicts what is configured.
    pub fn contradicted(&self) {
        self.contradictions.inc();
    }

    /// Counts a request that got an error.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }
}

impl Connections {
    fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("connections", "Connections that were accepted", all.accepted.clone());
        registry.register("connections_open", "Connections that are open", all.open.clone());
        registry.register(
            "connections_failed",
            "Connections that ended in an error",
            all.failed.clone(),
        );
        all
    }

    /// Counts a connection that ended in an error.
    pub fn failed(&self, reason: &'static str) {
        self.failed.get_or_create(&FailureLabels { reason }).inc();
    }
}

impl Reloads {
    fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("reloads", "Changed files that were read again", all.done.clone());
        let help = "Whether files have changed into something that cannot be used";
        registry.register("reload_failing", help, all.failing.clone());
        let help = "When the certificate in use ends";
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            help,
            Unit::Seconds,
            all.certificate_end.clone(),
        );
        all
    }

    /// Counts that `files` changed, and whether their content is in use now.
    pub fn count(&self, files: &'static str, usable: bool) {
        let outcome = if usable { "used" } else { "failed" };
        self.done.get_or_create(&ReloadLabels { files, outcome }).inc();
        self.failing
            .get_or_create(&FilesLabels { files })
            .set(i64::from(!usable));
    }
}

/// Something that is counted for as long as it lasts, however it ends.
#[derive(Debug)]
pub struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    /// Counts it in `gauge`.
    pub fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The state of the watches, read when it is asked for.
#[derive(Debug)]
struct Watches(Arc<Cluster>);

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.0.status();
        let label = |status: &cluster::index::Status| [("resource", status.resource)];
        let mut objects =
            encoder.encode_descriptor("watch_objects", "Objects that are known", None, MetricType::Gauge)?;
        for status in &status {
            let count = i64::try_from(status.objects).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(objects.encode_family(&label(status))?)?;
        }
        let help = "Whether objects are unknown or out of date, because their watch fails";
        let mut failing = encoder.encode_descriptor("watch_failing", help, None, MetricType::Gauge)?;
        for status in &status {
            let stale = i64::from(status.freshness != Freshness::Current);
            ConstGauge::new(stale).encode(failing.encode_family(&label(status))?)?;
        }
        let help = "Errors of watches";
        let mut failures = encoder.encode_descriptor("watch_failures", help, None, MetricType::Counter)?;
        for status in &status {
            ConstCounter::new(status.failures).encode(failures.encode_family(&label(status))?)?;
        }
        Ok(())
    }
}

/// What became of events, read when it is asked for.
#[derive(Debug)]
struct Published(Events);

impl Collector for Published {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Counts { sent, failed, dropped } = self.0.counts();
        let mut events = encoder.encode_descriptor("events", "Events on owners of pods", None, MetricType::Counter)?;
        let outcomes: [(_, &AtomicU64); 3] = [("sent", sent), ("failed", failed), ("dropped", dropped)];
        for (outcome, count) in outcomes {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            count.encode(events.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}
