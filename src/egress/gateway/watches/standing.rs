//! Whether a watch stands, for log and metrics.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

/// How many watches of each resource fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing(Family<Labels, Gauge>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    resource: String,
}

/// One watch.
pub(super) struct Standing<'a> {
    /// The resource, and of a single object which one.
    what: String,
    failing: &'a Failing,
    /// Nothing before anything was heard.
    stands: Option<bool>,
}

impl Failing {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "watch_failing",
            "How many watches of a resource fail, so that what was known last is gone by",
            all.0.clone(),
        );
        all
    }

    fn count(&self, what: &str) -> Gauge {
        let resource = what.split(' ').next().unwrap_or_default().to_owned();
        self.0.get_or_create(&Labels { resource }).clone()
    }
}

impl<'a> Standing<'a> {
    /// A watch of `what`: a resource, and where it is of one object alone which one, after a space.
    pub(super) fn new(what: String, failing: &'a Failing) -> Self {
        let _zero = failing.count(&what);
        Self {
            what,
            failing,
            stands: None,
        }
    }

    /// Whether what it told is up to date.
    pub(super) fn stands(&self) -> bool {
        self.stands == Some(true)
    }

    pub(super) fn up(&mut self) {
        if self.stands != Some(true) {
            info!(resource = self.what, "watching");
            self.leave();
            self.stands = Some(true);
        }
    }

    pub(super) fn down(&mut self, error: &str) {
        if self.stands != Some(false) {
            warn!(resource = self.what, error, "watch failed, trying again");
            self.failing.count(&self.what).inc();
            self.stands = Some(false);
        }
    }

    fn leave(&self) {
        if self.stands == Some(false) {
            self.failing.count(&self.what).dec();
        }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
