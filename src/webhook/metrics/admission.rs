//! Requests and their answers. Every label takes few values.

use crate::decide::{Caution, POLICY_KINDS};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The kind of policy of a denial that no policy is behind: a value, a configuration, a plugin that is nowhere.
const NO_POLICY: &str = "none";

/// Requests and their answers.
#[derive(Debug)]
pub struct Admission {
    answers: Family<AnswerLabels, Counter>,
    denials: Family<PolicyLabels, Counter>,
    warnings: Family<WarningLabels, Counter>,
    duration: Histogram,
    refused: Family<RefusalLabels, Counter>,
    /// Requests that are being answered.
    pub in_flight: Gauge,
}

/// Labels of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabels {
    /// `inject`, `skip` or `deny`.
    pub outcome: &'static str,
    /// The code of the decision.
    pub decision: &'static str,
    /// `init-container`, `cni` or `none`.
    pub redirection: &'static str,
    /// The Pod Security level that the namespace enforces.
    pub level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WarningLabels {
    warning: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

impl Admission {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self {
            answers: Family::default(),
            denials: Family::default(),
            warnings: Family::default(),
            // 50 µs to 1.6 s: an answer from warm caches takes a few hundred microseconds.
            duration: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            refused: Family::default(),
            in_flight: Gauge::default(),
        };
        // What begins to exist when it first happens has no increase then: nobody would be alerted of the first denial.
        for policy in POLICY_KINDS.into_iter().chain([NO_POLICY]) {
            drop(all.denials.get_or_create(&PolicyLabels { policy }));
        }
        for &warning in Caution::CODES {
            drop(all.warnings.get_or_create(&WarningLabels { warning }));
        }
        registry.register("admission_answers", "Reviews that were answered", all.answers.clone());
        let help = "Pods that were denied, by each kind of policy that stood in their way";
        registry.register("admission_denials", help, all.denials.clone());
        let help = "Answers with a warning of that kind";
        registry.register("admission_warnings", help, all.warnings.clone());
        let help = "Time from the head of a request to its answer";
        registry.register_with_unit("admission_duration", help, Unit::Seconds, all.duration.clone());
        let help = "Requests that were no review, or not answered";
        registry.register("admission_refused", help, all.refused.clone());
        let help = "Requests that are being answered";
        registry.register("admission_in_flight", help, all.in_flight.clone());
        all
    }

    /// Counts an answer that took `seconds`.
    pub fn answered(&self, labels: &AnswerLabels, seconds: f64) {
        self.answers.get_or_create(labels).inc();
        self.duration.observe(seconds);
    }

    /// Counts a pod that was denied, whatever kinds of policies are behind that.
    pub fn denied(&self, policies: &[&'static str]) {
        let none = [NO_POLICY];
        let policies = if policies.is_empty() { &none } else { policies };
        for policy in policies {
            self.denials.get_or_create(&PolicyLabels { policy }).inc();
        }
    }

    /// Counts the kinds of an answer's warnings.
    pub fn warned(&self, cautions: &[Caution]) {
        for caution in cautions {
            let warning = caution.code();
            self.warnings.get_or_create(&WarningLabels { warning }).inc();
        }
    }

    /// Counts a request that got an error.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }
}
