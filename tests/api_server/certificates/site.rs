//! An installation of its own for each test: a control plane's namespace with account, Secret and Service, and a registration
//! whose entries call either of two replicas through that Service.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::join;
use kube::Client;
use outrigger::webhook::certificate::{Issued, issue};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::shop::Shop;
use crate::cluster::{
    Cluster, FailurePolicy, Namespace, Options, Port, Verb, Webhook, WebhookOptions, call, create, poll,
};
use crate::scene::{CNI, INJECT};

/// What replicas and API server do, they do within a second on an idle machine.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// For how long replicas take it that the API server has not heard of a certificate yet, in seconds: the one of the tests
/// hears of it at once, on a machine that may be busy.
pub(crate) const SETTLE: &str = "5";

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const SECRET: &str = "linkerd-proxy-injector-k8s-tls";

/// The label of namespaces whose pods go to a replica of a site.
const LABEL: &str = "test/site";

/// The API server of these tests. Its Services have addresses of the loopback, so that it reaches replicas through them.
async fn cluster() -> &'static Cluster {
    static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();
    let options = || Options {
        flags: vec!["--service-cluster-ip-range=127.101.0.0/16".to_owned()],
        ..Options::default()
    };
    match SHARED.get_or_init(|| Cluster::start(options())).await {
        Ok(cluster) => cluster,
        Err(message) => panic!("{message}"),
    }
}

/// An installation.
pub(super) struct Site {
    cluster: &'static Cluster,
    pub(super) client: Client,
    pub(super) namespace: Namespace,
    /// The name of the registration.
    pub(super) registration: String,
    kubeconfig: PathBuf,
    ports: [Port; 2],
}

impl Site {
    /// One as the chart has it, with its Secret, which is empty.
    pub(super) async fn new() -> Self {
        let site = Self::without_secret().await;
        apply(site.cluster, &site.namespace.name, "certificates.yaml");
        site
    }

    /// The same without a Secret.
    pub(super) async fn without_secret() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let cluster = cluster().await;
        let client = cluster.client().await;
        let name = format!("mesh-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let unasked = [("config.linkerd.io/admission-webhooks", "disabled")];
        let namespace = Namespace::create_named(&client, &name, &unasked, &[]).await;
        apply(cluster, &name, "rbac.yaml");
        apply(cluster, &name, "service.yaml");
        let path = format!("/api/v1/namespaces/{name}/services/linkerd-proxy-injector");
        let service = call(&client, Verb::Get, &path, None).await.unwrap().body;
        let address: Ipv4Addr = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
        let ports = [Port::reserve_on(address), Port::reserve_on(address)];
        let of_replica =
            |(index, port): (usize, &Port)| json!({"name": format!("replica-{index}"), "port": port.number()});
        let listed: Vec<_> = ports.iter().enumerate().map(of_replica).collect();
        let patched = call(&client, Verb::Patch, &path, Some(&json!({"spec": {"ports": listed}}))).await;
        assert!(patched.unwrap().accepted());
        Self {
            cluster,
            kubeconfig: cluster.account_kubeconfig_in(&name, "linkerd-proxy-injector").await,
            registration: registration(&name),
            client,
            namespace,
            ports,
        }
    }

