//! The Secret: what its two places hold, and how they are written.
//!
//! `tls.crt`, `tls.key` and `ca.crt` are what cert-manager and `kubectl create secret tls` call them, so that `linkerd check`
//! and whoever mounts the Secret find what they look for. The key of an authority is in neither place: see `issue`.

use crate::webhook::certificate::issue::Issued;
use crate::webhook::certificate::object::{Answer, Object, Trouble};
use crate::webhook::certificate::trust::{Bundle, verify_host};
use crate::webhook::certificate::{pair, validity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::Patch;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

use super::plan::Id;

/// The keys of the two places: certificate, key, authority.
const CURRENT: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
const NEXT: [&str; 3] = ["next-tls.crt", "next-tls.key", "next-ca.crt"];

/// What cert-manager writes on the Secrets that it looks after.
const CERT_MANAGER: &str = "cert-manager.io/certificate-name";

/// What there is of the Secret.
#[derive(Debug)]
pub(super) struct Secret {
    version: String,
    /// Who else looks after it.
    keeper: Option<String>,
    data: Data,
}

/// A pair that can be shown.
#[derive(Clone, Debug)]
pub(super) struct Material {
    pub(super) id: Id,
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) key: Arc<CertifiedKey>,
    pub(super) authorities: Vec<CertificateDer<'static>>,
}

/// What a place holds.
#[derive(Debug)]
pub(super) enum Found {
    Empty,
    /// Something of no use, and why.
    Unusable(String),
    /// Something that others look after, and who.
    Foreign(String),
    Usable(Box<Material>),
}

#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
}

/// The values, base64 by key. They are wiped when they are dropped.
#[derive(Default, Deserialize)]
struct Data(BTreeMap<String, String>);

impl Secret {
    /// What `answer` says of the Secret `object`; nothing where there is none.
    pub(super) fn read(answer: Answer, object: &Object) -> Result<Option<Self>, Trouble> {
        let Some(body) = answer.body else { return Ok(None) };
        // The text of the error would quote a value that is no text.
        let stored: Result<Stored, _> = serde_json::from_slice(&body);
        if let Ok(mut body) = body.try_into_mut() {
            body.zeroize();
        }
        let stored = stored.map_err(|_secret| object.trouble("read", &"the answer is no Secret"))?;
        let owner = stored.metadata.owner_references.first();
        let owner = owner.map(|owner| format!("{} {}", owner.kind, owner.name));
        let manager = stored.metadata.annotations.contains_key(CERT_MANAGER);
        Ok(Some(Self {
            version: stored.metadata.resource_version,
            keeper: owner.or_else(|| manager.then(|| "cert-manager".to_owned())),
            data: stored.data,
        }))
    }

    /// Its version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// What is shown to API servers, which dial `host`.
    pub(super) fn current(&self, host: &str, now: i64) -> Found {
        match &self.keeper {
            Some(keeper) => Found::Foreign(format!("{keeper} looks after it")),
            None => self.place(CURRENT, host, now),
        }
    }

    /// What waits to be shown.
    pub(super) fn next(&self, host: &str, now: i64) -> Found {
        self.place(NEXT, host, now)
    }

    /// A place that holds neither certificate nor key is empty: a Secret may be made before there is anything to put in it.
    fn place(&self, keys: [&str; 3], host: &str, now: i64) -> Found {
        let [certificate, key, authority] = keys.map(|name| self.data.value(name));
        if certificate.is_empty() && key.is_empty() {
            return Found::Empty;
        }
        match material(&certificate, &key, &authority) {
            Err(why) => Found::Unusable(why),
            Ok(material) => match material.verify(host) {
                Ok(()) => Found::Usable(Box::new(material)),
                Err(why) if material.end <= now => Found::Unusable(why),
                Err(why) => Found::Foreign(format!("it holds the certificate of another Service: {why}")),
            },
        }
    }

    /// The patch that puts `issued` into the place of what is shown.
    pub(super) fn made(&self, issued: &Issued) -> Patch<Value> {
        let mut data = values(CURRENT, issued);
        data.extend(NEXT.map(|name| (name.to_owned(), Value::Null)));
        self.patch(&data)
    }

    /// The patch that has `issued` wait.
    pub(super) fn staged(&self, issued: &Issued) -> Patch<Value> {
        self.patch(&values(NEXT, issued))
    }

    /// The patch that puts what waits into the place of what is shown.
    pub(super) fn promoted(&self) -> Patch<Value> {
        let moved = CURRENT.into_iter().zip(NEXT).flat_map(|(to, from)| {
            let value = self.data.0.get(from).map_or(Value::Null, |value| value.as_str().into());
            [(to.to_owned(), value), (from.to_owned(), Value::Null)]
        });
        self.patch(&moved.collect())
    }

    /// A patch of the version that was read: where somebody has changed the Secret since, the API server answers with a
    /// conflict.
    fn patch(&self, data: &Map<String, Value>) -> Patch<Value> {
        Patch::Merge(json!({"metadata": {"resourceVersion": self.version}, "data": data}))
    }
}

/// The Secret `name`, which holds `issued`.
pub(super) fn created(namespace: &str, name: &str, issued: &Issued) -> Value {
    let labels = json!({
        "linkerd.io/control-plane-component": "proxy-injector",
        "linkerd.io/control-plane-ns": namespace,
    });
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": values(CURRENT, issued),
    })
}

fn values(keys: [&str; 3], issued: &Issued) -> Map<String, Value> {
    let values = [&*issued.certificate, &*issued.key, &*issued.authority];
    let encoded = keys
        .into_iter()
        .zip(values)
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into()));
    encoded.collect()
}

fn material(certificate: &[u8], key: &[u8], authority: &[u8]) -> Result<Material, String> {
    let key = pair(certificate, key).map_err(|error| error.to_string())?;
    let leaf = key.cert.first().ok_or("there is no certificate")?;
    let life = validity(leaf).ok_or("the certificate cannot be read")?;
    Ok(Material {
        id: Sha256::digest(leaf).into(),
        begin: life.not_before,
        end: life.not_after,
        authorities: Bundle::of_pem(authority).certificates().to_vec(),
        key,
    })
}

impl Found {
    /// The pair, where there is one that can be shown.
    pub(super) fn material(&self) -> Option<&Material> {
        match self {
            Self::Usable(material) => Some(material),
            Self::Empty | Self::Unusable(_) | Self::Foreign(_) => None,
        }
    }
}

impl Material {
    fn verify(&self, host: &str) -> Result<(), String> {
        let leaf = self.key.cert.first().ok_or("there is no certificate")?;
        let leaf = ParsedCertificate::try_from(leaf);
        let verified = leaf.and_then(|leaf| verify_host(&leaf, host));
        verified.map_err(|error| error.to_string())
    }
}

impl Data {
    /// The value of a key; empty where there is none, or it is no base64.
    fn value(&self, key: &str) -> Zeroizing<Vec<u8>> {
        let text = self.0.get(key).map(String::as_str).unwrap_or_default();
        Zeroizing::new(STANDARD.decode(text).unwrap_or_default())
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
