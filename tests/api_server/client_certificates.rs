//! Only an API server with the right certificate may call: `--client-ca`, and the kubeconfig of its admission plugin.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{
    Authority, Cluster, FailurePolicy, Namespace, Options, Registration, Reply, UNASKED, Verb, Webhook, WebhookOptions,
    call, create, poll,
};
use crate::scene::{CNI, INJECT};
use crate::{mesh, pod};

/// Changed files are looked for every ten seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// What the API server's certificate says that it is.
const NAME: &str = "kube-apiserver";

/// An API server that shows a certificate of `authority` to every webhook.
async fn cluster(authority: &Authority, folder: &Path) -> Cluster {
    let pair = authority.issue_to_client(NAME);
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let user = json!({
        "client-certificate": file("client.crt", &pair.certificate),
        "client-key": file("client.key", &pair.key),
    });
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]});
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": file("kubeconfig", &kubeconfig.to_string()),
    });
    let admission = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "MutatingAdmissionWebhook", "configuration": configuration}],
    });
    let options = Options {
        admission: Some(admission),
        ..Options::default()
    };
    Cluster::start(options).await.unwrap()
}

/// A webhook with `flags`, and a namespace whose pods go to it.
struct Called {
    webhook: Webhook,
    namespace: Namespace,
}

impl Called {
    async fn new(cluster: &Cluster, client: &Client, flags: &[&str]) -> Self {
        let options = WebhookOptions {
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..WebhookOptions::with_values(CNI)
        };
        let webhook = Webhook::start(cluster, options).await.unwrap();
        let registration = Registration::create(client, &webhook, FailurePolicy::Fail).await;
        let namespace = Namespace::create(client, "called", &[registration.label()], &[INJECT]).await;
        Self { webhook, namespace }
    }

    async fn ask(&self) -> Reply {
        self.namespace.try_pod(&pod("web", &json!({}))).await
    }

    async fn takes(&self) -> bool {
        mesh::redirection(&self.ask().await.body) == Some("cni")
    }

    /// Asserts that the API server is refused, and that the log says why.
    async fn refuses(&self, why: &str) {
        let reply = self.ask().await;
        assert_eq!(reply.code, 500, "{}", reply.body);
        assert!(
            reply.message().contains("failed calling webhook"),
            "{}",
            reply.message()
        );
        // The API server hears of it before it is written down.
        let line = async || {
            let log = self.webhook.log();
            let line = log.lines().find(|line| line.contains("a client is refused"));
            line.map(str::to_owned)
        };
        let line = poll(LIMIT, line).await;
        let line = line.unwrap_or_else(|| panic!("{}", self.webhook.log()));
        assert!(line.contains("WARN") && line.contains(why), "{line}");
        let series = "outrigger_connections_failed_total{reason=\"client_certificate\"}";
        let counted = async || (self.webhook.metric(series).await >= 1.0).then_some(());
        poll(LIMIT, counted).await.expect("it is counted");
    }
}

