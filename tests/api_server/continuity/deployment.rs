//! The chart as `outrigger install --ha` renders it, and three replicas behind its Service.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kube::Client;
use outrigger::webhook::certificate::Issued;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::LIMIT;
use super::balancer::Balancer;
use crate::certificates::{SETTLE, certificate_in, data, issued_in, shown_at, trusted_by};
use crate::cluster::service::{entries, reach_on_loopback};
use crate::cluster::{Cluster, Namespace, UNASKED, Verb, Webhook, WebhookOptions, call, poll, with_services};
use crate::scene::CNI;

/// As many as the chart has.
const REPLICAS: usize = 3;

const HOST: &str = "linkerd-proxy-injector.linkerd.svc";
const SECRET: &str = "/api/v1/namespaces/linkerd/secrets/outrigger-certificates";

pub(super) struct Deployment {
    pub(super) cluster: Cluster,
    pub(super) client: Client,
    kubeconfig: PathBuf,
    balancer: Balancer,
    replicas: Vec<Webhook>,
    /// How many replicas took the place of another.
    pub(super) replaced: usize,
    /// The certificates that came into use after the first.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl Deployment {
    pub(super) async fn install() -> Self {
        let cluster = Cluster::start(with_services("127.103.0.0/16")).await.unwrap();
        let client = cluster.client().await;
        Namespace::create_named(&client, "linkerd", &[UNASKED], &[]).await;
        apply(&cluster);
        let port = reach_on_loopback(&client).await;
        let kubeconfig = cluster.account_kubeconfig("linkerd-proxy-injector").await;
        let mut deployment = Self {
            cluster,
            client,
            kubeconfig,
            balancer: Balancer::start(&port).await,
            replicas: Vec::new(),
            replaced: 0,
            certificates: Vec::new(),
        };
        for _ in 0..REPLICAS {
            deployment.add_replica().await;
        }
        deployment
    }

    /// Starts a replica, and waits until the Service sends to it.
    pub(super) async fn add_replica(&mut self) {
        let flags = [
            "--certificate-secret=outrigger-certificates",
            "--certificate-settle",
            SETTLE,
        ];
        let options = WebhookOptions {
            flags: flags.map(str::to_owned).to_vec(),
            manages_certificate: true,
            kubeconfig: Some(self.kubeconfig.clone()),
            ..WebhookOptions::with_values(CNI)
        };
        let replica = Webhook::launch(&self.cluster, options).await;
        self.balancer.add(&replica).await;
        self.replicas.push(replica);
    }

    /// Kills all replicas.
    pub(super) fn lose_replicas(&mut self) {
        for replica in self.replicas.drain(..) {
            self.balancer.remove(replica.address());
        }
    }

    /// Replaces one replica after the other, as the chart's strategy does: one goes once another is ready.
    pub(super) async fn roll(&mut self) {
        for _ in 0..REPLICAS {
            self.add_replica().await;
            let old = self.replicas.remove(0);
            let address = old.address();
            let stopped = old.stop().await;
            assert!(stopped.status.success(), "{}", stopped.status);
            self.balancer.remove(address);
            self.replaced += 1;
        }
    }

    /// Time passes: the pair that is in use has 10 of its 90 days left, and is due to be renewed.
    pub(super) async fn age(&self) -> CertificateDer<'static> {
        self.store(&issued_in("linkerd", -80, 10)).await
    }

    /// Time passes: the pair that is in use has ended.
    pub(super) async fn expire(&self) -> CertificateDer<'static> {
        self.store(&issued_in("linkerd", -91, -1)).await
    }

    async fn store(&self, issued: &Issued) -> CertificateDer<'static> {
        let secret = json!({"data": data(issued)});
        let patched = call(&self.client, Verb::Patch, SECRET, Some(&secret)).await.unwrap();
        assert!(patched.accepted(), "{}", patched.code);
        certificate_in(&secret).unwrap()
    }

    /// Waits until every replica shows what the Secret holds, which is not `old`.
    pub(super) async fn renewed(&mut self, old: &CertificateDer<'_>) {
        let renewed = async || {
            let stored = certificate_in(&self.secret().await?).filter(|stored| stored != old)?;
            let bundle = trusted_by(entries(&self.client).await.first()?);
            for replica in &self.replicas {
                let shown = shown_at(replica.address(), HOST, bundle.clone()).await;
                shown.filter(|shown| *shown == stored)?;
            }
            Some(stored)
        };
        let logs = || {
            self.replicas
                .iter()
                .map(Webhook::log)
                .collect::<Vec<_>>()
                .join("\n---\n")
        };
        let renewed = poll(LIMIT, renewed).await;
        let renewed = renewed.unwrap_or_else(|| panic!("not renewed: {}", logs()));
        self.certificates.push(renewed);
    }

    async fn secret(&self) -> Option<Value> {
        let reply = call(&self.client, Verb::Get, SECRET, None).await.ok()?;
        reply.accepted().then_some(reply.body)
    }

    /// Stops the API server, and starts it again on the same data.
    pub(super) async fn restart_api_server(&mut self) {
        let options = with_services("127.103.0.0/16");
        self.cluster.restart_api_server(options).await.unwrap();
    }
}

/// Applies everything that the chart renders for high availability.
fn apply(cluster: &Cluster) {
    let mut install = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    let printed = install
        .args(["install", "--ha", "--server-version=1.36"])
        .output()
        .unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("outrigger.yaml");
    fs::write(&file, printed.stdout).unwrap();
    let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
