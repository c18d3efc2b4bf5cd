//! A validating webhook of somebody else: it refuses `NET_ADMIN`, or never answers.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cluster::Authority;

/// A webhook that answers for as long as the runtime of its test runs.
pub(crate) struct Validator {
    address: String,
    bundle: String,
}

impl Validator {
    pub(crate) async fn start() -> Self {
        let authority = Authority::new();
        let pair = authority.issue();
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let connection = http1::Builder::new();
                    connection
                        .serve_connection(TokioIo::new(stream), service_fn(answer))
                        .await
                        .ok();
                });
            }
        });
        Self {
            address,
            bundle: STANDARD.encode(authority.certificate()),
        }
    }

    /// Its entry of a configuration, for the namespaces and the objects of the selectors.
    pub(crate) fn entry(&self, name: &str, path: &str, namespaces: &Value, objects: &Value) -> Value {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}{path}", self.address), "caBundle": self.bundle},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": namespaces},
            "objectSelector": {"matchLabels": objects},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
        })
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/hang" {
        std::future::pending::<()>().await;
    }
    let body = request.into_body().collect().await;
    let bytes = body.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let allowed = !review["request"]["object"]["spec"].to_string().contains("NET_ADMIN");
    let response = json!({"uid": review["request"]["uid"], "allowed": allowed,
        "status": {"code": 403, "message": "NET_ADMIN is not for you"}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::new(review.to_string().into())))
}