    /// Lets the webhook make its Secret, which the manifests do not.
    pub(super) async fn may_create_secrets(&self) {
        let namespace = &self.namespace.name;
        let name = json!({"name": "create-secrets"});
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]);
        let account = json!({"kind": "ServiceAccount", "name": "linkerd-proxy-injector", "namespace": namespace});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "create-secrets"});
        let roles = format!("{ROLES}/namespaces/{namespace}/roles");
        create(&self.client, &roles, &json!({"metadata": name, "rules": rules})).await;
        let bindings = format!("{ROLES}/namespaces/{namespace}/rolebindings");
        let binding = json!({"metadata": name, "roleRef": role, "subjects": [account]});
        create(&self.client, &bindings, &binding).await;
    }

    /// Takes a right away from a role of the webhook: the rule about `resource`.
    pub(super) async fn may_not_touch(&self, resource: &str) {
        let namespace = &self.namespace.name;
        for path in [
            format!("{ROLES}/clusterroles/linkerd-{namespace}-proxy-injector"),
            format!("{ROLES}/namespaces/{namespace}/roles/linkerd-proxy-injector"),
        ] {
            let mut role = call(&self.client, Verb::Get, &path, None).await.unwrap().body;
            let rules = role["rules"].as_array_mut().unwrap();
            rules.retain(|rule| rule["resources"] != json!([resource]));
            let patch = json!({"rules": rules});
            let patched = call(&self.client, Verb::Patch, &path, Some(&patch)).await.unwrap();
            assert!(patched.accepted(), "{}", patched.body);
        }
        let heeded = async || (!self.may_get(resource).await).then_some(());
        poll(LIMIT, heeded).await.expect("the API server heeds the role");
    }

    /// Whether the webhook's account may read objects of `resource` by the names that they have here.
    async fn may_get(&self, resource: &str) -> bool {
        let namespace = &self.namespace.name;
        let attributes = match resource {
            "secrets" => json!({"namespace": namespace, "resource": resource, "name": SECRET}),
            _ => json!({"group": "admissionregistration.k8s.io", "resource": resource, "name": self.registration}),
        };
        let mut review = json!({"spec": {"user": format!("system:serviceaccount:{namespace}:linkerd-proxy-injector")}});
        review["spec"]["resourceAttributes"] = attributes;
        review["spec"]["resourceAttributes"]["verb"] = "get".into();
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        create(&self.client, path, &review).await["status"]["allowed"] == true
    }

    /// What a replica is started with.
    pub(super) fn options(&self, replica: usize) -> WebhookOptions {
        let flags = [
            "--linkerd-namespace",
            &self.namespace.name,
            "--webhook-configuration",
            &self.registration,
        ];
        let settle = ["--certificate-settle", SETTLE];
        WebhookOptions {
            flags: flags.into_iter().chain(settle).map(str::to_owned).collect(),
            listen: self.ports[replica].again(),
            manages_certificate: true,
            kubeconfig: Some(self.kubeconfig.clone()),
            ..WebhookOptions::with_values(CNI)
        }
    }

    /// Starts a replica, which need not become ready.
    pub(super) async fn launch(&self, replica: usize) -> Webhook {
        Webhook::launch(self.cluster, self.options(replica)).await
    }

    /// Starts a replica and waits until it is ready.
    pub(super) async fn start(&self, replica: usize) -> Webhook {
        self.start_with(self.options(replica)).await
    }

    /// The same with other options.
    pub(super) async fn start_with(&self, options: WebhookOptions) -> Webhook {
        let started = Webhook::start(self.cluster, options).await;
        started.unwrap_or_else(|message| panic!("{message}"))
    }

    /// Starts both at once.
    pub(super) async fn start_both(&self) -> [Webhook; 2] {
        let (first, second) = join(self.start(0), self.start(1)).await;
        [first, second]
    }

    /// The registration as the manifest has it, but for the namespaces and the ports, and the namespaces.
    pub(super) async fn register(&self) -> Shop {
        let manifest = FailurePolicy::Fail.manifest(36);
        let entry = |replica: usize| {
            let mut entry = manifest["webhooks"][0].clone();
            entry["name"] = format!("replica-{replica}.linkerd-proxy-injector.linkerd.io").into();
            entry["clientConfig"]["service"]["namespace"] = self.namespace.name.as_str().into();
            entry["clientConfig"]["service"]["port"] = self.ports[replica].number().into();
            entry["namespaceSelector"] = json!({"matchLabels": {LABEL: self.label(replica)}});
            entry
        };
        let configuration = json!({
            "apiVersion": manifest["apiVersion"], "kind": manifest["kind"],
            "metadata": {"name": self.registration}, "webhooks": [entry(0), entry(1)],
        });
        create(&self.client, REGISTRATIONS, &configuration).await;
        let shop = Shop([self.shop(0).await, self.shop(1).await]);
        let heeded = async || (!shop.visit().await.is_empty()).then_some(());
        let heeded = poll(LIMIT, heeded).await;
        heeded.expect("the API server heeds the registration");
        shop
    }

    async fn shop(&self, replica: usize) -> Namespace {
        let label = self.label(replica);
        Namespace::create(&self.client, "shop", &[(LABEL, &label)], &[INJECT]).await
    }

    fn label(&self, replica: usize) -> String {
        format!("{}-{replica}", self.namespace.name)
    }

    /// The Secret.
    pub(super) async fn secret(&self) -> Value {
        self.namespace.get("api/v1", &format!("secrets/{SECRET}")).await.body
    }

    /// The certificate that the Secret says is to be shown; nothing where it holds none.
    pub(super) async fn stored(&self) -> Option<CertificateDer<'static>> {
        certificate_in(&self.secret().await)
    }

    /// The same where there is one.
    pub(super) async fn certificate(&self) -> CertificateDer<'static> {
        self.stored().await.expect("the Secret holds a certificate")
    }

    /// Puts `data` (base64, or null) into the Secret.
    pub(super) async fn write(&self, data: &Value) {
        let path = format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.namespace.name);
        let patched = call(&self.client, Verb::Patch, &path, Some(&json!({"data": data})))
            .await
            .unwrap();
        assert!(patched.accepted(), "{}", patched.body);
    }

    /// Puts a pair into the Secret that is good from the first to the second of two days from now.
    pub(super) async fn write_pair(&self, begin: i64, end: i64) -> CertificateDer<'static> {
        let issued = self.issued(begin, end);
        self.write(&data(&issued)).await;
        CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()
    }

    /// A pair that is good from the first to the second of two days from now.
    pub(super) fn issued(&self, begin: i64, end: i64) -> Issued {
        issued_in(&self.namespace.name, begin, end)
    }

    /// The registration as it is stored.
    pub(super) async fn registered(&self) -> Value {
        let path = format!("{REGISTRATIONS}/{}", self.registration);
        call(&self.client, Verb::Get, &path, None).await.unwrap().body
    }

    /// Changes the registration by `change`.
    pub(super) async fn reregister(&self, change: impl FnOnce(&mut Value)) {
        let mut configuration = self.registered().await;
        change(&mut configuration);
        configuration["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        let path = format!("{REGISTRATIONS}/{}", self.registration);
        let patched = call(&self.client, Verb::Patch, &path, Some(&configuration))
            .await
            .unwrap();
        assert!(patched.accepted(), "{}", patched.body);
    }

    /// The certificates of the `caBundle` of an entry.
    pub(super) async fn bundle(&self, entry: usize) -> Vec<CertificateDer<'static>> {
        trusted_by(&self.registered().await["webhooks"][entry])
    }

    /// The certificate that a replica shows, where the registration vouches for it.
    pub(super) async fn shown_by(&self, replica: usize) -> Option<CertificateDer<'static>> {
        let host = format!("linkerd-proxy-injector.{}.svc", self.namespace.name);
        shown_at(self.address(replica), &host, self.bundle(replica).await).await
    }

    fn address(&self, replica: usize) -> SocketAddr {
        self.ports[replica].address()
    }

    /// Waits until every one of `replicas` shows what the Secret holds, which is not `old`.
    pub(super) async fn renewed(&self, replicas: &[Webhook], old: &CertificateDer<'_>) -> CertificateDer<'static> {
        let renewed = async || {
            let stored = self.stored().await.filter(|stored| stored != old)?;
            for replica in 0..replicas.len() {
                self.shown_by(replica).await.filter(|shown| *shown == stored)?;
            }
            Some(stored)
        };
        let logs = || replicas.iter().map(Webhook::log).collect::<Vec<_>>().join("\n---\n");
        poll(LIMIT, renewed)
            .await
            .unwrap_or_else(|| panic!("not renewed: {}", logs()))
    }
}

