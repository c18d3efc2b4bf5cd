//! A cluster in which Linkerd's injector runs, as its chart installs it, and in which ours is to take over.
//!
//! There are no controllers: what they would do and report is done by hand. Services have addresses of the loopback.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use outrigger::pod::manifest;
use serde_json::{Value, json};

use super::crowd::Shape;
use super::linkerd::{CLASSIC, Linkerd, NATIVE, OWNED, Records};
use super::script::{Pair, Script};
use crate::cluster::{
    Cluster, FailurePolicy, Namespace, Port, UNASKED, Verb, Webhook, WebhookOptions, call, create, plugin, poll,
    with_services,
};
use crate::scene::{ENFORCE, INJECT};

/// Whoever waits, waits for kubectl or for a watch of the API server's.
const LIMIT: Duration = Duration::from_secs(60);

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// What a test may choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The control plane's namespace.
    pub(crate) namespace: &'static str,
    pub(crate) policy: FailurePolicy,
    /// The label that Linkerd's registration asks of namespaces beside what its chart has it ask.
    pub(crate) opt_in: Option<(&'static str, &'static str)>,
    /// Whether the nodes have Linkerd's CNI plugin.
    pub(crate) plugin: bool,
    /// The range of the Services' addresses, each test's own.
    pub(crate) range: &'static str,
}

pub(crate) struct Stage {
    pub(crate) setting: Setting,
    pub(crate) client: Client,
    pub(crate) script: Script,
    pub(crate) linkerd: Linkerd,
    pub(crate) shapes: Vec<Shape>,
    /// One that Linkerd's registration selects only where it asks for no label.
    pub(crate) apart: Shape,
    pub(crate) webhook: Option<Webhook>,
    pub(crate) cluster: Cluster,
    /// Linkerd's registration as it was installed.
    pub(crate) registration: Value,
    values: String,
}

impl Stage {
    /// Linkerd's injector runs.
    pub(crate) async fn new(conformance: &Path, setting: Setting) -> Self {
        let cluster = Cluster::start(with_services(setting.range)).await.unwrap();
        let client = cluster.client().await;
        let records = Records::read(conformance);
        let script = Script::new(cluster.kubeconfig(), setting.namespace, "free");
        let manifests = manifests(conformance, setting);
        let values = manifests.iter().find_map(|it| it["data"]["values"].as_str()).unwrap();
        let (registrations, others): (Vec<_>, Vec<_>) = manifests
            .iter()
            .cloned()
            .partition(|it| it["kind"] == "MutatingWebhookConfiguration");
        apply(&cluster, &script, &others);
        let port = serve(&client, setting.namespace, "linkerd-proxy-injector").await;
        let pair = Pair::make(&format!("linkerd-proxy-injector.{}.svc", setting.namespace));
        let mut registration = registrations.into_iter().next().unwrap();
        let entry = &mut registration["webhooks"][0];
        entry["clientConfig"]["caBundle"] = STANDARD.encode(&pair.authority).into();
        entry["clientConfig"]["service"]["port"] = port.number().into();
        entry["failurePolicy"] = format!("{:?}", setting.policy).into();
        if let Some((key, value)) = setting.opt_in {
            entry["namespaceSelector"]["matchLabels"] = json!({key: value});
        }
        report_ready(&client, setting.namespace, "linkerd-proxy-injector").await;
        let linkerd = Linkerd::start(port, pair, records.clone()).await;
        if setting.plugin {
            install_plugin(&client).await;
        }
        let stage = Self {
            setting,
            shapes: shapes(&client, &records, setting.opt_in).await,
            apart: apart(&client, &records).await,
            values: values.to_owned(),
            webhook: None,
            client,
            script,
            linkerd,
            cluster,
            registration,
        };
        stage.register_linkerds();
        stage.until("who", "linkerd/proxy-injector ").await;
        stage
    }

    /// Applies Linkerd's registration as its chart does, at the start and with every upgrade.
    pub(crate) fn register_linkerds(&self) {
        apply(&self.cluster, &self.script, std::slice::from_ref(&self.registration));
    }

