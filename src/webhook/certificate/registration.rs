//! The registration: which of its entries call us, and whom API servers trust when they do.
//!
//! Only `caBundle` is ever written, entry by entry: selectors and all else may be rewritten by the platform, or kept by those
//! who installed it.

use super::object::{Answer, Object, Trouble};
use super::trust::Bundle;
use kube::api::Patch;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Annotations by which others are told to fill in `caBundle`, and who does.
const INJECTORS: [(&str, &str); 4] = [
    ("cert-manager.io/inject-ca-from", "cert-manager"),
    ("cert-manager.io/inject-ca-from-secret", "cert-manager"),
    ("cert-manager.io/inject-apiserver-ca", "cert-manager"),
    ("service.beta.openshift.io/inject-cabundle", "OpenShift"),
];

/// A Service, as an entry names it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Service {
    /// The name that API servers dial.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// What there is of a registration.
#[derive(Debug)]
pub(super) struct Registration {
    version: String,
    /// Who fills in `caBundle` instead of us, and is told so by which annotation.
    injector: Option<(&'static str, &'static str)>,
    /// The entries that call us: their name, and their bundle.
    entries: Vec<(String, Bundle)>,
}

#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    #[serde(default)]
    webhooks: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    #[serde(default)]
    ca_bundle: String,
    service: Option<Service>,
}

impl Registration {
    /// What `answer` says of the registration `object`, whose entries for `service` count; nothing where there is none.
    pub(super) fn read(answer: &Answer, object: &Object, service: &Service) -> Result<Option<Self>, Trouble> {
        let Some(body) = &answer.body else { return Ok(None) };
        let stored: Stored = serde_json::from_slice(body).map_err(|error| object.trouble("read", &error))?;
        let ours = |entry: Entry| {
            let client = entry.client_config;
            (client.service.as_ref() == Some(service)).then(|| (entry.name, Bundle::read(&client.ca_bundle)))
        };
        let asked = |(key, _): &(&'static str, &str)| stored.metadata.annotations.contains_key(*key);
        Ok(Some(Self {
            injector: INJECTORS.into_iter().find(asked),
            version: stored.metadata.resource_version,
            entries: stored.webhooks.into_iter().filter_map(ours).collect(),
        }))
    }

    /// Its version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Who fills in `caBundle` instead of us, and is told so by which annotation.
    pub(super) fn injector(&self) -> Option<(&'static str, &'static str)> {
        self.injector
    }

    /// Whether any entry calls us.
    pub(super) fn calls_us(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Whether every entry's bundle vouches for `chain` at `now`; the error says why one does not.
    pub(super) fn vouches_for(&self, chain: &[CertificateDer<'static>], host: &str, now: i64) -> Result<(), String> {
        let mut bundles = self.entries.iter().map(|(_, bundle)| bundle);
        let refused = bundles.try_for_each(|bundle| bundle.vouches_for(chain, host, now));
        refused.map_err(|error| error.to_string())
    }

    /// The patch that completes the bundles with `authorities`; nothing where they are complete.
    ///
    /// It names the version that was read: where somebody has changed the registration since, the API server answers with a
    /// conflict. Entries are merged by their names, and what a patch does not mention stays.
    pub(super) fn completed(&self, authorities: &[CertificateDer<'static>], now: i64) -> Option<Patch<Value>> {
        let lacking = self.entries.iter().filter_map(|(name, bundle)| {
            let text = bundle.completed(authorities, now)?.to_text();
            Some(json!({"name": name, "clientConfig": {"caBundle": text}}))
        });
        let webhooks: Vec<_> = lacking.collect();
        let metadata = json!({"resourceVersion": self.version});
        (!webhooks.is_empty()).then(|| Patch::Strategic(json!({"metadata": metadata, "webhooks": webhooks})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Client;

    fn read(object: &Value) -> Result<Option<Registration>, String> {
        let client = Client::new(axum::Router::new(), "default");
        let service = Service {
            namespace: "linkerd".to_owned(),
            name: "linkerd-proxy-injector".to_owned(),
        };
        let answer = Answer {
            now: 0,
            body: Some(object.to_string().into_bytes().into()),
        };
        let object = Object::registration(client, "config");
        Registration::read(&answer, &object, &service).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_entries_that_call_our_service_count() {
        let entry = |name, namespace, service| {
            let service = json!({"namespace": namespace, "name": service});
            json!({"name": name, "clientConfig": {"service": service, "caBundle": "%"}})
        };
        let by_address = json!({"name": "b", "clientConfig": {"url": "https://a/", "caBundle": "%"}});
        let elsewhere = entry("a", "canary", "linkerd-proxy-injector");
        let ours = entry("c", "linkerd", "linkerd-proxy-injector");
        let webhooks = json!([elsewhere, by_address, ours, entry("d", "linkerd", "tap")]);
        let registration = read(&json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks}))
            .unwrap()
            .unwrap();
        assert!(registration.calls_us());
        assert_eq!((registration.version(), registration.injector()), ("7", None));
        let Some(Patch::Strategic(patch)) = registration.completed(&[], 0) else {
            panic!("the bundle is junk")
        };
        let expected = json!({"metadata": {"resourceVersion": "7"},
            "webhooks": [{"name": "c", "clientConfig": {"caBundle": ""}}]});
        assert_eq!(patch, expected);
        let none = read(&json!({"metadata": {"resourceVersion": "7"}})).unwrap().unwrap();
        assert!(!none.calls_us() && none.vouches_for(&[], "a", 0).is_ok());
    }

    #[tokio::test]
    async fn who_fills_in_the_bundle_is_left_to_it() {
        let annotations = json!({"a": "b", "cert-manager.io/inject-ca-from": "linkerd/webhook"});
        let registration = read(&json!({"metadata": {"resourceVersion": "1", "annotations": annotations}}));
        let injector = registration.unwrap().unwrap().injector();
        assert_eq!(injector, Some(("cert-manager.io/inject-ca-from", "cert-manager")));
    }

    #[tokio::test]
    async fn what_is_no_registration_is_an_error() {
        let error = read(&json!({"metadata": {}})).unwrap_err();
        assert!(
            error.starts_with("cannot read MutatingWebhookConfiguration config: missing field"),
            "{error}"
        );
    }
}