/// A pair for the webhook of an installation, good from the first to the second of two days from now.
pub(crate) fn issued_in(namespace: &str, begin: i64, end: i64) -> Issued {
    let host = format!("linkerd-proxy-injector.{namespace}.svc");
    issue("a test's authority", &[host], at(begin), at(end)).unwrap()
}

/// The certificate that a Secret holds, where it holds one.
pub(crate) fn certificate_in(secret: &Value) -> Option<CertificateDer<'static>> {
    let pem = STANDARD.decode(secret["data"]["tls.crt"].as_str()?).ok()?;
    CertificateDer::from_pem_slice(&pem).ok()
}

/// The certificates of the `caBundle` of an entry.
pub(crate) fn trusted_by(entry: &Value) -> Vec<CertificateDer<'static>> {
    let text = entry["clientConfig"]["caBundle"].as_str();
    let pem = STANDARD.decode(text.unwrap_or_default()).unwrap_or_default();
    CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect()
}

/// The certificate for `host` that is shown at `address`, where one of `bundle` vouches for it.
pub(crate) async fn shown_at(
    address: SocketAddr,
    host: &str,
    bundle: Vec<CertificateDer<'static>>,
) -> Option<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle);
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.ok()?;
    let connector = TlsConnector::from(Arc::new(config));
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let stream = connector.connect(host, stream).await.ok()?;
    stream.get_ref().1.peer_certificates()?.first().cloned()
}

/// Waits until a replica tells that a metric has `value`.
pub(super) async fn tells(replica: &Webhook, metric: &str, value: u8) {
    let line = format!("{metric} {value}");
    let told = async || {
        let (_, metrics) = replica.read("/metrics").await.ok()?;
        metrics.lines().any(|found| found == line).then_some(())
    };
    let told = poll(LIMIT, told).await;
    told.unwrap_or_else(|| panic!("never {line}: {}", replica.log()));
}

/// Applies what a template of the chart is, as it is by default, for an installation in `namespace`.
fn apply(cluster: &Cluster, namespace: &str, template: &str) {
    let mut install = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    install.args(["install", "--namespace", namespace, "--server-version=1.36"]);
    install.arg(format!("--set=certificates.secretName={SECRET}"));
    install.arg(format!("--show-only=templates/{template}"));
    let printed = install.output().expect("outrigger runs");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let text = String::from_utf8(printed.stdout).unwrap();
    let text = text.replace("linkerd-proxy-injector-webhook-config", &registration(namespace));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(template);
    fs::write(&file, text).unwrap();
    let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn registration(namespace: &str) -> String {
    format!("{namespace}-webhook-config")
}

/// The data of a Secret that holds a pair.
pub(crate) fn data(issued: &Issued) -> Value {
    json!({
        "tls.crt": STANDARD.encode(&issued.certificate),
        "tls.key": STANDARD.encode(&*issued.key),
        "ca.crt": STANDARD.encode(&issued.authority),
    })
}

fn at(days: i64) -> SystemTime {
    let distance = Duration::from_secs(days.unsigned_abs() * 86_400);
    match days < 0 {
        true => SystemTime::now() - distance,
        false => SystemTime::now() + distance,
    }
}
