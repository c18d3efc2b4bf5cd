//! What the benches of a webhook that watches a real API server have in common.

#[path = "../../tests/cluster/cluster.rs"]
pub(crate) mod cluster;

pub(crate) mod client;
pub(crate) mod objects;
pub(crate) mod process;
pub(crate) mod review;
pub(crate) mod server;

use cluster::Cluster;
use server::{Files, Server};
use std::process::ExitCode;

/// A webhook that watches `cluster`, and its files.
pub(crate) async fn webhook(cluster: &Cluster) -> (Server, Files) {
    let kubeconfig = cluster.webhook_kubeconfig().await;
    let files = Files::new().unwrap();
    let webhook = Server::webhook(&files, |command| {
        command.arg("--kubeconfig").arg(kubeconfig);
    });
    (webhook.unwrap(), files)
}

/// Says of a `budget` whether it was kept; so does the exit status.
pub(crate) fn verdict(budget: &str, kept: bool) -> ExitCode {
    println!("budget {budget}: {}", if kept { "kept" } else { "exceeded" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
