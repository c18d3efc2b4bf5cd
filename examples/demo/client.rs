//! A client that does what the API server does: TLS, trust in one certificate, reviews over one connection.

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection, opened at the first review.
pub(crate) struct Connection {
    address: SocketAddr,
    trusted: CertificateDer<'static>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// A connection to `address`, where only `trusted` is taken for the server.
    pub(crate) fn new(address: SocketAddr, trusted: CertificateDer<'static>) -> Self {
        Self {
            address,
            trusted,
            sender: None,
        }
    }

    /// Sends a review; the answer is its `response`.
    pub(crate) async fn review(&mut self, review: &Value) -> Result<Value> {
        if self.sender.is_none() {
            self.sender = Some(self.connect().await?);
        }
        let sender = self.sender.as_mut().context("no connection")?;
        let request = Request::post("/")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(serde_json::to_vec(review)?)))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&body));
        let answer: Value = serde_json::from_slice(&body)?;
        answer.get("response").cloned().context("a review without a response")
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost")?, stream)
            .await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
