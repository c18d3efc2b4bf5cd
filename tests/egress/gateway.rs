//! The gateway, which learns policies, pods and authorities from a real API server, with the rights that the chart gives it.
//!
//! Pods have addresses of the loopback, from which curl asks. Nobody answers names: what passes fails with `resolver_failed`,
//! and what does not is refused with its reason.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use kube::Client;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, Port, Process, Verb, call, create, poll};
use crate::{define, definitions, installed};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const API: &str = "apis/outrigger.linkerd.io/v1alpha1";

const ACCOUNT: &str = "outrigger-egress-gateway";

static RIGHTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut objects = installed(
        "egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.96.0.0/12},egress.gateway.authorities={ca}",
    );
    let is_right =
        |object: &Value| object["kind"].as_str().unwrap().contains("Role") || object["kind"] == "ServiceAccount";
    objects.retain(|object| is_right(object) && object["metadata"]["name"].as_str().unwrap().ends_with(ACCOUNT));
    assert_eq!(objects.len(), 3);
    objects
});

/// A cluster with the gateway, which is ready.
struct Scene {
    cluster: Cluster,
    client: Client,
    shop: Namespace,
    gateway: Process,
    port: u16,
    admin: u16,
    _folder: TempDir,
}

impl Scene {
    async fn new(policies: &[(&str, Value)]) -> Self {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        let client = cluster.client().await;
        for name in ["linkerd", "bank"] {
            Namespace::create_named(&client, name, &[], &[]).await;
        }
        let shop = Namespace::create_named(&client, "shop", &[], &[]).await;
        define(&cluster, &definitions());
        // As definitions, they are applied and awaited; rights are there at once.
        for object in RIGHTS.iter() {
            let folder = TempDir::new().unwrap();
            let file = folder.path().join("object.json");
            fs::write(&file, object.to_string()).unwrap();
            let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        for (name, spec) in policies {
            put(&shop, name, spec).await;
        }
        let folder = TempDir::new().unwrap();
        let resolv_conf = folder.path().join("resolv.conf");
        fs::write(
            &resolv_conf,
            "nameserver 127.255.255.254\noptions timeout:1 attempts:1\n",
        )
        .unwrap();
        let (port, admin) = (Port::reserve(), Port::reserve());
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger-egress-gateway"));
        command
            .arg("--kubeconfig")
            .arg(cluster.account_kubeconfig(ACCOUNT).await);
        command.args(["--listen", &format!("80={}", port.address())]);
        command.args(["--admin-listen", &admin.address().to_string()]);
        command.args([
            "--cluster-network",
            "10.96.0.0/12",
            "--namespace",
            "linkerd",
            "--source-timeout",
            "60s",
        ]);
        command.arg("--resolv-conf").arg(resolv_conf);
        let (port, admin) = (port.number(), admin.number());
        let gateway = Process::spawn("egress-gateway", &mut command, folder.path());
        let scene = Self {
            cluster,
            client,
            shop,
            gateway,
            port,
            admin,
            _folder: folder,
        };
        scene
            .until("ready", async || (scene.tell("/ready").await == "ok\n").then_some(()))
            .await;
        scene
    }

    async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        let found = poll(PATIENCE, look).await;
        found.unwrap_or_else(|| panic!("not {what}:\n{}", self.gateway.log_tail()))
    }

    /// What the gateway answers on its port for probes and metrics.
    async fn tell(&self, path: &str) -> String {
        curl(&["--max-time", "10", &format!("http://127.0.0.1:{}{path}", self.admin)]).await
    }

    /// What becomes of a request from `source` for `host`.
    async fn ask(&self, source: &str, host: &str) -> String {
        let (header, url) = (format!("Host: {host}"), format!("http://127.0.0.1:{}/", self.port));
        curl(&["--max-time", "90", "--interface", source, "--header", &header, &url]).await
    }

    /// Asks until the answer begins as said.
    async fn until_asked(&self, source: &str, host: &str, answer: &str) {
        let asked = async || self.ask(source, host).await.starts_with(answer).then_some(());
        self.until(&format!("{answer} for {host}"), asked).await;
    }

