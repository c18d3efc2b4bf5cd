//! Where the CNI plugin is, read when it is asked for.

use crate::cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;

/// Nodes by what the CNI plugin does there; no series where nodes or plugins cannot be read.
#[derive(Debug)]
pub(super) struct Nodes(pub(super) Arc<Cluster>);

impl Collector for Nodes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(reach) = self.0.cni_reach() else {
            return Ok(());
        };
        let help = "Linux nodes by whether a CNI plugin is meant for them, and has been failing there";
        let mut nodes = encoder.encode_descriptor("cni_nodes", help, None, MetricType::Gauge)?;
        for (state, count) in [
            ("covered", reach.covered),
            ("failing", reach.failing),
            ("uncovered", reach.uncovered),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(nodes.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }
}
