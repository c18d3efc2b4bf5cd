//! The certificate as API servers see it, and what the replicas do about it.

use crate::webhook::certificate::Standing;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The certificate as API servers see it.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// How the certificate in use stands.
    pub standing: Arc<Standing>,
    steps: Family<StepLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

impl Certificates {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        let help = "Steps that this replica has taken to look after the certificate";
        registry.register("certificate_steps", help, all.steps.clone());
        registry.register_collector(Box::new(Standings(Arc::clone(&all.standing))));
        all
    }

    /// Counts a step that was taken to look after the certificate.
    pub fn took(&self, step: &'static str) {
        self.steps.get_or_create(&StepLabels { step }).inc();
    }
}

/// How the certificate in use stands, read when it is asked for. What is not known is left out.
#[derive(Debug)]
struct Standings(Arc<Standing>);

impl Collector for Standings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = [
            (
                "certificate_trusted",
                "Whether API servers take the certificate in use, as caBundle says",
                self.0.trusted(),
            ),
            (
                "certificate_failing",
                "Whether the replicas cannot look after the certificate",
                self.0.failing(),
            ),
        ];
        for (name, help, figure) in figures {
            let Some(figure) = figure else { continue };
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::from(figure)).encode(encoder)?;
        }
        Ok(())
    }
}
