//! An installation with nodes, a CNI plugin and Linkerd's configuration. There are no controllers: what they would report is
//! written by hand.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use crate::cluster::{
    Authority, Cluster, FailurePolicy, Installed, Namespace, Options, Reply, UNASKED, Verb, call, plugin, with_services,
};

const SECRET: &str = "linkerd-proxy-injector-k8s-tls";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const REGISTRATION: &str = "linkerd-proxy-injector-webhook-config";

/// Values of the installation. Linkerd's chart has the anchors in a ConfigMap of their own.
pub(crate) const VALUES: &str = "linkerdVersion: edge-26.11.1\n";

/// What a namespace says that wants its pods meshed.
pub(crate) const INJECT: (&str, &str) = ("linkerd.io/inject", "enabled");

/// The label by which a namespace enforces a level of Pod Security.
pub(crate) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Everything in place.
pub(crate) struct Installation(Installed);

impl Deref for Installation {
    type Target = Installed;

    fn deref(&self) -> &Installed {
        &self.0
    }
}

impl Installation {
    /// Services have addresses of `service_range`.
    pub(crate) async fn new(service_range: &str) -> Self {
        Self::in_cluster(service_range, None).await
    }

    /// The same where the API server has this `AdmissionConfiguration`.
    pub(crate) async fn in_cluster(service_range: &str, admission: Option<Value>) -> Self {
        let cluster = Cluster::start(Options {
            admission,
            ..with_services(service_range)
        });
        let installation = Self(Installed::new(cluster.await.unwrap(), VALUES).await);
        installation.furnish().await;
        installation.register(FailurePolicy::Fail);
        installation
    }

    /// What becomes of its parts is the test's.
    pub(crate) fn into_parts(self) -> Installed {
        self.0
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster.kubeconfig()
    }

