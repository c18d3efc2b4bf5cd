//! A webhook of the shared cluster, and namespaces whose pods and services go to it.

use kube::Client;

use crate::cluster::{Cluster, FailurePolicy, Namespace, Registration, Webhook, WebhookOptions, shared};

/// Values of an installation without CNI plugin. All else has the chart's defaults.
pub(crate) const PLAIN: &str = "linkerdVersion: edge-26.11.1\n";

/// Values of an installation that has the CNI plugin on every node.
pub(crate) const CNI: &str = "linkerdVersion: edge-26.11.1\ncniEnabled: true\n";

/// What a namespace says that wants its pods meshed.
pub(crate) const INJECT: (&str, &str) = ("linkerd.io/inject", "enabled");

/// The label by which a namespace enforces a level of Pod Security.
pub(crate) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// A webhook that is called for the namespaces of the scene, and fails closed.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) webhook: Webhook,
    pub(crate) registration: Registration,
}

impl Scene {
    pub(crate) async fn with_values(values: &str) -> Self {
        Self::in_cluster(shared().await, values).await
    }

    /// The same in a cluster of the test's own.
    pub(crate) async fn in_cluster(cluster: &Cluster, values: &str) -> Self {
        let client = cluster.client().await;
        let webhook = Webhook::start(cluster, WebhookOptions::with_values(values)).await;
        let webhook = webhook.unwrap_or_else(|message| panic!("{message}"));
        let registration = Registration::create(&client, &webhook, FailurePolicy::Fail).await;
        Self {
            client,
            webhook,
            registration,
        }
    }

    /// A namespace whose objects go to the webhook.
    pub(crate) async fn namespace(
        &self,
        prefix: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> Namespace {
        let labels = [&[self.registration.label()], labels].concat();
        Namespace::create(&self.client, prefix, &labels, annotations).await
    }

    /// A namespace that enforces `level` and wants its pods meshed.
    pub(crate) async fn meshed(&self, level: &str) -> Namespace {
        self.namespace(level, &[(ENFORCE, level)], &[INJECT]).await
    }
}
