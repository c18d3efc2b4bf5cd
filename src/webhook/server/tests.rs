//! The whole server on loopback, over real sockets and real TLS.

mod client;
mod drain;
mod tls;

use super::*;
use client::{Connection, plain};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// No condition of these tests takes this long, unless it never holds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs.
struct Running {
    address: SocketAddr,
    admin: SocketAddr,
    phase: watch::Sender<Phase>,
    run: JoinHandle<()>,
}

/// A server on free ports of loopback that compares files all the time.
fn options() -> Options {
    let mut options = Options::standalone(vec![], None);
    options.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    options.admin_listen = options.listen;
    options.timings.reload = Duration::from_millis(5);
    options
}

async fn start(options: Options) -> Running {
    let server = Server::bind(options).await.unwrap();
    let (phase, follow) = watch::channel(Phase::Serving);
    Running {
        address: server.address(),
        admin: server.admin_address(),
        phase,
        run: tokio::spawn(server.run(follow)),
    }
}

impl Running {
    /// What the admin port answers.
    async fn admin(&self, path: &str) -> (u16, String) {
        plain(self.admin, path).await
    }

    async fn metrics(&self) -> String {
        self.admin("/metrics").await.1
    }

    /// Waits until the metrics have a line.
    async fn metric(&self, line: &str) {
        eventually(line, async || self.metrics().await.lines().any(|found| found == line)).await;
    }

    /// Waits until the server has stopped by itself.
    async fn ended(self) {
        timeout(PATIENCE, self.run).await.expect("the server goes on").unwrap();
    }
}

/// Waits until `holds`.
async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

fn review(uid: &str) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "object": {"metadata": {}}}})
    .to_string()
}

/// Whether `answer` admits the review called `uid`.
fn admits(answer: &(u16, String), uid: &str) -> bool {
    let body: Value = serde_json::from_str(&answer.1).unwrap_or_default();
    answer.0 == 200 && body["response"]["uid"] == uid && body["response"]["allowed"] == true
}

#[tokio::test]
async fn the_admin_port_has_linkerds_paths() {
    let server = start(options()).await;
    assert_eq!(server.admin("/ping").await, (200, "pong\n".to_owned()));
    assert_eq!(server.admin("/live").await, (200, "ok\n".to_owned()));
    assert_eq!(server.admin("/ready").await, (200, "ok\n".to_owned()));
    assert_eq!(server.admin("/debug").await.0, 404);
    let metrics = server.metrics().await;
    for line in [
        "outrigger_build_info{version=\"0.1.0\"} 1",
        "outrigger_watch_objects{resource=\"namespaces\"} 0",
        "outrigger_watch_failing{resource=\"nodes\"} 0",
        "outrigger_watch_failures_total{resource=\"daemonsets\"} 0",
        "outrigger_events_total{outcome=\"dropped\"} 0",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in\n{metrics}"
        );
    }
    let end = metrics
        .lines()
        .find_map(|line| line.strip_prefix("outrigger_certificate_expiry_timestamp_seconds "));
    assert!(end.unwrap().parse::<i64>().unwrap() > 1_700_000_000);
}

#[tokio::test]
async fn a_server_without_an_api_server_is_not_ready() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("config");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    client::write(
        &kubeconfig,
        &format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             users: [{{name: u, user: {{token: t}}}}], clusters: [{{name: c, cluster: {{server: 'http://{closed}'}}}}]}}"
        ),
    );
    let mut options = options();
    options.facts = FactSource::Server {
        kubeconfig: Some(kubeconfig),
    };
    let server = start(options).await;
    server
        .metric("outrigger_watch_failing{resource=\"namespaces\"} 1")
        .await;
    assert_eq!(
        server.admin("/ready").await,
        (500, "not ready: the cluster is not known yet\n".to_owned())
    );
    assert_eq!(server.admin("/live").await.0, 200);
    let mut connection = Connection::http1(server.address).await;
    assert!(
        admits(&connection.ask(&review("u")).await, "u"),
        "requests are answered all the same"
    );
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_named() {
    let message = async |change: &dyn Fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        Server::bind(options).await.unwrap_err().to_string()
    };
    let missing = message(&|options| options.certificate = CertificateSource::Folder("/nowhere".into())).await;
    assert!(missing.starts_with("cannot read /nowhere/tls.crt: "), "{missing}");
    let missing = message(&|options| options.values = Some("/nowhere/values".into())).await;
    assert!(missing.starts_with("cannot read /nowhere/values: "), "{missing}");
    let taken = start(options()).await.address;
    let message = message(&|options| options.listen = taken).await;
    assert!(message.starts_with(&format!("cannot listen on {taken}: ")), "{message}");
}

#[tokio::test]
async fn a_connection_leaves_nothing_behind() {
    let server = start(options()).await;
    for round in 0..3 {
        let mut connection = Connection::http2(server.address).await;
        assert!(admits(&connection.ask(&review("u")).await, "u"), "round {round}");
    }
    server.metric("outrigger_connections_total 3").await;
    server.metric("outrigger_connections_open 0").await;
}
