//! A client with real sockets, and the folder of a kubelet.

use crate::webhook::certificate::looker;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::SupportedProtocolVersion;
use rustls::pki_types::{CertificateDer, ServerName};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection to the webhook's port.
pub(super) struct Connection {
    /// The certificate that the server showed.
    pub(super) certificate: CertificateDer<'static>,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(super) async fn http1(address: SocketAddr) -> Self {
        let stream = tls(address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
        let certificate = shown(&stream);
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let sender = Sender::Http1(sender);
        Self { certificate, sender }
    }

    pub(super) async fn http2(address: SocketAddr) -> Self {
        let stream = tls(address, &[b"h2", b"http/1.1"], rustls::ALL_VERSIONS).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let certificate = shown(&stream);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let sender = Sender::Http2(sender);
        Self { certificate, sender }
    }

    /// Sends a review and waits for the answer.
    pub(super) async fn ask(&mut self, body: &str) -> (u16, String) {
        let body = Full::new(Bytes::from(body.to_owned()));
        match &mut self.sender {
            Sender::Http1(sender) => {
                let request = Request::post("/").header("host", "localhost").body(body).unwrap();
                read(sender.send_request(request).await.unwrap()).await
            }
            Sender::Http2(sender) => {
                let request = Request::post("https://localhost/").body(body).unwrap();
                read(sender.send_request(request).await.unwrap()).await
            }
        }
    }
}

async fn read(response: Response<Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Asks for `path` in plain HTTP/1.1.
pub(super) async fn plain(address: SocketAddr, path: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path)
        .header("host", "localhost")
        .body(Full::<Bytes>::default())
        .unwrap();
    read(sender.send_request(request).await.unwrap()).await
}

/// A TLS connection, whatever the certificate.
pub(super) async fn tls(
    address: SocketAddr,
    protocols: &[&[u8]],
    versions: &[&'static SupportedProtocolVersion],
) -> TlsStream<TcpStream> {
    let mut config = looker(versions).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

/// A certificate and its key in PEM, and the certificate in DER.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) der: CertificateDer<'static>,
}

impl Pair {
    pub(super) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the tests play the kubelet")]
pub(super) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// A Secret as the kubelet mounts it: files are links through `..data` into a folder of their time.
pub(super) struct Mount {
    folder: TempDir,
    time: usize,
}

impl Mount {
    pub(super) fn new(certificate: &str, key: &str) -> Self {
        let mut mount = Self {
            folder: TempDir::new().unwrap(),
            time: 0,
        };
        mount.swap(certificate, key);
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), mount.path().join(name)).unwrap();
        }
        mount
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Swaps the content at once, and removes the old one.
    #[expect(clippy::disallowed_methods, reason = "the tests play the kubelet")]
    pub(super) fn swap(&mut self, certificate: &str, key: &str) {
        let old = self.path().join(format!("..{}", self.time));
        self.time += 1;
        let name = format!("..{}", self.time);
        let new = self.path().join(&name);
        fs::create_dir_all(&new).unwrap();
        write(&new.join("tls.crt"), certificate);
        write(&new.join("tls.key"), key);
        symlink(&name, self.path().join("..data_tmp")).unwrap();
        fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
        if self.time > 1 {
            fs::remove_dir_all(old).unwrap();
        }
    }
}