    /// Makes a pod of `namespace` with this address.
    async fn pod(&self, namespace: &str, name: &str, address: &str) {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
        create(&self.client, &pods, &pod).await;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        let reply = call(
            &self.client,
            Verb::Patch,
            &format!("{pods}/{name}/status"),
            Some(&status),
        )
        .await;
        assert!(reply.unwrap().accepted());
    }

    async fn change(&self, verb: Verb, path: &str, object: Option<&Value>) {
        let reply = call(&self.client, verb, path, object).await.unwrap();
        assert!(reply.accepted(), "{path}: {}", reply.body);
    }
}

async fn put(namespace: &Namespace, name: &str, spec: &Value) {
    let mut spec = spec.clone();
    spec["placement"] = "Gateway".into();
    let reply = namespace.post(API, "egresspolicies", &crate::policy(name, &spec)).await;
    assert!(reply.accepted(), "{}", reply.body);
}

async fn curl(arguments: &[&str]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || {
        Command::new("curl")
            .arg("--silent")
            .args(arguments)
            .output()
            .expect("curl runs")
    });
    String::from_utf8(output.await.unwrap().stdout).unwrap()
}

const PASSES: &str = "egress failed: resolver_failed: ";

fn only(host: &str) -> Value {
    json!({"hosts": [host], "allowlist": "Enabled", "tls": {"mode": "Optional"}})
}

#[tokio::test]
async fn a_pod_may_connect_before_the_news_of_it() {
    let scene = Scene::new(&[("one", only("one.example.com"))]).await;
    let answer = tokio::join!(scene.ask("127.0.7.1", "one.example.com"), async {
        let accepted = async || {
            let metrics = scene.tell("/metrics").await;
            metrics
                .contains("\noutrigger_egress_connections_total 1\n")
                .then_some(())
        };
        scene.until("connected", accepted).await;
        scene.pod("shop", "web", "127.0.7.1").await;
    });
    assert_eq!(answer.0, format!("{PASSES}one.example.com\n"));
    // Another pod with its address makes it nobody's, until one of them has gone or ended.
    scene.pod("bank", "thief", "127.0.7.1").await;
    let over = json!({"status": {"phase": "Succeeded"}});
    let (answer, ()) = tokio::join!(
        async {
            let known =
                async || (!scene.ask("127.0.7.1", "two.example.com").await.contains("not_listed")).then_some(());
            scene.until("the other's", known).await;
            scene.ask("127.0.7.1", "two.example.com").await
        },
        scene.change(Verb::Patch, "/api/v1/namespaces/shop/pods/web/status", Some(&over)),
    );
    // The bank has no policies.
    assert_eq!(answer, format!("{PASSES}two.example.com\n"));
    let metrics = scene.tell("/metrics").await;
    for resource in ["pods", "egresspolicies", "clusteregresspolicies"] {
        let line = format!("outrigger_egress_watch_failing{{resource=\"{resource}\"}} 0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn policies_count_as_they_are_now_and_a_bad_one_closes_what_it_is_about() {
    let scene = Scene::new(&[("one", only("one.example.com"))]).await;
    scene.pod("shop", "web", "127.0.7.1").await;
    scene.pod("bank", "web", "127.0.7.2").await;
    let web = "127.0.7.1";
    let closed = "egress denied: host_not_listed: ";
    assert_eq!(
        scene.ask(web, "two.example.com").await,
        format!("{closed}two.example.com\n")
    );
    put(&scene.shop, "two", &only("*.example.com")).await;
    scene.until_asked(web, "two.example.com", PASSES).await;
    // It cannot be enforced: a port that shows no host leads to one.
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    put(
        &scene.shop,
        "bad",
        &json!({"hosts": ["*.a.example.com", "b.example.com"], "ports": ports}),
    )
    .await;
    scene
        .until_asked(web, "b.example.com", "egress denied: policy_refused: b.example.com\n")
        .await;
    assert_eq!(
        scene.ask(web, "one.example.com").await,
        format!("{PASSES}one.example.com\n")
    );
    assert_eq!(
        scene.ask("127.0.7.2", "b.example.com").await,
        format!("{PASSES}b.example.com\n")
    );
    let log = scene.gateway.log();
    assert!(log.contains("a policy cannot be enforced as it is written"), "{log}");
    for name in ["bad", "two"] {
        let path = format!("/{API}/namespaces/shop/egresspolicies/{name}");
        scene.change(Verb::Delete, &path, None).await;
    }
    scene.until_asked(web, "b.example.com", closed).await;
    let wide = json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "ClusterEgressPolicy", "metadata": {"name": "wide"},
        "spec": {"allowlist": "Enabled", "placement": "Gateway"},
    });
    create(&scene.client, &format!("/{API}/clusteregresspolicies"), &wide).await;
    scene.until_asked("127.0.7.2", "b.example.com", closed).await;
}

