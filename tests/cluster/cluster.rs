//! A real control plane for tests: etcd and kube-apiserver on loopback, with what a test does to them.
//!
//! One [`shared`] server serves every test of a target, for it takes seconds to start; a test that changes the server
//! itself starts its own. The tests stay ordinary libtest tests, with its filters, threads and output. That leaves the
//! shared server in a static, which nobody drops: each process has a watchdog that the kernel wakes when the test
//! process is gone, however it went ([`process`]). A test runner of our own could clean up at the end of `main`, but
//! not after an abort or SIGKILL; the parent-death signal needs unsafe code, and follows the thread that spawned, not
//! the process.
//!
//! There is no controller-manager: nothing makes pods of a Deployment, and the `default` service account exists only in
//! the namespaces that [`Namespace::create`] makes.

mod account;
mod api_server;
mod assets;
pub(crate) mod audit;
mod authority;
mod deadline;
mod installed;
mod namespace;
mod port;
pub(crate) mod process;
mod registration;
mod reply;
pub(crate) mod service;
mod tls_dir;
pub(crate) mod tls_server;
pub(crate) mod webhook;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

pub(crate) use assets::built;
pub(crate) use audit::{AuditEvent, granted};
pub(crate) use authority::Authority;
pub(crate) use deadline::poll;
pub(crate) use installed::{Installed, UNASKED, plugin, with_services};
pub(crate) use namespace::Namespace;
pub(crate) use port::Port;
pub(crate) use registration::{FailurePolicy, Registration};
pub(crate) use reply::{Reply, Verb, call, create};
pub(crate) use tls_dir::TlsDir;
pub(crate) use webhook::{Webhook, WebhookOptions};

pub(crate) use process::Process;

use api_server::{ApiServer, Hanging};

/// Which kube-apiserver runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edition {
    /// The newest release.
    #[default]
    Newest,
    /// 1.24, the last with `PodSecurityPolicy`, with that plugin on: nobody gets a pod without a policy.
    PodSecurityPolicy,
}

/// What a test may choose about its API server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Which one it is; a server that starts again stays what it was.
    pub(crate) edition: Edition,
    /// Flags after those of the harness, `--flag=value`; of a flag given twice the API server takes the last.
    pub(crate) flags: Vec<String>,
    /// An `AdmissionConfiguration` (`apiserver.config.k8s.io/v1`).
    pub(crate) admission: Option<Value>,
}

/// A running control plane; dropping it ends both processes.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The kubeconfig of the webhook's account, made for the first webhook.
    account: OnceCell<PathBuf>,
    api_server: ApiServer,
    _etcd: Process,
    scratch: TempDir,
}

/// The cluster of this test process, started by the first test that asks.
pub(crate) async fn shared() -> &'static Cluster {
    static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();
    match SHARED.get_or_init(|| Cluster::start(Options::default())).await {
        Ok(cluster) => cluster,
        Err(message) => panic!("{message}"),
    }
}

impl Cluster {
    /// Starts a control plane and waits until it is ready. The error holds the end of the log of what failed.
    pub(crate) async fn start(options: Options) -> Result<Self, String> {
        let programs = built("control-plane")?;
        let scratch = tempfile::Builder::new()
            .prefix("outrigger-cluster-")
            .tempdir()
            .expect("a folder can be made");
        let client = Port::reserve();
        let etcd = start_etcd(&programs, &client, scratch.path());
        let server = match options.edition {
            Edition::Newest => programs,
            Edition::PodSecurityPolicy => built("psp")?,
        };
        let api_server = ApiServer::start(&server, &client, scratch.path(), options).await?;
        Ok(Self {
            account: OnceCell::new(),
            api_server,
            _etcd: etcd,
            scratch,
        })
    }

    /// Stops the API server and starts it again with `options`, on the same port and data.
    pub(crate) async fn restart_api_server(&mut self, options: Options) -> Result<(), String> {
        self.api_server.restart(self.scratch.path(), options).await
    }

    /// Stops the API server; it stays away until it is started again.
    pub(crate) async fn stop_api_server(&mut self) {
        self.api_server.stop().await;
    }

    /// Has the API server hang: it takes connections and answers nobody, until what this returns is dropped.
    pub(crate) fn hang_api_server(&self) -> Hanging {
        self.api_server.hang()
    }

    /// The port of the API server, on loopback.
    pub(crate) fn port(&self) -> u16 {
        self.api_server.port()
    }

    /// A file that the API server was given, or has made: `service-account.key` and the like.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A client with every right. It belongs to the runtime of the calling test: make one a test.
    pub(crate) async fn client(&self) -> Client {
        self.client_as(None).await
    }

    /// A client that impersonates `user` (of no group but `system:authenticated`), or is itself for none.
    pub(crate) async fn client_as(&self, user: Option<&str>) -> Client {
        let client = api_server::connect(self.scratch.path(), user).await;
        client.unwrap_or_else(|error| panic!("no client of the API server: {error}"))
    }

    /// The kubeconfig file of an account with every right.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        api_server::kubeconfig(self.scratch.path())
    }

    /// The kubeconfig file of the webhook's service account, with the rights of `webhook-config/rbac.yaml` alone.
    pub(crate) async fn webhook_kubeconfig(&self) -> &Path {
        self.account.get_or_init(async || account::create(self).await).await
    }

    /// The kubeconfig file of another service account of the control plane's namespace, which is there already.
    pub(crate) async fn account_kubeconfig(&self, name: &str) -> PathBuf {
        account::kubeconfig(self, account::NAMESPACE, name).await
    }

    /// The same of any namespace.
    pub(crate) async fn account_kubeconfig_in(&self, namespace: &str, name: &str) -> PathBuf {
        account::kubeconfig(self, namespace, name).await
    }

    fn write_kubeconfig(&self, name: &str, token: &str) -> PathBuf {
        self.api_server.write_kubeconfig(self.scratch.path(), name, token)
    }

    /// What the API server has written down of the webhook's requests and of pods that were created.
    pub(crate) fn audit_log(&self) -> Vec<AuditEvent> {
        audit::read(self.scratch.path())
    }

    /// Runs `kubectl` with every right.
    pub(crate) fn kubectl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        assets::kubectl(|command| {
            let cache = self.scratch.path().join("kubectl");
            command
                .arg("--kubeconfig")
                .arg(self.kubeconfig())
                .arg("--cache-dir")
                .arg(cache)
                .args(arguments);
        })
    }

    /// Applies the manifests of `file`, a path in the repository, as somebody who installs them does.
    pub(crate) fn apply(&self, file: &str) {
        let file = repository().join(file);
        let output = self.kubectl([OsStr::new("apply"), OsStr::new("--filename"), file.as_os_str()]);
        assert!(
            output.status.success(),
            "{}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The folder of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Starts etcd, its clients to come to `client`; the API server waits for it by itself.
fn start_etcd(programs: &Path, client: &Port, scratch: &Path) -> Process {
    let peer = Port::reserve();
    let (client, peer_url) = (
        format!("http://{}", client.address()),
        format!("http://{}", peer.address()),
    );
    let data = scratch.join("etcd");
    fs::create_dir(&data).expect("a folder can be made");
    let mut command = Command::new(programs.join("etcd"));
    command
        .arg("--unsafe-no-fsync")
        .arg("--data-dir")
        .arg(data)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ])
        .args(["--initial-cluster", &format!("default={peer_url}")]);
    Process::spawn("etcd", &mut command, scratch)
}
