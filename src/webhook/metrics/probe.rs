//! What the probe's findings are worth to the webhook, read when it is asked for.

use crate::cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Findings by state; no series where no probe reports.
#[derive(Debug)]
pub(super) struct Findings(pub(super) Arc<Cluster>);

impl Collector for Findings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(standing) = self.0.probe_standing(SystemTime::now()) else {
            return Ok(());
        };
        let help = "Namespaces by what a probe's finding is worth";
        let mut findings = encoder.encode_descriptor("probe_findings", help, None, MetricType::Gauge)?;
        for (state, count) in [
            ("usable", standing.usable),
            ("unknown", standing.unknown),
            ("stale", standing.stale),
            ("unreadable", standing.unreadable),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(findings.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }
}