#[tokio::test]
async fn authorities_are_those_of_the_config_map_as_it_is_now() {
    let origination = |map: &str| {
        json!({
            "hosts": [format!("{map}.example.com")], "ports": [{"port": 80, "protocol": "HTTP"}],
            "tls": {"origination": {"caCertificates": {"configMap": map}}},
        })
    };
    // The account may not read the other: it is none, and keeps nobody from being ready.
    let scene = Scene::new(&[("ca", origination("ca")), ("secret", origination("secret"))]).await;
    scene.pod("shop", "web", "127.0.7.1").await;
    let web = "127.0.7.1";
    let missing = "egress failed: authorities_missing: ";
    assert_eq!(
        scene.ask(web, "ca.example.com").await,
        format!("{missing}ca.example.com\n")
    );
    let key = KeyPair::generate().unwrap();
    let pem = CertificateParams::default().self_signed(&key).unwrap().pem();
    for name in ["ca", "secret"] {
        let map = json!({"metadata": {"name": name}, "data": {"ca.crt": pem}});
        let reply = scene.shop.post("api/v1", "configmaps", &map).await;
        assert!(reply.accepted(), "{}", reply.body);
    }
    scene.until_asked(web, "ca.example.com", PASSES).await;
    assert_eq!(
        scene.ask(web, "secret.example.com").await,
        format!("{missing}secret.example.com\n")
    );
    let path = "/api/v1/namespaces/shop/configmaps/ca";
    scene
        .change(Verb::Patch, path, Some(&json!({"data": {"ca.crt": "no certificate"}})))
        .await;
    scene.until_asked(web, "ca.example.com", missing).await;
    scene
        .change(Verb::Patch, path, Some(&json!({"data": {"ca.crt": pem}})))
        .await;
    scene.until_asked(web, "ca.example.com", PASSES).await;
    scene.change(Verb::Delete, path, None).await;
    scene.until_asked(web, "ca.example.com", missing).await;
}

#[tokio::test]
async fn what_was_known_last_counts_while_the_api_server_is_away() {
    let mut scene = Scene::new(&[("one", only("one.example.com"))]).await;
    scene.pod("shop", "web", "127.0.7.1").await;
    let web = "127.0.7.1";
    scene.until_asked(web, "one.example.com", PASSES).await;
    scene.cluster.stop_api_server().await;
    let failing = async || {
        let metrics = scene.tell("/metrics").await;
        let fails = |resource| metrics.contains(&format!("watch_failing{{resource=\"{resource}\"}} 1\n"));
        (fails("pods") && fails("egresspolicies")).then_some(())
    };
    scene.until("failing", failing).await;
    assert_eq!(scene.tell("/ready").await, "ok\n");
    assert_eq!(
        scene.ask(web, "one.example.com").await,
        format!("{PASSES}one.example.com\n")
    );
    assert!(scene.ask(web, "two.example.com").await.contains("host_not_listed"));
    scene.cluster.restart_api_server(Options::default()).await.unwrap();
    scene.client = scene.cluster.client().await;
    scene
        .change(
            Verb::Delete,
            &format!("/{API}/namespaces/shop/egresspolicies/one"),
            None,
        )
        .await;
    scene.until_asked(web, "two.example.com", PASSES).await;
}
