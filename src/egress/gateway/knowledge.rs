//! What the gateway goes by: the policies, whose address is whose, and the authorities that policies name.

use super::originate::Authorities;
use super::pods::Pods;
use crate::egress::policies::Policies;
use crate::egress::policy::{Id, Policy, PolicyError};
use crate::egress::spec::{CaCertificates, Placement};
use crate::pod::manifest::{self, ManifestError};
use serde_json::Value;
use std::collections::HashMap;
use std::str::Utf8Error;
use std::sync::Arc;
use tracing::warn;

/// All that is known at a moment.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    pub(super) policies: Policies,
    pub(super) pods: Pods,
    /// By namespace, ConfigMap and key.
    authorities: HashMap<(String, String, String), Arc<Authorities>>,
    /// Where the ConfigMaps of cluster-wide policies are.
    namespace: String,
}

/// Why manifests cannot be gone by. What is wrong with one of them is wrong with all: half of the policies could open what the
/// other half closes.
#[derive(Debug, thiserror::Error)]
pub(super) enum KnowledgeError {
    #[error("it is no text: {0}")]
    Text(#[from] Utf8Error),
    #[error("{0} of the files holds no objects, and what it held may have closed something")]
    Empty(usize),
    #[error("an object is {0}: expected a map with apiVersion and kind")]
    NoObject(String),
    #[error("there is no policy, and everything would go out")]
    NoPolicy,
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{policy}: the gateway cannot enforce it as it is written: {why}")]
    Refused { policy: Id, why: String },
}

impl Knowledge {
    /// Reads manifests: policies, pods and ConfigMaps; others are passed over. Objects without a namespace, and ConfigMaps of
    /// cluster-wide policies, are in `namespace`.
    pub(super) fn read(contents: &[Vec<u8>], namespace: &str) -> Result<Arc<Self>, KnowledgeError> {
        let mut known = Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        };
        let (mut policies, mut maps) = (Vec::new(), HashMap::new());
        for (number, content) in (1..).zip(contents) {
            let mut documents = manifest::read(str::from_utf8(content)?)?;
            documents.retain(|document| !document.value.is_null());
            if documents.is_empty() {
                return Err(KnowledgeError::Empty(number));
            }
            for document in documents {
                for object in manifest::items(&document.value) {
                    if !object.is_object() {
                        return Err(KnowledgeError::NoObject(object.to_string()));
                    }
                    if let Some(policy) = Policy::read(&object, namespace) {
                        policies.push(policy?);
                    }
                    known.pods.take(&object, namespace);
                    keep_map(&mut maps, &object, namespace);
                }
            }
        }
        if policies.is_empty() {
            return Err(KnowledgeError::NoPolicy);
        }
        for policy in &policies {
            refuse(policy)?;
            known.take_authorities(policy, &maps);
        }
        // Of the others, only those count that the proxies enforce, as for `egress check`.
        known.policies = Policies::new(policies).enforceable();
        Ok(Arc::new(known))
    }

    fn take_authorities(&mut self, policy: &Policy, maps: &HashMap<(String, String), Value>) {
        let named = policy
            .origination
            .as_ref()
            .and_then(|origination| origination.ca_certificates.as_ref());
        let Some(CaCertificates { config_map, key }) = named else {
            return;
        };
        let namespace = policy.id.namespace.as_ref().unwrap_or(&self.namespace).clone();
        let data = maps.get(&(namespace.clone(), config_map.clone()));
        let Some(pem) = data.and_then(|data| data.get(key)).and_then(Value::as_str) else {
            // It may come yet; until then no certificate is taken.
            return;
        };
        match Authorities::read(pem.as_bytes(), true) {
            Ok(authorities) => {
                self.authorities
                    .insert((namespace, config_map.clone(), key.clone()), authorities);
            }
            // This policy alone is closed for it: whose address is whose, and what others allow, must not wait for that.
            Err(error) => warn!(policy = %policy.id, config_map, key, %error, "a policy's authorities cannot be used"),
        }
    }

    /// The authorities that a policy names; nothing where they are not there.
    pub(super) fn authorities(&self, policy: &Id, named: &CaCertificates) -> Option<Arc<Authorities>> {
        let namespace = policy.namespace.as_ref().unwrap_or(&self.namespace);
        let key = (namespace.clone(), named.config_map.clone(), named.key.clone());
        self.authorities.get(&key).cloned()
    }
}

/// What the gateway is to enforce and cannot must not be left out: that could open what it is to close.
fn refuse(policy: &Policy) -> Result<(), KnowledgeError> {
    let refusals = policy.refusals();
    if policy.placement != Placement::Gateway || refusals.is_empty() {
        return Ok(());
    }
    let why: Vec<_> = refusals.into_iter().map(|refusal| refusal.message).collect();
    Err(KnowledgeError::Refused {
        policy: policy.id.clone(),
        why: why.join("; "),
    })
}

fn keep_map(maps: &mut HashMap<(String, String), Value>, object: &Value, default_namespace: &str) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    if let (Some("ConfigMap"), Some("v1"), Some(name)) = (text("/kind"), text("/apiVersion"), text("/metadata/name")) {
        let namespace = text("/metadata/namespace").unwrap_or(default_namespace);
        let data = object.get("data").cloned().unwrap_or_default();
        maps.insert((namespace.to_owned(), name.to_owned()), data);
    }
}
