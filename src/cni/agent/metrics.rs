//! Metrics of the agent, in OpenMetrics; every label takes few values.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Everything that is measured.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    /// Whether a pod could be set up now.
    pub(super) ready: Gauge,
    /// Files that were written or removed.
    pub(super) writes: Counter,
    /// Files of others that were left alone when last looked at.
    pub(super) problems: Gauge,
    /// When the credentials end, in seconds since 1970.
    pub(super) credentials_end: Gauge,
    /// Start-up taints that were removed.
    pub(super) taints: Counter,
    questions: Family<OutcomeLabels, Counter>,
    renewals: Family<OutcomeLabels, Counter>,
    repairs: Family<OutcomeLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut all = Self {
            registry: Registry::with_prefix("outrigger"),
            ready: Gauge::default(),
            writes: Counter::default(),
            problems: Gauge::default(),
            credentials_end: Gauge::default(),
            taints: Counter::default(),
            questions: Family::default(),
            renewals: Family::default(),
            repairs: Family::default(),
        };
        let registry = &mut all.registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This program", version);
        let registry = registry.sub_registry_with_prefix("cni");
        registry.register("ready", "Whether a pod could be set up now", all.ready.clone());
        registry.register("writes", "Files that were written or removed", all.writes.clone());
        let help = "Network configurations of others that cannot be used";
        registry.register("broken_configurations", help, all.problems.clone());
        let help = "When the credentials of the plugin end";
        let end = all.credentials_end.clone();
        registry.register_with_unit("credentials_expiry_timestamp", help, Unit::Seconds, end);
        registry.register(
            "taints_removed",
            "Start-up taints that were removed",
            all.taints.clone(),
        );
        registry.register("questions", "Questions of the plugin", all.questions.clone());
        registry.register("renewals", "Renewals of the credentials", all.renewals.clone());
        registry.register("repairs", "Pods that had no rules", all.repairs.clone());
        all
    }

    /// The metrics as text.
    pub(super) fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts a question of the plugin.
    pub(super) fn asked(&self, outcome: &'static str) {
        self.questions.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a renewal of the credentials.
    pub(super) fn renewed(&self, outcome: &'static str) {
        self.renewals.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a pod that had no rules.
    pub(super) fn repaired(&self, outcome: &'static str) {
        self.repairs.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
