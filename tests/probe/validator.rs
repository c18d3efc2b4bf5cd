//! A validating webhook of somebody else: it refuses `NET_ADMIN`, or never answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cluster::Authority;
use crate::cluster::tls_server::{self, TlsServer};

/// A webhook that answers until it is dropped.
pub(crate) struct Validator {
    _server: TlsServer,
    address: String,
    bundle: String,
}

impl Validator {
    pub(crate) async fn start() -> Self {
        let authority = Authority::new();
        let pair = authority.issue();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self {
            _server: TlsServer::start(listener, (&pair.certificate, &pair.key), answer),
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

async fn answer(request: Request<Incoming>) -> tls_server::Answer {
    if request.uri().path() == "/hang" {
        std::future::pending::<()>().await;
    }
    let review = tls_server::review(request).await;
    let allowed = !review["request"]["object"]["spec"].to_string().contains("NET_ADMIN");
    let response = json!({"allowed": allowed, "status": {"code": 403, "message": "NET_ADMIN is not for you"}});
    Ok(tls_server::reply(&review, response))
}
