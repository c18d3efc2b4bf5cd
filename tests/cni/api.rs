//! A stand-in for the API server: real TLS, one answer a connection, and the credentials file that leads to it.

use crate::authority::Authority;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// What the stand-in does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Sends this object with this status, in chunks.
    Send(u16, Value),
    /// Never answers.
    Nothing,
}

/// A stand-in, and the folder with its credentials.
#[derive(Debug)]
pub(crate) struct Api {
    folder: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    port: u16,
    authority: Authority,
}

/// The token that the credentials hold.
pub(crate) const TOKEN: &str = "token-of-the-node";

impl Api {
    /// Answers in turn; the last answer is repeated.
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let authority = Authority::new();
        let tls = Arc::new(tls(&authority));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, log, answers) = (Arc::clone(&tls), Arc::clone(&log), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, tls, &log, &answers));
            }
        });
        let api = Self {
            folder: TempDir::new().expect("a folder can be made"),
            requests,
            port,
            authority,
        };
        api.write_credentials(&json!({"token": TOKEN}));
        api
    }

    /// Has one pod.
    pub(crate) fn with(pod: &Value) -> Self {
        Self::new([Answer::Send(200, pod.clone())])
    }

    /// Refuses with `status`, as an API server does.
    pub(crate) fn refusing(status: u16) -> Self {
        Self::new([refusal(status)])
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The head of every request.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no test panics with it").clone()
    }

    /// Writes the credentials file with this user.
    pub(crate) fn write_credentials(&self, user: &Value) {
        std::fs::write(self.folder.path().join("ca.crt"), self.authority.certificate()).expect("a file can be written");
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "node",
            "contexts": [{"name": "node", "context": {"cluster": "local", "user": "node"}}],
            "clusters": [{"name": "local", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "certificate-authority": "ca.crt",
            }}],
            "users": [{"name": "node", "user": user}],
        });
        std::fs::write(self.kubeconfig(), document.to_string()).expect("a file can be written");
    }
}

/// The object that an API server refuses with.
pub(crate) fn refusal(status: u16) -> Answer {
    Answer::Send(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}),
    )
}

fn tls(authority: &Authority) -> ServerConfig {
    let pair = authority.issue();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("it was just made");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.expect("the versions are supported").with_no_client_auth();
    builder
        .with_single_cert(vec![pair.der], key)
        .expect("certificate and key belong together")
}

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, log: &Mutex<Vec<String>>, answers: &Mutex<VecDeque<Answer>>) {
    let connection = ServerConnection::new(tls).expect("the configuration is complete");
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        match reader.read_line(&mut head) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    log.lock().expect("no test panics with it").push(head);
    let next = {
        let mut answers = answers.lock().expect("no test panics with it");
        let next = answers.front().cloned().expect("there is an answer");
        if answers.len() > 1 {
            answers.pop_front();
        }
        next
    };
    let Answer::Send(status, object) = next else {
        // Held open until the other side gives up.
        let _closed = reader.read_line(&mut String::new());
        return;
    };
    let body = object.to_string();
    let (first, rest) = body.split_at(body.len() / 2);
    let head =
        format!("HTTP/1.1 {status} Text\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunks = format!(
        "{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
        first.len(),
        rest.len()
    );
    let StreamOwned { conn, sock } = reader.get_mut();
    let _gone = conn.writer().write_all((head + &chunks).as_bytes());
    conn.send_close_notify();
    while conn.wants_write() && conn.write_tls(sock).is_ok() {}
}
