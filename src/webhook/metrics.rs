//! Metrics, in OpenMetrics. Every label takes few values, but for `namespace` of Linkerd's two counters: dashboards ask for
//! it, and only namespaces that exist are counted.

mod admission;
mod certificate;
mod linkerd;
mod nodes;
mod probe;

pub use admission::{Admission, AnswerLabels};
pub use certificate::Certificates;
pub use linkerd::LinkerdRequest;

use crate::cluster::events::{Counts, Events};
use crate::cluster::index::Freshness;
use crate::cluster::{self, Cluster};
use crate::webhook::certificate::Validity;
use linkerd::{Counters, Linkerd};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
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
    certificate_start: Gauge,
    certificate_end: Gauge,
    /// When the first of the trust anchors in use ends, in seconds since 1970; 0 where there is none to be read.
    pub trust_anchors_end: Gauge,
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
        ours.register_collector(Box::new(nodes::Nodes(Arc::clone(&cluster))));
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

impl Connections {
    pub(crate) fn register(registry: &mut Registry) -> Self {
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
    /// Of whom has no certificate.
    pub(crate) fn register_files(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("reloads", "Changed files that were read again", all.done.clone());
        let help = "Whether files have changed into something that cannot be used";
        registry.register("reload_failing", help, all.failing.clone());
        all
    }

    fn register(registry: &mut Registry) -> Self {
        let all = Self::register_files(registry);
        let times = [
            (
                "certificate_start_timestamp",
                "When the certificate in use began",
                &all.certificate_start,
            ),
            (
                "certificate_expiry_timestamp",
                "When the certificate in use ends",
                &all.certificate_end,
            ),
            (
                "trust_anchors_expiry_timestamp",
                "When the first of the trust anchors in use ends, 0 where there are none",
                &all.trust_anchors_end,
            ),
        ];
        for (name, help, gauge) in times {
            registry.register_with_unit(name, help, Unit::Seconds, gauge.clone());
        }
        all
    }

    /// Notes for how long the certificate in use is good.
    pub fn certificate(&self, validity: Validity) {
        self.certificate_start.set(validity.not_before);
        self.certificate_end.set(validity.not_after);
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
