//! Metrics of the controller, in OpenMetrics; every label takes few values.

use super::plan::Plan;
use super::write::Fault;
use crate::cluster::metrics::{self, Failing};
use crate::egress::compile::hindrance::Hindrance;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// Everything that is measured.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    leading: Gauge,
    passes: Counter,
    policies: Family<PolicyLabels, Gauge>,
    objects: Gauge,
    hindered: Family<ReasonLabels, Gauge>,
    writes: Family<WriteLabels, Counter>,
    failing: Failing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    accepted: &'static str,
    programmed: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    what: &'static str,
    outcome: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut all = Self {
            registry: metrics::registry(),
            leading: Gauge::default(),
            passes: Counter::default(),
            policies: Family::default(),
            objects: Gauge::default(),
            hindered: Family::default(),
            writes: Family::default(),
            failing: Failing::default(),
        };
        let registry = all.registry.sub_registry_with_prefix("egress_controller");
        registry.register(
            "leading",
            "Whether this replica is the one that works",
            all.leading.clone(),
        );
        registry.register("passes", "How often policies were compiled", all.passes.clone());
        let help = "Policies by the conditions of their status";
        registry.register("policies", help, all.policies.clone());
        registry.register("objects", "Objects that policies compile to", all.objects.clone());
        let help = "Objects that are not in the cluster as they are wanted";
        registry.register("hindered", help, all.hindered.clone());
        registry.register("writes", "Calls that write, by what came of them", all.writes.clone());
        let help = "Whether a resource cannot be watched, or is missing";
        registry.register("watch_failing", help, all.failing.gauges());
        all
    }

    /// The metrics as text.
    pub(super) fn encode(&self) -> Result<String, fmt::Error> {
        metrics::encode(&self.registry)
    }

    /// Notes whether this replica is the one that works; what it knew of policies is the next one's to tell.
    pub(super) fn leads(&self, leading: bool) {
        self.leading.set(i64::from(leading));
        if !leading {
            self.policies.clear();
            self.hindered.clear();
            self.objects.set(0);
        }
    }

    /// Notes what a pass has found.
    pub(super) fn pass(&self, plan: &Plan) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.passes.inc();
        self.objects.set(number(plan.compiled.objects.len()));
        self.policies.clear();
        for verdict in &plan.compiled.verdicts {
            let [accepted, programmed] = verdict.conditions.each_ref().map(|condition| condition.status);
            let labels = PolicyLabels { accepted, programmed };
            self.policies.get_or_create(&labels).inc();
        }
        for reason in Hindrance::CODES {
            let count = plan
                .hindered
                .iter()
                .filter(|(_, _, hindrance)| hindrance.code() == *reason);
            self.hindered
                .get_or_create(&ReasonLabels { reason })
                .set(number(count.count()));
        }
    }

    /// Counts a call.
    pub(super) fn written(&self, what: &'static str, fault: Option<&Fault>) {
        let outcome = fault.map_or("done", Fault::word);
        self.writes.get_or_create(&WriteLabels { what, outcome }).inc();
    }

    /// Notes whether the watch of `resource` stands.
    pub(super) fn watch(&self, resource: &'static str, stands: bool) {
        self.failing.note(resource, stands);
    }
}
