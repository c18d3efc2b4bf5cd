//! The real `outrigger webhook` process, called by a real API server.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use kube::Client;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::process::Process;
use super::{Authority, Cluster, FailurePolicy, Port, Registration, TlsDir, poll};

/// The webhook reads its files and lists the namespaces before it is ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Kubelet itself takes up to a minute to bring a new Secret to a pod.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

/// What a test may choose about its webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookOptions {
    /// The `values` document of `linkerd-config`, YAML.
    pub(crate) values: String,
    pub(crate) on_failure: FailurePolicy,
    /// Flags after those of the harness.
    pub(crate) flags: Vec<String>,
}

/// A running webhook, registered for the namespaces with [`Webhook::label`]; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Webhook {
    process: Process,
    files: Files,
    registration: Registration,
}

/// What outlives a restart of the process.
#[derive(Debug)]
struct Files {
    authority: Authority,
    tls: TlsDir,
    listen: Port,
    admin: Port,
    kubeconfig: PathBuf,
    flags: Vec<String>,
    scratch: TempDir,
}

impl Webhook {
    /// Starts the webhook, waits until it is ready, and registers it. The error holds the end of its log.
    pub(crate) async fn start(cluster: &Cluster, client: &Client, options: WebhookOptions) -> Result<Self, String> {
        let authority = Authority::new();
        let files = Files {
            tls: TlsDir::new(&authority),
            authority,
            listen: Port::reserve(),
            admin: Port::reserve(),
            kubeconfig: cluster.kubeconfig(),
            flags: options.flags,
            scratch: TempDir::new().expect("a temporary folder can be made"),
        };
        files.write("values.yaml", &options.values);
        files.write("trust-anchors.pem", &files.authority.certificate());
        let process = files.spawn().await?;
        let address = files.listen.address();
        let registration = Registration::create(client, address, &files.authority, options.on_failure).await;
        Ok(Self {
            process,
            files,
            registration,
        })
    }
}

#[expect(dead_code, reason = "for the scenarios of the real webhook")]
impl Webhook {
    /// The label that a namespace needs for its pods and services to go to this webhook.
    pub(crate) fn label(&self) -> (&str, &str) {
        self.registration.label()
    }

    /// Where the webhook serves TLS.
    pub(crate) fn address(&self) -> SocketAddr {
        self.files.listen.address()
    }

    /// The process id, to read its memory and CPU time by.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The mount that the webhook reads its certificate from.
    pub(crate) fn tls(&self) -> &TlsDir {
        &self.files.tls
    }

    /// The end of the webhook's log.
    pub(crate) fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// The status and body of `path`, such as `/metrics`, on the port for the operator.
    pub(crate) async fn read(&self, path: &str) -> Result<(u16, String), Box<dyn Error>> {
        read(self.files.admin.address(), path).await
    }

    /// Puts a new certificate in the mount and waits until the webhook presents it.
    pub(crate) async fn rotate_certificate(&self) {
        let rotated = self.files.tls.rotate(&self.files.authority).der;
        let served = async || {
            self.files
                .authority
                .served_by(self.address())
                .await
                .filter(|served| *served == rotated)
        };
        poll(RELOAD_LIMIT, served)
            .await
            .expect("the webhook presents the new certificate");
    }

    /// Sends SIGTERM, waits for the end, and starts the webhook again on the same ports and files.
    pub(crate) async fn restart(self) -> Result<(Self, ExitStatus), String> {
        let ended = self.process.terminate().await;
        let process = self.files.spawn().await?;
        Ok((
            Self {
                process,
                files: self.files,
                registration: self.registration,
            },
            ended,
        ))
    }

    /// Sends SIGTERM and waits for the end; the registration stays.
    pub(crate) async fn stop(self) -> ExitStatus {
        self.process.terminate().await
    }
}

impl Files {
    fn write(&self, name: &str, text: &str) {
        fs::write(self.scratch.path().join(name), text).expect("a file of the webhook can be written");
    }

    /// Starts the process and waits for `/ready`.
    async fn spawn(&self) -> Result<Process, String> {
        let file = |name: &str| self.scratch.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command
            .arg("webhook")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--listen", &self.listen.address().to_string()])
            .args(["--admin-listen", &self.admin.address().to_string()])
            .arg("--tls-dir")
            .arg(self.tls.path())
            .arg("--values")
            .arg(file("values.yaml"))
            .arg("--trust-anchors")
            .arg(file("trust-anchors.pem"))
            .args(&self.flags);
        let mut process = Process::spawn("webhook", &mut command, self.scratch.path());
        let ready = poll(START_LIMIT, async || match process.ended() {
            Some(status) => Some(Err(format!("the webhook ended: {status}"))),
            None => matches!(read(self.admin.address(), "/ready").await, Ok((200, _))).then_some(Ok(())),
        });
        let ready = ready
            .await
            .unwrap_or_else(|| Err(format!("the webhook is not ready after {START_LIMIT:?}")));
        ready.map_err(|message| format!("{message}; {}", process.log_tail()))?;
        Ok(process)
    }
}

/// The status and body of `path` at the plain HTTP server at `address`.
pub(crate) async fn read(address: SocketAddr, path: &str) -> Result<(u16, String), Box<dyn Error>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.into())?))
}