    /// Runs a step of the document.
    pub(crate) async fn step(&self, name: &str) -> String {
        self.step_with(name, |text| text).await
    }

    /// The same with another text.
    pub(crate) async fn step_with(&self, name: &str, change: impl Fn(String) -> String) -> String {
        let printed = self.script.run(name, change).await;
        printed.unwrap_or_else(|said| panic!("{name}: {said}"))
    }

    /// Runs a step again and again until what it prints begins with `wanted`.
    pub(crate) async fn until(&self, name: &str, wanted: &str) {
        let mut last = String::new();
        let asked = async || {
            let printed = self.script.run(name, |text| text).await;
            last = printed.unwrap_or_else(|said| said);
            last.starts_with(wanted).then_some(())
        };
        let found = poll(LIMIT, asked).await;
        found.unwrap_or_else(|| panic!("{name} prints {last} instead of {wanted}"));
    }

    /// The first step, with somebody who runs the pods of the Deployment that it makes.
    pub(crate) async fn beside(&mut self) {
        self.beside_as("linkerd-outrigger-webhook-config").await;
    }

    /// The same with a registration of another name.
    pub(crate) async fn beside_as(&mut self, registration: &str) {
        let other = format!("| sed 's/linkerd-outrigger-webhook-config/{registration}/' | kubectl apply");
        let change = |text: String| text.replace("| kubectl apply", &other);
        let (_, webhook) = tokio::join!(self.step_with("beside", change), self.run_deployment(registration));
        self.webhook = Some(webhook);
    }

    async fn run_deployment(&self, registration: &str) -> Webhook {
        const NAME: &str = "linkerd-outrigger";
        let namespace = self.setting.namespace;
        // It is made last.
        let registered = self.made(&format!("{REGISTRATIONS}/{registration}")).await;
        let listen = serve(&self.client, namespace, NAME).await;
        let mut entries = registered["webhooks"].clone();
        for entry in entries.as_array_mut().unwrap() {
            entry["clientConfig"]["service"]["port"] = listen.number().into();
        }
        let (path, patch) = (format!("{REGISTRATIONS}/{registration}"), json!({"webhooks": entries}));
        let reply = call(&self.client, Verb::Patch, &path, Some(&patch)).await.unwrap();
        assert!(reply.accepted(), "{}", reply.body);
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}");
        let deployment = self.made(&path).await;
        let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let arguments = arguments.unwrap().iter().map(|it| it.as_str().unwrap().to_owned());
        let given = |it: &String| it == "webhook" || it == "--manage-certificate";
        let options = WebhookOptions {
            flags: arguments.filter(|it| !given(it)).collect(),
            manages_certificate: true,
            listen,
            kubeconfig: Some(self.cluster.account_kubeconfig_in(namespace, NAME).await),
            ..WebhookOptions::with_values(&self.values)
        };
        let webhook = Webhook::start(&self.cluster, options).await;
        report_ready(&self.client, namespace, NAME).await;
        webhook.unwrap_or_else(|message| panic!("{message}"))
    }

    /// Waits for an object that a step makes.
    async fn made(&self, path: &str) -> Value {
        let found = async || {
            let reply = call(&self.client, Verb::Get, path, None).await.unwrap();
            reply.accepted().then_some(reply.body)
        };
        let found = poll(LIMIT, found).await;
        found.unwrap_or_else(|| panic!("the step makes {path}"))
    }
}

/// Linkerd's manifests, in the setting's namespace.
fn manifests(conformance: &Path, setting: Setting) -> Vec<Value> {
    let mut text = fs::read_to_string(conformance.join("takeover/linkerd-injector.yaml")).unwrap();
    for field in [
        "namespace: ",
        "control-plane-ns: ",
        "workload-ns: ",
        "-linkerd-namespace=",
    ] {
        text = text.replace(&format!("{field}linkerd\n"), &format!("{field}{}\n", setting.namespace));
    }
    let mut documents: Vec<_> = manifest::read(&text).unwrap().into_iter().map(|it| it.value).collect();
    for document in &mut documents {
        if document["kind"] == "Namespace" {
            document["metadata"]["name"] = setting.namespace.into();
        }
    }
    documents
}