#[tokio::test]
async fn only_an_api_server_with_the_right_certificate_may_call() {
    let (folder, ours, others) = (TempDir::new().unwrap(), Authority::new(), Authority::new());
    let cluster = cluster(&ours, folder.path()).await;
    let client = cluster.client().await;
    let file = |name: &str, authority: &Authority| {
        let path = folder.path().join(name);
        fs::write(&path, authority.certificate()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right.crt", &ours), file("wrong.crt", &others));

    let any = Called::new(&cluster, &client, &["--client-ca", &right]).await;
    assert!(any.takes().await, "{}", any.webhook.log());
    let named = Called::new(&cluster, &client, &["--client-ca", &right, "--client-name", NAME]).await;
    assert!(named.takes().await, "{}", named.webhook.log());
    // Whoever else reaches the port is refused: here somebody without any certificate.
    assert!(named.webhook.post(b"{}".to_vec()).await.is_err());
    let nobody = async || named.webhook.log().contains("it shows no certificate").then_some(());
    poll(LIMIT, nobody).await.expect("the log says so");

    let other_name = Called::new(
        &cluster,
        &client,
        &["--client-ca", &right, "--client-name", "front-proxy"],
    )
    .await;
    other_name
        .refuses("it is of \\\"kube-apiserver\\\", and only front-proxy may connect")
        .await;

    let changing = Called::new(&cluster, &client, &["--client-ca", &wrong]).await;
    changing.refuses("its certificate is not accepted: ").await;
    // Another authority comes into use without a restart.
    fs::write(&wrong, ours.certificate()).unwrap();
    let taken = async || changing.takes().await.then_some(());
    poll(LIMIT, taken).await.expect("the new authority is in use");
}

/// The chart's values, with the authority in a ConfigMap of a name and key of one's own: what the webhook is started with is
/// what the API server has stored.
#[tokio::test]
async fn what_the_chart_installs_asks_for_the_certificate() {
    let (folder, ours) = (TempDir::new().unwrap(), Authority::new());
    let cluster = cluster(&ours, folder.path()).await;
    let client = cluster.client().await;
    Namespace::create_named(&client, "linkerd", &[UNASKED], &[]).await;
    let authority = json!({"metadata": {"name": "api-servers"}, "data": {"clients.pem": ours.certificate()}});
    create(&client, "/api/v1/namespaces/linkerd/configmaps", &authority).await;
    let values = "--set=certificates.clients.name=api-servers,certificates.clients.key=clients.pem";
    let flags = installed_flags(
        &cluster,
        &client,
        folder.path(),
        &[values, &names("front-proxy,kube-apiserver")],
    )
    .await;
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let called = Called::new(&cluster, &client, &flags).await;
    assert!(called.takes().await, "{}", called.webhook.log());
    assert!(called.webhook.post(b"{}".to_vec()).await.is_err());

    let flags = installed_flags(&cluster, &client, folder.path(), &[values, &names("front-proxy")]).await;
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let called = Called::new(&cluster, &client, &flags).await;
    called
        .refuses("it is of \\\"kube-apiserver\\\", and only front-proxy may connect")
        .await;
}

fn names(names: &str) -> String {
    format!("--set=certificates.clients.names={{{names}}}")
}

/// Applies the chart's Deployment, and returns the flags about clients that the pods of it get. What kubelet would mount is
/// written into `folder`.
async fn installed_flags(cluster: &Cluster, client: &Client, folder: &Path, values: &[&str]) -> Vec<String> {
    let mut install = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    install.args([
        "install",
        "--server-version=1.36",
        "--show-only=templates/deployment.yaml",
    ]);
    let printed = install.args(values).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let file = folder.join("deployment.yaml");
    fs::write(&file, printed.stdout).unwrap();
    let applied = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let path = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";
    let deployment = call(client, Verb::Get, path, None).await.unwrap().body;
    let spec = &deployment["spec"]["template"]["spec"];
    let named = |list: &Value| {
        let found = list.as_array().unwrap().iter().find(|it| it["name"] == "clients");
        found.unwrap_or_else(|| panic!("{list}")).clone()
    };
    let (mount, volume) = (named(&spec["containers"][0]["volumeMounts"]), named(&spec["volumes"]));
    assert_eq!(mount["readOnly"], true);
    let source = &volume["configMap"];
    let path = format!(
        "/api/v1/namespaces/linkerd/configmaps/{}",
        source["name"].as_str().unwrap()
    );
    let map = call(client, Verb::Get, &path, None).await.unwrap().body;
    for item in source["items"].as_array().unwrap() {
        let text = map["data"][item["key"].as_str().unwrap()].as_str().unwrap();
        fs::write(folder.join(item["path"].as_str().unwrap()), text).unwrap();
    }
    let arguments = spec["containers"][0]["args"].as_array().unwrap().iter();
    let of_clients = arguments
        .map(|it| it.as_str().unwrap())
        .filter(|it| it.starts_with("--client-"));
    let place = mount["mountPath"].as_str().unwrap();
    of_clients
        .map(|it| it.replace(place, folder.to_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_client_authority_that_cannot_be_read_is_named_at_the_start() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("ca.crt");
    fs::write(&file, "garbage").unwrap();
    let options = WebhookOptions {
        flags: vec!["--client-ca".to_owned(), file.to_str().unwrap().to_owned()],
        ..WebhookOptions::with_values(CNI)
    };
    let error = Webhook::start(crate::cluster::shared().await, options)
        .await
        .unwrap_err();
    assert!(error.contains("the webhook ended: exit status: 2"), "{error}");
    assert!(
        error.contains("ca.crt") && error.contains("it holds no certificate in PEM"),
        "{error}"
    );
}
