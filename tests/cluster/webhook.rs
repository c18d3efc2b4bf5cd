//! The real `outrigger webhook` process.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::process::Process;
use super::{Authority, Cluster, Port, TlsDir, poll};

/// The webhook reads its files and lists the namespaces before it is ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Kubelet itself takes up to a minute to bring a new Secret to a pod.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

/// What a test may choose about its webhook.
#[derive(Debug)]
pub(crate) struct WebhookOptions {
    /// The `values` document of `linkerd-config`, YAML.
    pub(crate) values: String,
    /// Flags after those of the harness.
    pub(crate) flags: Vec<String>,
    /// Where it serves TLS.
    pub(crate) listen: Port,
    /// Certificate and key, PEM, in the place of a pair of its own authority.
    pub(crate) pair: Option<(String, String)>,
    /// Whether it looks after its certificate itself, instead of being given one.
    pub(crate) manages_certificate: bool,
    /// The kubeconfig of its account, in the place of that of `webhook-config`.
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl WebhookOptions {
    pub(crate) fn with_values(values: &str) -> Self {
        Self {
            values: values.to_owned(),
            flags: Vec::new(),
            listen: Port::reserve(),
            pair: None,
            manages_certificate: false,
            kubeconfig: None,
        }
    }
}

/// A running webhook, which runs as its own service account; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Webhook {
    process: Process,
    files: Files,
}

/// A webhook that was stopped, with everything that it needs to start again.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) status: ExitStatus,
    files: Files,
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
    manages_certificate: bool,
    scratch: TempDir,
}

impl Webhook {
    /// Starts the webhook and waits until it is ready. The error holds the end of its log.
    pub(crate) async fn start(cluster: &Cluster, options: WebhookOptions) -> Result<Self, String> {
        Self::launch(cluster, options).await.ready().await
    }

    /// Starts the webhook.
    pub(crate) async fn launch(cluster: &Cluster, options: WebhookOptions) -> Self {
        let authority = Authority::new();
        let kubeconfig = match options.kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => cluster.webhook_kubeconfig().await.to_owned(),
        };
        let files = Files {
            tls: TlsDir::new(&authority),
            authority,
            listen: options.listen,
            admin: Port::reserve(),
            kubeconfig,
            flags: options.flags,
            manages_certificate: options.manages_certificate,
            scratch: TempDir::new().expect("a temporary folder can be made"),
        };
        if let Some((certificate, key)) = &options.pair {
            files.tls.write(certificate, key);
        }
        files.write("values.yaml", &options.values);
        files.write("trust-anchors.pem", &files.authority.certificate());
        files.spawn()
    }

    /// Waits until the webhook is ready. The error holds the end of its log.
    pub(crate) async fn ready(mut self) -> Result<Self, String> {
        let ready = poll(START_LIMIT, async || match self.process.ended() {
            Some(status) => Some(Err(format!("the webhook ended: {status}"))),
            None => matches!(self.read("/ready").await, Ok((200, _))).then_some(Ok(())),
        });
        let ready = ready
            .await
            .unwrap_or_else(|| Err(format!("the webhook is not ready after {START_LIMIT:?}")));
        match ready {
            Ok(()) => Ok(self),
            Err(message) => Err(format!("{message}; {}", self.process.log_tail())),
        }
    }

    /// Where the webhook serves TLS.
    pub(crate) fn address(&self) -> SocketAddr {
        self.files.listen.address()
    }

    /// Where it answers probes.
    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.files.admin.address()
    }

    /// Who vouches for its certificate.
    pub(crate) fn authority(&self) -> &Authority {
        &self.files.authority
    }

    /// What the webhook has logged.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// The status and body of `path`, such as `/metrics`, on the port for the operator.
    pub(crate) async fn read(&self, path: &str) -> Result<(u16, String), Box<dyn Error>> {
        read(self.files.admin.address(), path).await
    }

    /// What it answers to `PUT` of `body` to `path` on that port.
    pub(crate) async fn put(&self, path: &str, body: &'static str) -> Result<(u16, String), Box<dyn Error>> {
        let address = self.files.admin.address();
        let request = Request::put(path).header(HOST, address.to_string());
        send(TcpStream::connect(address).await?, request.body(body.into())?).await
    }

    /// The value of a metric; a series that is not there yet is 0.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.read("/metrics").await.expect("the webhook answers");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a metric is a number"))
    }

    /// Sends `body` to the port for reviews, as anybody could who reaches it: the status and body of the answer.
    pub(crate) async fn post(&self, body: Vec<u8>) -> Result<(u16, String), Box<dyn Error>> {
        let stream = self.files.authority.connect(self.address()).await?;
        let request = Request::post("/").header(HOST, self.address().to_string());
        send(stream, request.body(Full::new(body.into()))?).await
    }

    /// Connects to the port for reviews and takes nobody's word for its certificate: the handshake fails.
    pub(crate) async fn post_without_trust(&self) -> Result<(), Box<dyn Error>> {
        Authority::new().connect(self.address()).await?;
        Ok(())
    }

    /// Puts `values` in the place of the values document.
    pub(crate) fn write_values(&self, values: &str) {
        self.files.write("values.yaml", values);
    }

    /// Puts `certificate` and `key`, whatever they hold, in the mount.
    pub(crate) fn write_certificate(&self, certificate: &str, key: &str) {
        self.files.tls.write(certificate, key);
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

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(self) -> Stopped {
        Stopped {
            status: self.process.terminate().await,
            files: self.files,
        }
    }
}

impl Stopped {
    /// Starts the webhook again, on the same ports and files.
    pub(crate) async fn start(self) -> Result<Webhook, String> {
        self.files.spawn().ready().await
    }
}

impl Files {
    fn write(&self, name: &str, text: &str) {
        fs::write(self.scratch.path().join(name), text).expect("a file of the webhook can be written");
    }

    /// Starts the process.
    fn spawn(self) -> Webhook {
        let file = |name: &str| self.scratch.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command
            .arg("webhook")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--listen", &self.listen.address().to_string()])
            .args(["--admin-listen", &self.admin.address().to_string()])
            .arg("--values")
            .arg(file("values.yaml"))
            .arg("--trust-anchors")
            .arg(file("trust-anchors.pem"));
        match self.manages_certificate {
            true => command.arg("--manage-certificate"),
            false => command.arg("--tls-dir").arg(self.tls.path()),
        };
        command.args(&self.flags);
        let process = Process::spawn("webhook", &mut command, self.scratch.path());
        Webhook { process, files: self }
    }
}

/// The status and body of `path` at the plain HTTP server at `address`.
pub(crate) async fn read(address: SocketAddr, path: &str) -> Result<(u16, String), Box<dyn Error>> {
    let request = Request::get(path).header(HOST, address.to_string());
    send(TcpStream::connect(address).await?, request.body(Full::default())?).await
}

/// Sends one request over a new connection: the status and body of the answer.
async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(u16, String), Box<dyn Error>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.into())?))
}
