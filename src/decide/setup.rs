//! What an operator sets up, read once: the installation's configuration and what Pod Security does by default.

use super::Coverage;
use crate::config::{ConfigError, Installation};
use crate::inject::Prepared;
use crate::policy::pod_security::{Configuration, ConfigurationError};
use serde_json::{Value, json};
use std::sync::Arc;

/// The installation's configuration, and Pod Security's.
#[derive(Debug)]
pub struct Setup {
    /// The values document and the trust anchors.
    pub installation: Prepared,
    /// What Pod Security does where no label says so.
    pub pod_security: Configuration,
}

/// Why a setup cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The values document cannot.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `outrigger.podSecurity` of the values document cannot.
    #[error("values document: outrigger.podSecurity: {0}")]
    PodSecurity(#[from] ConfigurationError),
}

impl Setup {
    /// Reads values documents, later ones over earlier ones, and trust anchors: see [`Installation::parse`].
    pub fn read(documents: &[&str], trust_anchors: Option<&str>, namespace: &str) -> Result<Self, SetupError> {
        Ok(Self::of(Installation::parse(documents, trust_anchors, namespace)?)?)
    }

    /// Completes an installation whose values may say what Pod Security does by default.
    pub fn of(installation: Installation) -> Result<Self, ConfigurationError> {
        let given = &installation.values.outrigger.pod_security;
        let pod_security = match given.is_empty() {
            true => Configuration::default(),
            false => Configuration::read(&with_kind(given))?,
        };
        Ok(Self {
            installation: installation.into(),
            pod_security,
        })
    }

    /// Where the CNI plugin is: everywhere, where the values say so, else where it was `seen`.
    pub fn coverage(&self, seen: Option<Arc<Coverage>>) -> Option<Arc<Coverage>> {
        match self.installation.values.cni_enabled {
            true => Some(Arc::new(Coverage::Declared)),
            false => seen,
        }
    }
}

/// The values hold the document's content; its kind and version go without saying.
fn with_kind(given: &serde_json::Map<String, Value>) -> Value {
    let mut document = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
    });
    if let Some(fields) = document.as_object_mut() {
        fields.extend(given.clone());
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pod_security::Level;

    #[test]
    fn the_values_may_say_what_pod_security_does_by_default() {
        let values = "outrigger: {podSecurity: {defaults: {enforce: baseline}, exemptions: {namespaces: [infra]}}}";
        let setup = Setup::read(&[values], None, "linkerd").unwrap();
        assert_eq!(setup.pod_security.defaults.enforce.level, Level::Baseline);
        assert_eq!(setup.pod_security.exemptions.namespaces, ["infra"]);
        let error = Setup::read(
            &["outrigger: {podSecurity: {defaults: {enforce: strict}}}"],
            None,
            "linkerd",
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("values document: outrigger.podSecurity: "),
            "{error}"
        );
    }
}
