//! What the gateway goes by: what policies say, and whose address is whose.

use super::pods::{Member, Pods};
use super::rules::Rules;
use arc_swap::ArcSwapOption;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// All that is known, kept up to date by whoever reads files or watches a cluster.
///
/// As long as the policies are not known, nobody is anybody: everything is closed.
#[derive(Debug)]
pub(super) struct Knowledge {
    rules: ArcSwapOption<Rules>,
    pub(super) pods: Pods,
    /// Told of everything that is new.
    news: watch::Sender<()>,
    patience: Duration,
}

impl Knowledge {
    /// Nothing; a source that is not known yet is waited for with that much `patience`.
    pub(super) fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            rules: ArcSwapOption::empty(),
            pods: Pods::default(),
            news: watch::Sender::new(()),
            patience,
        })
    }

    /// What policies say, once that is known.
    pub(super) fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.load_full()
    }

    /// Goes by `rules` from now on.
    pub(super) fn set_rules(&self, rules: Arc<Rules>) {
        self.rules.store(Some(rules));
        self.tell();
    }

    /// Notes that pods have changed.
    pub(super) fn tell(&self) {
        self.news.send_replace(());
    }

    /// The pod that has `address`, and what policies say.
    pub(super) fn source(&self, address: IpAddr) -> Option<(Arc<Rules>, Arc<Member>)> {
        Some((self.rules()?, self.pods.of(address)?))
    }

    /// Waits for a while until a pod is known that has `address`: its first connection may be here before the news of it.
    pub(super) async fn wait_for(&self, address: IpAddr) {
        if self.patience.is_zero() || self.source(address).is_some() {
            return;
        }
        let mut news = self.news.subscribe();
        let known = async { while self.source(address).is_none() && news.changed().await.is_ok() {} };
        let _late = timeout(self.patience, known).await;
    }
}
