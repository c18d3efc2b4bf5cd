//! The kube-apiserver process: its files, its flags, its readiness.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::process::Process;
use super::{Edition, Options, Port, Verb, audit, authority, call, poll};

/// A start takes 5 to 7 s on two idle cores.
const START_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct ApiServer {
    process: Option<Process>,
    program: PathBuf,
    edition: Edition,
    etcd: String,
    port: Port,
}

/// The kubeconfig file under `scratch`; it names an account of `system:masters`.
pub(super) fn kubeconfig(scratch: &Path) -> PathBuf {
    scratch.join("kubeconfig")
}

impl ApiServer {
    pub(super) async fn start(programs: &Path, etcd: &Port, scratch: &Path, options: Options) -> Result<Self, String> {
        let mut server = Self {
            process: None,
            program: programs.join("kube-apiserver"),
            edition: options.edition,
            etcd: format!("http://{}", etcd.address()),
            port: Port::reserve(),
        };
        write_credentials(scratch, &server.port);
        server.run(scratch, options).await?;
        Ok(server)
    }

    pub(super) async fn restart(&mut self, scratch: &Path, options: Options) -> Result<(), String> {
        self.stop().await;
        self.run(scratch, options).await
    }

    pub(super) async fn stop(&mut self) {
        match (self.process.take(), self.edition) {
            (None, _) => {}
            (Some(process), Edition::Newest) => {
                process.terminate().await;
            }
            // It would wait a minute for its watches, and has no flag to shorten that.
            (Some(process), Edition::PodSecurityPolicy) => drop(process),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Writes a kubeconfig with `token` under `scratch`, as `name`.
    pub(super) fn write_kubeconfig(&self, scratch: &Path, name: &str, token: &str) -> PathBuf {
        let file = scratch.join(name);
        let server = format!("https://{}", self.port.address());
        fs::write(&file, kubeconfig_with(&server, scratch, token)).expect("a kubeconfig can be written");
        file
    }

    /// Starts the process and waits until it is ready.
    async fn run(&mut self, scratch: &Path, options: Options) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(self.flags(scratch)).args(self.edition.flags());
        if let Some(configuration) = &options.admission {
            let file = scratch.join("admission.json");
            fs::write(&file, configuration.to_string()).expect("the configuration can be written");
            command.arg(format!("--admission-control-config-file={}", file.display()));
        }
        command.args(&options.flags);
        let process = self
            .process
            .insert(Process::spawn("kube-apiserver", &mut command, scratch));
        let ready = poll(START_LIMIT, async || match process.ended() {
            Some(status) => Some(Err(format!("kube-apiserver ended: {status}"))),
            None => is_ready(scratch).await.then_some(Ok(())),
        });
        let ready = ready
            .await
            .unwrap_or_else(|| Err(format!("kube-apiserver is not ready after {START_LIMIT:?}")));
        ready.map_err(|message| format!("{message}; {}", process.log_tail()))
    }

    fn flags(&self, scratch: &Path) -> Vec<String> {
        let file = |name: &str| scratch.join(name).display().to_string();
        vec![
            format!("--etcd-servers={}", self.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port.number()),
            format!("--cert-dir={}", scratch.display()),
            // Else it asks the machine's routes for an address, and fails where there are none. RFC 5737.
            "--advertise-address=192.0.2.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("service-account.pub")),
            format!("--service-account-signing-key-file={}", file("service-account.key")),
            format!("--audit-policy-file={}", file("audit-policy.json")),
            format!("--audit-log-path={}", audit::log(scratch).display()),
            // As on any cluster that runs a network plugin; without it API validation, not policy, refuses the pods.
            "--allow-privileged=true".to_owned(),
        ]
    }
}

impl Edition {
    /// What not every release knows.
    fn flags(self) -> &'static [&'static str] {
        match self {
            // Else watches keep a server that was told to stop waiting for a minute.
            Self::Newest => &["--shutdown-watch-termination-grace-period=5s"],
            Self::PodSecurityPolicy => &["--enable-admission-plugins=PodSecurityPolicy"],
        }
    }
}

/// Writes the audit policy, the service-account key, the token of the administrator, and a kubeconfig with that token.
fn write_credentials(scratch: &Path, port: &Port) {
    let write = |name: &str, text: String| fs::write(scratch.join(name), text).expect("a credential can be written");
    let key = authority::key();
    write("audit-policy.json", audit::policy().to_string());
    write("service-account.key", key.serialize_pem());
    write("service-account.pub", key.public_key_pem());
    let token = STANDARD.encode(authority::key().public_key_raw());
    write("tokens.csv", format!("{token},admin,admin,\"system:masters\"\n"));
    let server = format!("https://{}", port.address());
    write("kubeconfig", kubeconfig_with(&server, scratch, &token));
}

/// A kubeconfig for the API server at `server`, whose files are under `scratch`, with `token`.
fn kubeconfig_with(server: &str, scratch: &Path, token: &str) -> String {
    let configuration = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {
            "server": server,
            // Where the server leaves the certificate that it makes for itself.
            "certificate-authority": scratch.join("apiserver.crt"),
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
    });
    configuration.to_string()
}

/// A client of the server whose files are under `scratch`, impersonating `user` where there is one.
pub(super) async fn connect(scratch: &Path, user: Option<&str>) -> Result<Client, Box<dyn Error>> {
    let file = Kubeconfig::read_from(kubeconfig(scratch))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = user.map(str::to_owned);
    Ok(Client::try_from(config)?)
}

/// Whether the server says that it is ready. Its certificate, and so a client, is there only a while after its start.
async fn is_ready(scratch: &Path) -> bool {
    let Ok(client) = connect(scratch, None).await else {
        return false;
    };
    matches!(call(&client, Verb::Get, "/readyz", None).await, Ok(reply) if reply.code == 200)
}
