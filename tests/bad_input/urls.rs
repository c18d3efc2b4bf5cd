//! Manifests at URLs, whose servers say what they like.

use crate::{command, finished, run};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n";

/// A server on the loopback, and what vouches for it.
struct Server {
    address: SocketAddr,
    files: tempfile::TempDir,
}

impl Server {
    /// Answers over TLS, or without.
    fn start(tls: bool) -> Self {
        let files = tempfile::tempdir().unwrap();
        let certs = Command::new(env!("CARGO_BIN_EXE_outrigger"))
            .args(["certs", "--dns", "localhost", "--out"])
            .arg(files.path())
            .output()
            .unwrap();
        assert!(certs.status.success(), "{}", String::from_utf8_lossy(&certs.stderr));
        let certificate = CertificateDer::pem_file_iter(files.path().join("tls.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_file(files.path().join("tls.key")).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificate.map(Result::unwrap).collect(), key)
            .unwrap();
        let config = tls.then(|| Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let config = config.clone();
                thread::spawn(move || match config {
                    Some(config) => answer(
                        StreamOwned::new(ServerConnection::new(config).unwrap(), socket),
                        address,
                    ),
                    None => answer(socket, address),
                });
            }
        });
        Self { address, files }
    }

    /// `injecting` the page, the server's certificate authority being trusted.
    fn trusted(&self, page: &str) -> Command {
        let mut command = self.untrusted(page);
        command.env("SSL_CERT_FILE", self.files.path().join("ca.crt"));
        command
    }

    fn untrusted(&self, page: &str) -> Command {
        let mut command = command(Path::new("/"), "inject --ignore-cluster");
        command.arg(format!("https://localhost:{}/{page}", self.address.port()));
        command
            .env_remove("SSL_CERT_FILE")
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy");
        command
    }
}

/// Answers one request by the page that it asks for.
fn answer(stream: impl Read + Write, address: SocketAddr) {
    let mut stream = BufReader::new(stream);
    let (mut request, mut header) = (String::new(), String::new());
    if stream.read_line(&mut request).is_err() {
        return;
    }
    while header != "\r\n" {
        header.clear();
        stream.read_line(&mut header).unwrap();
    }
    let stream = stream.get_mut();
    let page = request.split([' ', '?']).nth(1).unwrap().trim_start_matches('/');
    let to = |status, scheme| format!("{status}\r\nlocation: {scheme}://localhost:{}/pod", address.port());
    let (head, body) = match page {
        "pod" => ("200 OK".to_owned(), POD),
        "moved" => (to("302 Found", "https"), ""),
        "downgraded" => (to("302 Found", "http"), ""),
        "broken" => ("200 OK".to_owned(), "a: b: c\n"),
        "endless" => ("200 OK\r\nx: y".to_owned(), ""),
        _ => ("404 Not Found".to_owned(), "no such page"),
    };
    let length = if page == "endless" {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let sent = write!(stream, "HTTP/1.1 {head}\r\n{length}connection: close\r\n\r\n{body}");
    let mut going = sent.and_then(|()| stream.flush()).is_ok() && page == "endless";
    while going {
        going = stream.write_all(&[b'x'; 1 << 12]).is_ok();
    }
}

#[test]
fn what_a_trusted_server_has_is_read() {
    let server = Server::start(true);
    for page in ["pod", "moved"] {
        let run = finished(server.trusted(page).output().unwrap(), page);
        assert_eq!(run.status, 0, "{}", run.said);
        assert!(run.printed.contains("linkerd.io/inject: enabled"), "{}", run.printed);
        assert_eq!(run.said, "\npod \"web\" injected\n\n");
    }
}

#[test]
fn what_a_server_says_is_told() {
    let server = Server::start(true);
    let url = |page: &str| format!("https://localhost:{}/{page}", server.address.port());
    let failed = |mut command: Command, part: &str| finished(command.output().unwrap(), part).expect_failure(1, part);
    let missing = format!(
        "unable to read URL {:?}, server reported 404 Not Found, status code=404",
        url("missing")
    );
    failed(server.trusted("missing"), &missing);
    failed(server.trusted("downgraded"), &url("downgraded"));
    failed(
        server.trusted("broken"),
        &format!("{}: mapping values are not allowed", url("broken")),
    );
    failed(server.untrusted("pod"), "invalid peer certificate");
    let mut secret = server.trusted("missing?token=secret");
    let run = finished(secret.output().unwrap(), "secret");
    run.expect_failure(1, "404");
    assert!(!run.said.contains("secret"), "{}", run.said);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    run_failed(
        folder.path(),
        &format!("http://localhost:{port}/a"),
        "Connection refused",
    );
    run_failed(
        folder.path(),
        "http://example.org/a.yaml",
        "only HTTPS URLs are allowed",
    );
}

#[test]
fn what_has_no_end_is_given_up() {
    let server = Server::start(false);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}/endless", server.address.port());
    run_failed(folder.path(), &url, &format!("{url}: is larger than 256 MiB"));
}

fn run_failed(folder: &Path, url: &str, part: &str) {
    run(folder, &format!("inject --ignore-cluster {url}")).expect_failure(1, part);
}
