//! What the metrics of everything that watches a cluster have in common, in OpenMetrics.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;

/// A registry of `outrigger_`, with what the program is.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::with_prefix("outrigger");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "This program", version);
    registry
}

/// The metrics as text.
pub(super) fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// Which watches do not stand.
#[derive(Debug, Default)]
pub(super) struct Failing(Family<Labels, Gauge>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Labels {
    resource: &'static str,
}

impl Failing {
    /// The metric, to be registered.
    pub(super) fn gauges(&self) -> Family<Labels, Gauge> {
        self.0.clone()
    }

    /// Notes whether the watch of `resource` stands.
    pub(super) fn note(&self, resource: &'static str, stands: bool) {
        self.0.get_or_create(&Labels { resource }).set(i64::from(!stands));
    }
}