    /// What controllers, Linkerd's chart and the operator would have put there.
    async fn furnish(&self) {
        let ready = json!({"status": {"replicas": 2, "readyReplicas": 2}});
        self.patch(
            "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector/status",
            &ready,
        )
        .await;
        let slice = json!({
            "metadata": {"name": "injector", "labels": {"kubernetes.io/service-name": "linkerd-proxy-injector"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.10"], "conditions": {"ready": true}}],
        });
        self.create("/apis/discovery.k8s.io/v1/namespaces/linkerd/endpointslices", &slice)
            .await;
        let config_maps = "/api/v1/namespaces/linkerd/configmaps";
        let values = json!({"metadata": {"name": "linkerd-config"}, "data": {"values": VALUES}});
        self.create(config_maps, &values).await;
        let anchors =
            json!({"metadata": {"name": "linkerd-identity-trust-roots"}, "data": {"ca-bundle.crt": anchors()}});
        self.create(config_maps, &anchors).await;
        let pem = |name: &str| STANDARD.encode(fs::read(self.file(name)).unwrap());
        let data = json!({"tls.crt": pem("tls.crt"), "tls.key": pem("tls.key")});
        let secret = json!({"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data});
        self.create("/api/v1/namespaces/linkerd/secrets", &secret).await;
        create_nodes(&self.client).await;
        self.cluster.apply("cni-config/rbac.yaml");
    }

    /// Applies the registration of `webhook-config`.
    pub(crate) fn register(&self, policy: FailurePolicy) {
        self.0.register(policy, &[]);
    }

    /// Changes the registration by `change`, which gets its entry for pods.
    pub(crate) async fn reregister(&self, change: impl FnOnce(&mut Value)) {
        let path = format!("{WEBHOOKS}/{REGISTRATION}");
        let mut configuration = call(&self.client, Verb::Get, &path, None).await.unwrap().body;
        change(&mut configuration["webhooks"][0]);
        let patch = json!({"webhooks": configuration["webhooks"]});
        self.patch(&path, &patch).await;
    }

    /// Registers one more webhook of pods, which is called after ours and for no namespace that there is.
    pub(crate) async fn register_other(&self, name: &str, labels: &Value) {
        let configuration = json!({
            "metadata": {"name": name, "labels": labels},
            "webhooks": [{
                "name": "other.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"nobody": "has-it"}},
                "sideEffects": "None",
            }],
        });
        self.create(WEBHOOKS, &configuration).await;
    }

    pub(crate) fn unregister(&self, name: &str) {
        let output = self.cluster.kubectl(["delete", "mutatingwebhookconfiguration", name]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The certificate of the webhook, PEM.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        fs::read(self.file("tls.crt")).unwrap()
    }

    /// Puts `certificate`, PEM, into the webhook's Secret.
    pub(crate) async fn store(&self, certificate: &str) {
        let path = format!("/api/v1/namespaces/linkerd/secrets/{SECRET}");
        let patch = json!({"data": {"tls.crt": STANDARD.encode(certificate)}});
        self.patch(&path, &patch).await;
    }

    /// A namespace that asks for injection and enforces `level`.
    pub(crate) async fn meshed(&self, name: &str, level: &str) -> Namespace {
        Namespace::create_named(&self.client, name, &[(ENFORCE, level)], &[INJECT]).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) {
        let reply = call(&self.client, Verb::Create, path, Some(object)).await.unwrap();
        assert_eq!(reply.code, 201, "{path}: {}", reply.body);
    }

    pub(crate) async fn patch(&self, path: &str, patch: &Value) {
        let reply = call(&self.client, Verb::Patch, path, Some(patch)).await.unwrap();
        assert!(reply.accepted(), "{path}: {}", reply.body);
    }
}

/// Creates `object` in `namespace`, which must take it.
pub(crate) async fn post(namespace: &Namespace, api: &str, resource: &str, object: &Value) -> Reply {
    let reply = namespace.post(api, resource, object).await;
    assert_eq!(reply.code, 201, "{resource}: {}", reply.body);
    reply
}

/// Two nodes, both with our CNI plugin.
async fn create_nodes(client: &Client) {
    for name in ["n1", "n2"] {
        let texts = [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ];
        let mut info: Value = texts.iter().map(|text| ((*text).to_owned(), Value::from(""))).collect();
        info["kubeletVersion"] = "v1.36.1".into();
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", "pool": name}},
            "status": {"nodeInfo": info},
        });
        let reply = call(client, Verb::Create, "/api/v1/nodes", Some(&node)).await.unwrap();
        assert_eq!(reply.code, 201, "{}", reply.body);
    }
    let namespace = Namespace::create_named(client, "linkerd-cni", &[UNASKED, (ENFORCE, "privileged")], &[]).await;
    let daemon_set = plugin(true, &json!({"tolerations": [{"operator": "Exists"}]}));
    post(&namespace, "apis/apps/v1", "daemonsets", &daemon_set).await;
    let status = json!({"status": {
        "desiredNumberScheduled": 2, "numberReady": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0}});
    let path = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/outrigger-cni/status";
    let reply = call(client, Verb::Patch, path, Some(&status)).await.unwrap();
    assert!(reply.accepted(), "{}", reply.body);
}

/// A trust anchor that is good until 2099, PEM.
fn anchors() -> String {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.not_after = rcgen::date_time_ymd(2099, 1, 1);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap())
        .unwrap()
        .pem()
}

/// A certificate for the webhook by an authority of its own that ended in 2021, PEM.
pub(crate) fn expired() -> String {
    let names = ["linkerd-proxy-injector.linkerd.svc".to_owned()];
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
    parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

/// A certificate for the webhook that is its own authority, and its key, both PEM.
pub(crate) fn own_authority() -> (String, String) {
    let names = ["linkerd-proxy-injector.linkerd.svc".to_owned()];
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// The certificate of somebody whom the webhook has nothing to do with, as a `caBundle` has it.
pub(crate) fn foreign_bundle() -> String {
    STANDARD.encode(Authority::new().certificate())
}
