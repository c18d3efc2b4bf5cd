//! Annotations and labels of an injected pod.

use super::{Owner, Redirection};
use crate::config::annotation;
use crate::config::{Config, Installation, Variant};
use crate::pod::label::{self, label_value};
use crate::pod::{DEFAULT_ACCOUNT, Pod};
use std::collections::BTreeMap;

/// What `linkerd.io/created-by` says.
pub const CREATED_BY: &str = concat!("outrigger/", env!("CARGO_PKG_VERSION"));

/// Annotations and labels to add, replacing those of the same key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

impl Metadata {
    /// What an injected pod says about itself: what it inherited, who injected it, for which control plane, on behalf
    /// of which owner.
    pub fn injected(installation: &Installation, config: &Config, owner: Option<&Owner>, namespace: &str) -> Self {
        let mut annotations: BTreeMap<_, _> = config.inherited.iter().cloned().collect();
        let mut labels = BTreeMap::new();
        let mut annotate = |key: &str, value: &str| annotations.insert(key.to_owned(), value.to_owned());
        annotate(annotation::CREATED_BY, CREATED_BY);
        annotate(annotation::PROXY_VERSION, config.values.proxy_version());
        annotate(annotation::TRUST_ROOT_SHA256, &installation.trust_root_sha256);
        labels.insert(
            annotation::CONTROL_PLANE_NS.to_owned(),
            installation.control_plane_namespace.clone(),
        );
        labels.insert(annotation::WORKLOAD_NS.to_owned(), namespace.to_owned());
        if let Some(owner) = owner {
            owner.write(&mut labels, &mut annotations);
        }
        Self { annotations, labels }
    }

    /// Labels `pod` with its service account, where the values ask for it. One that is too long for a label ends in a digest.
    pub fn label_account(&mut self, installation: &Installation, pod: &Pod<'_>) {
        if installation.values.outrigger.service_account_label {
            let account = pod.service_account().unwrap_or(DEFAULT_ACCOUNT);
            self.labels
                .insert(label::SERVICE_ACCOUNT.to_owned(), label_value(account));
        }
    }

    /// Says which user the proxy runs as, where a variant moved it: the rules follow it.
    pub fn vary(&mut self, variant: Variant) {
        if let Some(users) = variant.users {
            self.annotations
                .insert(annotation::PROXY_UID.to_owned(), users.proxy.to_string());
        }
    }

    /// Says which node selector the pod gets, so that it can be taken out again.
    pub fn hold_to(&mut self, node_selector: Option<&(String, String)>) {
        if let Some((key, _)) = node_selector {
            self.annotations
                .insert(annotation::NODE_SELECTOR.to_owned(), key.clone());
        }
    }

    /// Says which redirection was chosen: the CNI plugin obeys it.
    #[must_use]
    pub fn with_redirection(mut self, redirection: Redirection) -> Self {
        self.annotations.insert(
            annotation::SETUP_IPTABLES.to_owned(),
            redirection.annotation().to_owned(),
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_service_account_is_a_label_where_the_values_ask_for_it() {
        let labels = |asked: bool, spec: serde_json::Value| {
            let document = json!({"linkerdVersion": "v1", "outrigger": {"serviceAccountLabel": asked}});
            let installation = Installation::from_document(document, Some("anchors"), "linkerd").unwrap();
            let mut metadata = Metadata::default();
            metadata.label_account(&installation, &Pod::new(&json!({"spec": spec})));
            metadata.labels.remove(label::SERVICE_ACCOUNT)
        };
        assert_eq!(
            labels(true, json!({"serviceAccountName": "web"})).as_deref(),
            Some("web")
        );
        assert_eq!(labels(true, json!({})).as_deref(), Some("default"));
        assert_eq!(
            labels(true, json!({"serviceAccountName": "a".repeat(70)}))
                .unwrap()
                .len(),
            63
        );
        assert_eq!(labels(false, json!({"serviceAccountName": "web"})), None);
    }
}
