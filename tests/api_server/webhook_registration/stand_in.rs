//! A webhook that marks every object it is shown, and reads its certificate anew for every connection.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(super) struct StandIn {
    pub(super) address: SocketAddr,
}

impl StandIn {
    /// Serves on the runtime of the calling test, and ends with it.
    pub(super) async fn start(tls: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor(&tls)));
            }
        });
        Self { address }
    }
}

fn acceptor(tls: &Path) -> TlsAcceptor {
    let read = |name: &str| fs::read(tls.join(name)).unwrap();
    let chain = CertificateDer::pem_slice_iter(&read("tls.crt"))
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Answers one request, so that the next one needs a new connection.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = TowerToHyperService::new(Router::new().route("/", post(answer)));
    let mut server = Builder::new(hyper_util::rt::TokioExecutor::new());
    server.http1().keep_alive(false);
    server.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn answer(Json(review): Json<Value>) -> Json<Value> {
    let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {"stand-in": "called"}}]);
    Json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()),
        },
    }))
}
