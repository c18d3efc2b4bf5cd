//! A cluster with the controller of the chart: the real program, as its own service account.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::webhook::read;
use crate::cluster::{AuditEvent, Cluster, Namespace, Options, Port, Process, Verb, call, poll};
use crate::conformance_folder::conformance;
use crate::{define, definitions, foreign};

/// A change is seen within a second; a Lease runs out after 15, and a missing kind is looked for every 30.
const LIMIT: Duration = Duration::from_secs(240);

/// The label of what is compiled.
const OURS: &str = "app.kubernetes.io/managed-by=outrigger-egress";

const KINDS: &str = "networkpolicies,egressnetworks,httproutes,grpcroutes,tlsroutes,tcproutes";

const API: &str = "/apis/outrigger.linkerd.io/v1alpha1";

/// The cluster.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) rights: String,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
}

/// A running controller; dropping it kills the process.
pub(crate) struct Controller {
    process: Process,
    admin: Port,
    _scratch: TempDir,
}

/// What the chart has of the controller in `template`.
fn rendered(template: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["install", "--server-version", "1.36"])
        .args(["--set", "egress.enabled=true,egress.controller.enabled=true"])
        .args([
            "--set",
            "egress.gateway.enabled=true,egress.gateway.clusterNetworks[0]=10.96.0.0/12",
        ])
        .arg(format!("--show-only=templates/egress/{template}"))
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl World {
    /// A cluster with namespaces, our resources, Linkerd's and those of the Gateway API, but for the kinds `without`.
    pub(crate) async fn new(namespaces: &[&str], without: &[&str]) -> Option<Self> {
        let folder = conformance()?;
        let cluster = Cluster::start(Options::default()).await.unwrap();
        let client = cluster.client().await;
        for name in namespaces.iter().chain(&["linkerd"]) {
            Namespace::create_named(&client, name, &[], &[]).await;
        }
        let mut all = definitions();
        all.extend(foreign::linkerd(&folder));
        all.extend(foreign::gateway_api("1.4"));
        all.retain(|definition| {
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
            !without.contains(&kind)
        });
        define(&cluster, &all);
        let rights = rendered("controller-rbac.yaml");
        let scratch = TempDir::new().unwrap();
        let file = scratch.path().join("rbac.yaml");
        fs::write(&file, &rights).unwrap();
        cluster.apply(file.to_str().unwrap());
        let documents: Vec<Value> = serde_saphyr::from_multiple(&rendered("controller-deployment.yaml")).unwrap();
        let deployment = documents.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        Some(Self {
            arguments: serde_json::from_value(arguments.clone()).unwrap(),
            kubeconfig: cluster.account_kubeconfig("outrigger-egress-controller").await,
            cluster,
            client,
            rights,
        })
    }

    /// Starts a controller with the arguments of the chart.
    pub(crate) fn controller(&self, identity: &str) -> Controller {
        let scratch = TempDir::new().unwrap();
        let admin = Port::reserve();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command
            .args(&self.arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--admin-listen", &admin.address().to_string()])
            .env("POD_NAME", identity);
        Controller {
            process: Process::spawn("controller", &mut command, scratch.path()),
            admin,
            _scratch: scratch,
        }
    }

    /// Sends `object` to `path`; the answer has to be good.
    pub(crate) async fn send(&self, verb: Verb, path: &str, object: Option<&Value>) -> Value {
        let reply = call(&self.client, verb, path, object).await.unwrap();
        assert!(reply.accepted(), "{path}: {}", reply.body);
        reply.body
    }

    /// Creates a policy of a namespace.
    pub(crate) async fn add(&self, namespace: &str, name: &str, spec: &Value) {
        let path = format!("{API}/namespaces/{namespace}/egresspolicies");
        self.send(Verb::Create, &path, Some(&crate::policy(name, spec))).await;
    }

    /// Creates a cluster-wide policy.
    pub(crate) async fn add_wide(&self, name: &str, spec: &Value) {
        let mut object = crate::policy(name, spec);
        object["kind"] = "ClusterEgressPolicy".into();
        let path = format!("{API}/clusteregresspolicies");
        self.send(Verb::Create, &path, Some(&object)).await;
    }

    /// Changes the spec of a policy (RFC 7396).
    pub(crate) async fn change(&self, namespace: &str, name: &str, spec: &Value) {
        let path = policy_path(namespace, name);
        self.send(Verb::Patch, &path, Some(&json!({"spec": spec}))).await;
    }

    /// Deletes policies.
    pub(crate) async fn delete(&self, policies: &[(&str, &str)]) {
        for (namespace, name) in policies {
            self.send(Verb::Delete, &policy_path(namespace, name), None).await;
        }
    }

    /// A policy as it is stored.
    pub(crate) async fn policy(&self, namespace: &str, name: &str) -> Value {
        self.send(Verb::Get, &policy_path(namespace, name), None).await
    }

    /// Waits until `Programmed` of a policy has `reason`, for its generation; its conditions.
    pub(crate) async fn until(&self, namespace: &str, name: &str, reason: &str, controller: &Controller) -> Value {
        let mut last = Value::Null;
        let found = poll(LIMIT, async || {
            let policy = self.policy(namespace, name).await;
            let conditions = &policy["status"]["conditions"];
            let is_it = conditions[1]["reason"] == reason
                && conditions[1]["observedGeneration"] == policy["metadata"]["generation"];
            last = conditions.clone();
            is_it.then_some(last.clone())
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("{namespace}/{name} is never {reason}: {last}\n{}", controller.log()))
    }

    /// Everything in the cluster that is ours, `KIND NAMESPACE/NAME`, as kubectl shows it.
    pub(crate) fn ours(&self) -> BTreeSet<String> {
        self.objects(&["--all-namespaces", "--selector", OURS])
            .iter()
            .map(|object| {
                let text = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
                format!(
                    "{} {}/{}",
                    text("/kind"),
                    text("/metadata/namespace"),
                    text("/metadata/name")
                )
            })
            .collect()
    }

    /// The objects that kubectl shows with these arguments.
    pub(crate) fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self
            .cluster
            .kubectl(["get", KINDS, "--output", "json"].iter().chain(arguments));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Changes an object, `KIND NAMESPACE/NAME`, as somebody may (RFC 7396); what it is then.
    pub(crate) fn meddle(&self, object: &str, patch: &Value) -> Value {
        let (kind, path) = object.split_once(' ').unwrap();
        let (namespace, name) = path.split_once('/').unwrap();
        let (patch, of) = (patch.to_string(), ["--namespace", namespace, "--patch"]);
        let arguments = ["patch", kind, name, "--type", "merge", "--output", "json"]
            .into_iter()
            .chain(of);
        let output = self.cluster.kubectl(arguments.chain([patch.as_str()]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits until what is ours is as `wanted`.
    pub(crate) async fn until_ours(&self, controller: &Controller, wanted: impl Fn(&BTreeSet<String>) -> bool) {
        let found = poll(LIMIT, async || wanted(&self.ours()).then_some(())).await;
        assert!(found.is_some(), "{:#?}\n{}", self.ours(), controller.log());
    }

    /// What the controllers have asked, but for their Lease.
    pub(crate) fn asked(&self) -> Vec<AuditEvent> {
        let mut all = self.cluster.audit_log();
        all.retain(|event| event.is_of_the_controller() && event.name() != "outrigger-egress-controller");
        all
    }

    /// The requests that write.
    pub(crate) fn writes(&self) -> Vec<String> {
        let rights = self.asked().into_iter().filter_map(|event| {
            let right = event.right()?;
            let writes = ["create ", "update ", "patch ", "delete "]
                .iter()
                .any(|verb| right.starts_with(verb));
            writes.then(|| format!("{right} {}/{}", event.namespace(), event.name()))
        });
        rights.collect()
    }

    /// Waits until the server refuses networks in `namespace`: a policy of its own takes a while to count.
    pub(crate) async fn is_refused(&self, namespace: &str) {
        let network = json!({
            "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "EgressNetwork",
            "metadata": {"name": "tried"}, "spec": {"trafficPolicy": "Allow"},
        });
        let path = format!("/apis/policy.linkerd.io/v1alpha1/namespaces/{namespace}/egressnetworks?dryRun=All");
        let refused = poll(LIMIT, async || {
            let reply = call(&self.client, Verb::Create, &path, Some(&network)).await.unwrap();
            (!reply.accepted()).then_some(())
        });
        assert!(refused.await.is_some());
    }

    /// Who holds the Lease.
    pub(crate) async fn holder(&self) -> Value {
        let path = "/apis/coordination.k8s.io/v1/namespaces/linkerd/leases/outrigger-egress-controller";
        self.send(Verb::Get, path, None).await["spec"]["holderIdentity"].clone()
    }
}

fn policy_path(namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{API}/clusteregresspolicies/{name}"),
        _ => format!("{API}/namespaces/{namespace}/egresspolicies/{name}"),
    }
}

impl Controller {
    /// Waits until `path` of its port for probes has `text` in a good answer.
    pub(crate) async fn until(&self, path: &str, text: &str) {
        let mut last = None;
        let found = poll(LIMIT, async || {
            last = read(self.admin.address(), path).await.ok();
            last.as_ref()
                .is_some_and(|(code, body)| *code == 200 && body.contains(text))
                .then_some(())
        });
        let found = found.await;
        assert!(found.is_some(), "{path} never has {text:?}: {last:?}\n{}", self.log());
    }

    /// Waits until it is not ready.
    pub(crate) async fn until_not_ready(&self) {
        let found = poll(LIMIT, async || {
            let (code, _) = read(self.admin.address(), "/ready").await.ok()?;
            (code != 200).then_some(())
        });
        assert!(found.await.is_some(), "{}", self.log());
    }

    /// Waits until it is the one that works.
    pub(crate) async fn leads(&self) {
        self.until("/metrics", "outrigger_egress_controller_leading 1\n").await;
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(self) -> ExitStatus {
        self.process.terminate().await
    }

    pub(crate) fn log(&self) -> String {
        self.process.log_tail()
    }
}
