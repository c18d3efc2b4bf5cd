//! The real `outrigger probe` process, as its own service account.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use kube::Client;
use serde_json::Value;
use tempfile::TempDir;

use crate::LIMIT;
use crate::cluster::webhook::read;
use crate::cluster::{Cluster, Port, Process, Verb, call, poll};

/// Where findings are.
pub(crate) const FINDINGS: &str = "/api/v1/namespaces/linkerd/configmaps/outrigger-probe-findings";

/// A running probe; dropping it ends the process.
pub(crate) struct Prober {
    process: Process,
    admin: Port,
    _scratch: TempDir,
}

/// Installs what the probe needs, as `webhook-config/probe/README.md` says; the Deployment's pod is [`Prober::start`].
pub(crate) fn install(cluster: &Cluster) {
    for file in [
        "rbac.yaml",
        "dry-run-only.yaml",
        "grant/create-pods.yaml",
        "deployment.yaml",
    ] {
        cluster.apply(&format!("webhook-config/probe/{file}"));
    }
}

impl Prober {
    /// Starts a probe with the account's rights and `values`.
    pub(crate) async fn start(cluster: &Cluster, values: &str) -> Self {
        let kubeconfig = cluster.account_kubeconfig("outrigger-probe").await;
        Self::start_as(&kubeconfig, values, &[])
    }

    /// Starts one with what `kubeconfig` may do.
    pub(crate) fn start_as(kubeconfig: &Path, values: &str, flags: &[&str]) -> Self {
        let scratch = TempDir::new().unwrap();
        let file = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let admin = Port::reserve();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command
            .arg("probe")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--values")
            .arg(file("values.yaml", values))
            .arg("--trust-anchors")
            .arg(file("anchors.pem", "anchors"))
            .args(["--rate", "50", "--admin-listen", &admin.address().to_string()])
            .args(flags);
        Self {
            process: Process::spawn("probe", &mut command, scratch.path()),
            admin,
            _scratch: scratch,
        }
    }

    /// The status and body of `path` on the port for the operator.
    pub(crate) async fn read(&self, path: &str) -> Option<(u16, String)> {
        read(self.admin.address(), path).await.ok()
    }

    /// Waits until `path` has `text` in its answer.
    pub(crate) async fn until(&mut self, path: &str, text: &str) -> (u16, String) {
        let found = async || self.read(path).await.filter(|(_, body)| body.contains(text));
        let found = poll(LIMIT, found).await;
        let last = self.read(path).await;
        found.unwrap_or_else(|| panic!("{path} never has {text:?}: {last:?}\n{}", self.process.log_tail()))
    }

    /// How the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(self) -> ExitStatus {
        self.process.terminate().await
    }
}

/// What is written down of `namespace`; null where nothing is.
pub(crate) async fn finding(client: &Client, namespace: &str) -> Value {
    let map = call(client, Verb::Get, FINDINGS, None).await.unwrap().body;
    let text = map["data"][namespace].as_str().unwrap_or("null");
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Waits until what is written down of `namespace` is as `wanted`.
pub(crate) async fn until_found(
    client: &Client,
    prober: &Prober,
    namespace: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let found = async || Some(finding(client, namespace).await).filter(&wanted);
    match poll(LIMIT, found).await {
        Some(finding) => finding,
        None => panic!("{namespace}: {}\n{}", finding(client, namespace).await, prober.log()),
    }
}
