//! A server of somebody else's that speaks TLS: a webhook that is not ours.

use std::convert::Infallible;
use std::sync::Arc;

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
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What a server answers.
pub(crate) type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// A server that answers until it is dropped, and with it every connection.
#[derive(Debug)]
pub(crate) struct TlsServer {
    _tasks: JoinSet<()>,
}

impl TlsServer {
    /// Serves `answer` to whoever connects to `listener`, with the first certificate of `certificate` and its `key`, PEM.
    pub(crate) fn start<F>(
        listener: TcpListener,
        (certificate, key): (&str, &str),
        answer: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("they belong together");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                connections.spawn(async move {
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
        Self { _tasks: tasks }
    }
}

/// The review that a request brings.
pub(crate) async fn review(request: Request<Incoming>) -> Value {
    let body = request.into_body().collect().await;
    let bytes = body.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// The answer to a review, `response` being all but its `uid`.
pub(crate) fn reply(review: &Value, mut response: Value) -> Response<Full<Bytes>> {
    response["uid"] = review["request"]["uid"].clone();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Response::new(Full::new(answer.to_string().into()))
}
