//! Making the API server call a webhook, for the namespaces of one test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::{Value, json};

use super::{Authority, Namespace, Verb, call, poll};

/// The label of the namespaces whose pods go to a webhook, with the number of its registration.
const LABEL: &str = "test/webhook";

/// The label of pods that show whether the registration is in force.
const TRIPWIRE: &str = "test/tripwire";

/// The API server learns of a configuration by a watch, in well under a second.
const LIMIT: Duration = Duration::from_secs(30);

/// What the API server does with a request when its webhook cannot answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// A webhook configuration that is in force.
#[derive(Debug)]
pub(crate) struct Registration {
    number: String,
}

impl Registration {
    /// Registers the webhook at `address`, whose certificate is of `authority`, and waits until the API server heeds it.
    pub(crate) async fn create(
        client: &Client,
        address: SocketAddr,
        authority: &Authority,
        on_failure: FailurePolicy,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let registration = Self {
            number: COUNT.fetch_add(1, Ordering::Relaxed).to_string(),
        };
        let object = registration.configuration(address, authority, on_failure);
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        let reply = call(client, Verb::Create, path, Some(&object))
            .await
            .expect("the API server answers");
        assert!(reply.accepted(), "{}", reply.body);
        registration.wait(client).await;
        registration
    }

    /// The label that a namespace needs for its pods and services to go to the webhook.
    pub(crate) fn label(&self) -> (&str, &str) {
        (LABEL, &self.number)
    }

    /// Both entries come into force at once; the second tells when, for it cannot but fail.
    fn configuration(&self, address: SocketAddr, authority: &Authority, on_failure: FailurePolicy) -> Value {
        let entry = |name: &str, url: String, tripwire: &str| {
            json!({
                "name": name,
                "clientConfig": {"url": url, "caBundle": STANDARD.encode(authority.certificate())},
                "namespaceSelector": {"matchLabels": {LABEL: self.number}},
                "objectSelector": {"matchExpressions": [{"key": TRIPWIRE, "operator": tripwire}]},
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["pods", "services"], "scope": "Namespaced"}],
                "sideEffects": "NoneOnDryRun",
                "reinvocationPolicy": "IfNeeded",
                "timeoutSeconds": 5,
                "admissionReviewVersions": ["v1", "v1beta1"],
                "failurePolicy": on_failure.name(),
            })
        };
        let mut tripwire = entry("tripwire.outrigger.test", "https://127.0.0.1:1/".to_owned(), "Exists");
        tripwire["failurePolicy"] = "Fail".into();
        json!({
            "metadata": {"name": format!("test-{}", self.number)},
            "webhooks": [entry("injector.outrigger.test", format!("https://{address}/"), "DoesNotExist"), tripwire],
        })
    }

    async fn wait(&self, client: &Client) {
        let namespace = Namespace::create(client, "tripwire", &[self.label()], &[]).await;
        let pod = json!({
            "metadata": {"name": "tripwire", "labels": {TRIPWIRE: ""}},
            "spec": {"containers": [{"name": "tripwire", "image": "tripwire"}]},
        });
        let called = async || {
            namespace
                .try_pod(&pod)
                .await
                .message()
                .contains("failed calling webhook")
                .then_some(())
        };
        poll(LIMIT, called)
            .await
            .expect("the API server heeds the webhook configuration");
    }
}
