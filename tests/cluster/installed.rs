//! `webhook-config` as somebody installs it: certificate, manifests, Service and all.
//!
//! Services have addresses of the loopback, so that the API server reaches the webhook through its Service without any network.
//! Only the Service's port differs from the manifests: nobody but root may serve 443.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output};

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Cluster, FailurePolicy, Options, Port, Verb, Webhook, WebhookOptions, call};

/// The webhook's Service.
const SERVICE: &str = "/api/v1/namespaces/linkerd/services/linkerd-proxy-injector";

/// What a namespace says whose objects never go to the webhook.
pub(crate) const UNASKED: (&str, &str) = ("config.linkerd.io/admission-webhooks", "disabled");

/// A cluster with the webhook in it; nothing is registered yet.
pub(crate) struct Installed {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) webhook: Webhook,
    /// Where the Service sends to.
    pub(crate) port: u16,
    pub(crate) address: String,
    /// What `outrigger certs` has written.
    tls: TempDir,
}

/// Options of a cluster whose Services have addresses of `service_range`, of the loopback.
pub(crate) fn with_services(service_range: &str) -> Options {
    Options {
        flags: vec![format!("--service-cluster-ip-range={service_range}")],
        ..Options::default()
    }
}

impl Installed {
    /// Follows `webhook-config/README.md` in `cluster`, but for its last step.
    pub(crate) async fn new(cluster: Cluster, values: &str) -> Self {
        let client = cluster.client().await;
        let tls = certificate();
        // The account, and with it webhook-config/rbac.yaml, comes with the first webhook.
        cluster.webhook_kubeconfig().await;
        cluster.apply("webhook-config/service.yaml");
        cluster.apply("webhook-config/deployment.yaml");
        let service = call(&client, Verb::Get, SERVICE, None).await.unwrap().body;
        let address: Ipv4Addr = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
        let listen = Port::reserve_on(address);
        let port = listen.number();
        let pem = |name: &str| fs::read_to_string(tls.path().join(name)).unwrap();
        let options = WebhookOptions {
            listen,
            pair: Some((pem("tls.crt"), pem("tls.key"))),
            ..WebhookOptions::with_values(values)
        };
        let webhook = Webhook::start(&cluster, options).await.unwrap();
        let patch = json!({"spec": {"ports": [{"name": "proxy-injector", "port": port}]}});
        let patched = call(&client, Verb::Patch, SERVICE, Some(&patch)).await.unwrap();
        assert!(patched.accepted(), "{}", patched.body);
        Self {
            address: format!("{address}:{port}"),
            cluster,
            client,
            webhook,
            port,
            tls,
        }
    }

    /// Applies the webhook's registration with `flags`; it must be taken.
    pub(crate) fn register(&self, policy: FailurePolicy, flags: &[&str]) -> Output {
        let text = policy.filled_in(&fs::read(self.file("ca.crt")).unwrap(), self.port);
        let file = self.file("configuration.yaml");
        fs::write(&file, text).unwrap();
        let arguments = ["apply", "--filename", file.to_str().unwrap()];
        let output = self.cluster.kubectl([&arguments, flags].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// A file that `outrigger certs` has written.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.tls.path().join(name)
    }
}

/// Makes a certificate as `certs/README.md` says.
fn certificate() -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command.args(["certs", "--dns", "linkerd-proxy-injector.linkerd.svc", "--out"]);
    let output = command.arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

/// A DaemonSet of Linkerd's plugin, or of ours, whose pods have `spec` besides.
pub(crate) fn plugin(ours: bool, spec: &Value) -> Value {
    let (name, labels) = match ours {
        true => (
            "outrigger-cni",
            json!({"app.kubernetes.io/name": "outrigger-cni", "linkerd.io/cni-resource": "true"}),
        ),
        false => ("linkerd-cni", json!({"k8s-app": "linkerd-cni"})),
    };
    let mut pod = json!({
        "containers": [{"name": "install-cni", "image": "cni"}],
        "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}],
    });
    pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    })
}
