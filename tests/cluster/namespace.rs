//! Namespaces of tests, and pods in them.

use std::sync::atomic::{AtomicU32, Ordering};

use kube::Client;
use serde_json::{Value, json};

use super::{Reply, Verb, call};

/// A namespace, seen through one client.
#[derive(Clone)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    client: Client,
}

impl Namespace {
    /// Creates a namespace with a name of its own that starts with `prefix`.
    pub(crate) async fn create(
        client: &Client,
        prefix: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self::create_named(client, &name, labels, annotations).await
    }

    /// Creates the namespace `name`, with the service account that the controller-manager would give it.
    pub(crate) async fn create_named(
        client: &Client,
        name: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> Self {
        let metadata = json!({"name": name, "labels": object(labels), "annotations": object(annotations)});
        let namespace = Self {
            name: name.to_owned(),
            client: client.clone(),
        };
        namespace
            .must_create("/api/v1/namespaces", &json!({"metadata": metadata}))
            .await;
        let path = namespace.path("api/v1", "serviceaccounts");
        namespace
            .must_create(&path, &json!({"metadata": {"name": "default"}}))
            .await;
        namespace
    }

    /// Another namespace, which is there already.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            client: self.client.clone(),
        }
    }

    /// The same namespace, seen through another client.
    pub(crate) fn seen_by(&self, client: &Client) -> Self {
        Self {
            name: self.name.clone(),
            client: client.clone(),
        }
    }

    /// Creates `pod`.
    pub(crate) async fn create_pod(&self, pod: &Value) -> Reply {
        self.post("api/v1", "pods", pod).await
    }

    /// Asks what creating `pod` would do (`dryRun=All`).
    pub(crate) async fn try_pod(&self, pod: &Value) -> Reply {
        self.post("api/v1", "pods?dryRun=All", pod).await
    }

    /// Reads the pod `name`.
    pub(crate) async fn pod(&self, name: &str) -> Reply {
        self.get("api/v1", &format!("pods/{name}")).await
    }

    /// Creates an object of `resource`, of an API such as `apis/apps/v1`.
    pub(crate) async fn post(&self, api: &str, resource: &str, object: &Value) -> Reply {
        self.call(Verb::Create, &self.path(api, resource), Some(object)).await
    }

    /// Reads `resource`, of an API such as `apis/apps/v1`.
    pub(crate) async fn get(&self, api: &str, resource: &str) -> Reply {
        self.call(Verb::Get, &self.path(api, resource), None).await
    }

    /// Adds labels to the namespace itself.
    pub(crate) async fn label(&self, labels: &[(&str, &str)]) {
        let patch = json!({"metadata": {"labels": object(labels)}});
        let path = format!("/api/v1/namespaces/{}", self.name);
        let reply = self.call(Verb::Patch, &path, Some(&patch)).await;
        assert!(reply.accepted(), "{path}: {} {}", reply.code, reply.body);
    }

    fn path(&self, api: &str, resource: &str) -> String {
        format!("/{api}/namespaces/{}/{resource}", self.name)
    }

    async fn must_create(&self, path: &str, object: &Value) {
        let reply = self.call(Verb::Create, path, Some(object)).await;
        assert!(reply.accepted(), "{path}: {} {}", reply.code, reply.body);
    }

    async fn call(&self, verb: Verb, path: &str, object: Option<&Value>) -> Reply {
        call(&self.client, verb, path, object)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

fn object(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
        .collect()
}