fn apply(cluster: &Cluster, script: &Script, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = script.folder().join("linkerd.json");
    fs::write(&file, list.to_string()).unwrap();
    let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Gives a Service one more port, which needs no rights, and returns it.
async fn serve(client: &Client, namespace: &str, name: &str) -> Port {
    let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
    let service = call(client, Verb::Get, &path, None).await.unwrap().body;
    let address: Ipv4Addr = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    let port = Port::reserve_on(address);
    let mut ports = service["spec"]["ports"].clone();
    let own = json!({"name": "of-the-test", "port": port.number()});
    ports.as_array_mut().unwrap().push(own);
    let patch = json!({"spec": {"ports": ports}});
    let reply = call(client, Verb::Patch, &path, Some(&patch)).await.unwrap();
    assert!(reply.accepted(), "{}", reply.body);
    port
}

/// Writes what the controller of a Deployment reports when all of its pods are ready.
async fn report_ready(client: &Client, namespace: &str, name: &str) {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let deployment = call(client, Verb::Get, &path, None).await.unwrap().body;
    let replicas = &deployment["spec"]["replicas"];
    let status = json!({"status": {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    }});
    let reply = call(client, Verb::Patch, &format!("{path}/status"), Some(&status))
        .await
        .unwrap();
    assert!(reply.accepted(), "{}", reply.body);
}

/// A node, and Linkerd's CNI plugin on every node.
async fn install_plugin(client: &Client) {
    let node = json!({"metadata": {"name": "covered", "labels": {"kubernetes.io/os": "linux"}}});
    create(client, "/api/v1/nodes", &node).await;
    let namespace = Namespace::create_named(client, "linkerd-cni", &[UNASKED], &[]).await;
    let daemon_set = plugin(false, &json!({"tolerations": [{"operator": "Exists"}]}));
    let reply = namespace.post("apis/apps/v1", "daemonsets", &daemon_set).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
}

/// What is created: the recorded pods in namespaces of every level that admits them as they come.
async fn shapes(client: &Client, records: &Records, opt_in: Option<(&str, &str)>) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (name, level, starts) in [
        ("free", None, &[NATIVE, OWNED][..]),
        ("free-classic", None, &[CLASSIC]),
        ("base", Some("baseline"), &[NATIVE]),
        ("base-classic", Some("baseline"), &[CLASSIC]),
        ("strict", Some("restricted"), &[NATIVE]),
    ] {
        let levels = level.into_iter().map(|level| (ENFORCE, level));
        let labels: Vec<_> = levels.chain(opt_in).collect();
        let [first, ..] = starts else { continue };
        let annotations = &records.of(first).annotations;
        let annotations: Vec<_> = annotations.iter().map(|(key, value)| (&**key, &**value)).collect();
        let namespace = Namespace::create_named(client, name, &labels, &annotations).await;
        for start in starts {
            let mut shape = Shape::of(start, &namespace, records.of(start));
            if *start == OWNED {
                own(&namespace, &mut shape.pod).await;
            }
            shapes.push(shape);
        }
    }
    shapes
}

/// A pod of a namespace without any label.
async fn apart(client: &Client, records: &Records) -> Shape {
    let namespace = Namespace::create_named(client, "apart", &[], &[INJECT]).await;
    Shape::of(NATIVE, &namespace, records.of(NATIVE))
}

/// Makes the ReplicaSet that the pod names as its owner, and that one's.
async fn own(namespace: &Namespace, pod: &mut Value) {
    let deployment = crate::workload::create(namespace, "Deployment", "web", None).await;
    let replica_set = crate::workload::create(namespace, "ReplicaSet", "web-rs", Some(&deployment)).await;
    let reference = &mut pod["metadata"]["ownerReferences"][0];
    assert_eq!(reference["name"], replica_set["metadata"]["name"]);
    reference["uid"] = replica_set["metadata"]["uid"].clone();
}
