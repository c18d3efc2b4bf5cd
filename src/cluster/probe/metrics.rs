//! Metrics of the probe, in OpenMetrics; every label takes few values.

use crate::cluster::metrics::{self, Failing};
use crate::policy::probe::{Answer, Finding};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

/// Everything that is measured.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    dry_runs: Family<AnswerLabels, Counter>,
    namespaces: Gauge,
    findings: Family<FindingLabels, Gauge>,
    publications: Family<OutcomeLabels, Counter>,
    published: Gauge,
    left_out: Gauge,
    failing: Failing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    answer: &'static str,
    by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut all = Self {
            registry: metrics::registry(),
            dry_runs: Family::default(),
            namespaces: Gauge::default(),
            findings: Family::default(),
            publications: Family::default(),
            published: Gauge::default(),
            left_out: Gauge::default(),
            failing: Failing::default(),
        };
        let registry = all.registry.sub_registry_with_prefix("probe");
        registry.register("dry_runs", "Dry runs by what came of them", all.dry_runs.clone());
        registry.register("namespaces", "Namespaces that are asked about", all.namespaces.clone());
        let help = "Namespaces by whether something was found out";
        registry.register("findings", help, all.findings.clone());
        let help = "Attempts to write what was found out";
        registry.register("publications", help, all.publications.clone());
        let help = "When what was found out was written last";
        registry.register_with_unit("published_timestamp", help, Unit::Seconds, all.published.clone());
        let help = "Namespaces whose findings have no room in the ConfigMap";
        registry.register("left_out", help, all.left_out.clone());
        let help = "Whether a resource cannot be watched, so that its changes are noticed late";
        registry.register("watch_failing", help, all.failing.gauges());
        all
    }

    /// The metrics as text.
    pub(super) fn encode(&self) -> Result<String, fmt::Error> {
        metrics::encode(&self.registry)
    }

    /// Counts a dry run.
    pub(super) fn count(&self, answer: &Answer) {
        let by = match answer {
            Answer::Admitted => "",
            Answer::Refused(refusal) => refusal.by.kind(),
            Answer::Unknown(doubt) => doubt.cause.word(),
        };
        let answer = answer.word();
        self.dry_runs.get_or_create(&AnswerLabels { answer, by }).inc();
    }

    /// Notes how much is known now.
    pub(super) fn note(&self, namespaces: usize, findings: &BTreeMap<String, Finding>) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.namespaces.set(number(namespaces));
        let unknown = findings.values().filter(|finding| finding.doubt().is_some()).count();
        let missing = namespaces.saturating_sub(findings.len());
        for (state, count) in [
            ("usable", findings.len() - unknown),
            ("unknown", unknown),
            ("missing", missing),
        ] {
            self.findings.get_or_create(&FindingLabels { state }).set(number(count));
        }
    }

    /// Counts an attempt to write what was found out.
    pub(super) fn published(&self, done: bool) {
        let outcome = if done { "done" } else { "failed" };
        self.publications.get_or_create(&OutcomeLabels { outcome }).inc();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        if let (true, Ok(now)) = (done, now) {
            self.published.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        }
    }

    /// Notes for how many namespaces there was no room.
    pub(super) fn left_out(&self, count: usize) {
        self.left_out.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Notes whether the watch of `resource` stands.
    pub(super) fn watch(&self, resource: &'static str, stands: bool) {
        self.failing.note(resource, stands);
    }
}
