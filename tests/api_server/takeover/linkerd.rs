//! A stand-in for Linkerd's injector: it answers as that one was recorded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::script::Pair;
use crate::cluster::Port;
use crate::cluster::tls_server::{self, TlsServer};
use crate::mesh;

/// The containers by which Linkerd's injector knows a pod that has its proxy.
const SIDECARS: [&str; 3] = ["linkerd-proxy", "linkerd-init", "istio-proxy"];

/// A request, and what Linkerd's injector answered.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) pod: Value,
    /// Annotations of the namespace.
    pub(crate) annotations: Vec<(String, String)>,
    patch: Value,
}

/// How the names of the pods of each recorded request begin.
pub(crate) const NATIVE: &str = "native";
pub(crate) const CLASSIC: &str = "classic";
pub(crate) const OWNED: &str = "owned";

/// Any other pod has no more than what Linkerd's injector adds something to.
const OTHER: &str = "other";

/// What the volume of the API token is called in the recorded pods: Linkerd's injector mounts it where the application does.
const TOKEN_VOLUME: &str = "kube-api-access-x";

/// The recorded requests that are used, by the start of their pods' names.
const REQUESTS: [(&str, &str); 4] = [
    (NATIVE, "psa/restricted/native"),
    (CLASSIC, "ann/ns-native-alpha"),
    (OWNED, "default"),
    (OTHER, "ann/os-windows"),
];

/// What was recorded, by the start of the pods' names.
#[derive(Clone, Debug)]
pub(crate) struct Records(Arc<[(&'static str, Recorded)]>);

impl Records {
    pub(crate) fn read(conformance: &Path) -> Self {
        let text = fs::read_to_string(conformance.join("injection/requests.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let record = |name: &str| {
            let line = lines.iter().find(|line| line["name"] == name);
            let line = line.unwrap_or_else(|| panic!("no recorded request {name}"));
            let annotations = line["nsAnnotations"].as_object().unwrap();
            Recorded {
                pod: line["request"]["object"].clone(),
                annotations: annotations
                    .iter()
                    .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                    .collect(),
                patch: line["expect"]["patch"].clone(),
            }
        };
        Self(REQUESTS.map(|(start, name)| (start, record(name))).into())
    }

    pub(crate) fn of(&self, start: &str) -> &Recorded {
        let (_, record) = self.0.iter().find(|(own, _)| *own == start).unwrap();
        record
    }

    /// The record of a pod by its name, or by that which it will get.
    fn of_pod(&self, pod: &Value) -> &Recorded {
        let metadata = &pod["metadata"];
        let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str());
        let start = name.unwrap_or_default().split('-').next().unwrap_or_default();
        let known = self.0.iter().any(|(own, _)| *own == start);
        self.of(if known { start } else { OTHER })
    }

    fn response(&self, review: &Value) -> Value {
        let request = &review["request"];
        let pod = &request["object"];
        let has_sidecar = SIDECARS.iter().any(|name| mesh::count(pod, name) > 0);
        if request["kind"]["kind"] != "Pod" || has_sidecar {
            return json!({"allowed": true});
        }
        let patch = self.of_pod(pod).patch.to_string();
        let patch = patch.replace("test-ns", request["namespace"].as_str().unwrap_or_default());
        let patch = patch.replace(TOKEN_VOLUME, token_volume(pod).unwrap_or(TOKEN_VOLUME));
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)})
    }
}

/// What that volume is called in `pod`.
fn token_volume(pod: &Value) -> Option<&str> {
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array()?;
    let token = mounts.iter().find(|mount| mount["mountPath"] == mesh::API_TOKEN);
    token?["name"].as_str()
}

/// Linkerd's injector at its Service's address.
#[derive(Debug)]
pub(crate) struct Linkerd {
    port: Port,
    pair: Pair,
    records: Records,
    server: Option<TlsServer>,
}

impl Linkerd {
    pub(crate) async fn start(port: Port, pair: Pair, records: Records) -> Self {
        let mut linkerd = Self {
            port,
            pair,
            records,
            server: None,
        };
        linkerd.resume().await;
        linkerd
    }

    /// Nobody answers at its address.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    /// It answers again.
    pub(crate) async fn resume(&mut self) {
        let listener = TcpListener::bind(self.port.address()).await.unwrap();
        let records = self.records.clone();
        let answer = move |request: Request<Incoming>| {
            let records = records.clone();
            async move {
                let review = tls_server::review(request).await;
                Ok(tls_server::reply(&review, records.response(&review)))
            }
        };
        let Pair { certificate, key, .. } = &self.pair;
        self.server = Some(TlsServer::start(listener, (certificate, key), answer));
    }
}
