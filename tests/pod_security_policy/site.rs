//! The cluster of this suite, policies in it, and namespaces whose pods are made by controllers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::cluster::{Cluster, Edition, Namespace, Options, Reply, create, poll};
use crate::mesh;
use crate::scene::INJECT;

/// A watch tells within milliseconds on an idle machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Where policies are.
pub(crate) const POLICIES: &str = "/apis/policy/v1beta1/podsecuritypolicies";

/// The cluster that every test shares which does nothing to the server.
pub(crate) async fn shared() -> &'static Cluster {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_init(start).await
}

/// A cluster with one policy, which allows everything and which the administrator alone may use: the harness makes pods.
pub(crate) async fn start() -> Cluster {
    let options = Options {
        edition: Edition::PodSecurityPolicy,
        ..Options::default()
    };
    let cluster = Cluster::start(options).await;
    let cluster = cluster.unwrap_or_else(|message| panic!("{message}"));
    create(&cluster.client().await, POLICIES, &lax("privileged")).await;
    cluster
}

/// A policy that allows everything.
pub(crate) fn lax(name: &str) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let range = json!([{"min": 0, "max": 65535}]);
    json!({
        "apiVersion": "policy/v1beta1",
        "kind": "PodSecurityPolicy",
        "metadata": {
            "name": name,
            "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "*"},
        },
        "spec": {
            "privileged": true, "allowPrivilegeEscalation": true, "allowedCapabilities": ["*"], "volumes": ["*"],
            "hostNetwork": true, "hostPID": true, "hostIPC": true, "hostPorts": range,
            "runAsUser": any, "seLinux": any, "fsGroup": any, "supplementalGroups": any,
        },
    })
}

/// The right of every service account of `namespace` to use `policy`: a `Role` and a `RoleBinding`.
pub(crate) fn grant(namespace: &str, policy: &str) -> [Value; 2] {
    let (api, name) = ("rbac.authorization.k8s.io", format!("use-{policy}"));
    let metadata = json!({"name": name, "namespace": namespace});
    let rule = json!({"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "resourceNames": [policy],
        "verbs": ["use"]});
    let subject = json!({"kind": "Group", "apiGroup": api, "name": format!("system:serviceaccounts:{namespace}")});
    [
        json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name}}),
    ]
}

/// Creates policies, and the rights to use them.
pub(crate) async fn install(client: &Client, objects: &[Value]) {
    for object in objects {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let rights = "/apis/rbac.authorization.k8s.io/v1/namespaces";
        let path = match object["kind"].as_str().unwrap() {
            "PodSecurityPolicy" => POLICIES.to_owned(),
            "Role" => format!("{rights}/{namespace}/roles"),
            "RoleBinding" => format!("{rights}/{namespace}/rolebindings"),
            kind => panic!("{kind} is no part of a policy"),
        };
        create(client, &path, object).await;
    }
}

/// A namespace and those who make pods in it.
pub(crate) struct Place<'c> {
    pub(crate) namespace: Namespace,
    cluster: &'c Cluster,
}

impl Place<'static> {
    /// The namespace `name` of the shared cluster: see [`Place::within`].
    pub(crate) async fn create(name: &str, labels: &[(&str, &str)], accounts: &[&str]) -> Self {
        Self::within(shared().await, name, labels, accounts).await
    }
}

impl<'c> Place<'c> {
    /// The namespace `name`, which wants its pods meshed, with `accounts` beside `default`.
    pub(crate) async fn within(cluster: &'c Cluster, name: &str, labels: &[(&str, &str)], accounts: &[&str]) -> Self {
        let client = cluster.client().await;
        let place = Self {
            namespace: Namespace::create_named(&client, name, labels, &[INJECT]).await,
            cluster,
        };
        for account in accounts {
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
            create(&client, &path, &json!({"metadata": {"name": account}})).await;
        }
        place
    }

    /// The namespace as `controller` sees it: pods that it makes are up to their service account.
    pub(crate) async fn seen_by(&self, controller: &str) -> Namespace {
        let client = self.cluster.client_as(Some(&account(controller))).await;
        self.namespace.seen_by(&client)
    }

    /// Makes `pod` as `controller` does.
    pub(crate) async fn make(&self, controller: &str, pod: &Value) -> Reply {
        self.seen_by(controller).await.create_pod(pod).await
    }

    /// Asks about `pod`, made by `controller`, until the answer is as `wanted`: grants and policies come to the server and
    /// to the webhook by watches.
    pub(crate) async fn until(&self, controller: &str, pod: &Value, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let (seen, mut last) = (self.seen_by(controller).await, None);
        let found = poll(LIMIT, async || {
            let reply = seen.try_pod(pod).await;
            let done = wanted(&reply);
            last = Some(reply);
            done.then_some(())
        });
        let found = found.await;
        let last = last.unwrap();
        assert!(found.is_some(), "{} {} {}", last.code, last.message(), last.body);
        last
    }
}

/// What `outrigger explain` says of `pod` in `namespace`, made by `controller`, to whoever has `kubeconfig`.
pub(crate) fn explain(kubeconfig: &Path, controller: &str, namespace: &str, pod: &Value, values: &str) -> Value {
    let folder = TempDir::new().unwrap();
    let (file, document) = (folder.path().join("pod.yaml"), folder.path().join("values.yaml"));
    let mut object = pod.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    object["metadata"]["namespace"] = namespace.into();
    fs::write(&file, object.to_string()).unwrap();
    fs::write(&document, values).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["explain", "-o", "json", "--as", &account(controller), "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--values")
        .arg(document)
        .arg("-f")
        .arg(file)
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{said}");
    list[0].clone()
}

/// The user that a controller is.
pub(crate) fn account(controller: &str) -> String {
    format!("system:serviceaccount:kube-system:{controller}")
}

/// Whether the pod was admitted with that redirection; `None` for one without a proxy.
pub(crate) fn is_meshed(reply: &Reply, redirection: Option<&str>) -> bool {
    reply.accepted() && mesh::redirection(&reply.body) == redirection
}

/// The policy that took a pod, as the server noted it.
pub(crate) fn policy_of(pod: &Value) -> Option<&str> {
    mesh::annotation(pod, "kubernetes.io/psp")
}

/// Every seccomp profile that a pod asks for, whoever of it does.
pub(crate) fn seccomp_profiles(pod: &Value) -> Vec<&Value> {
    let contexts = mesh::containers(pod).chain([&pod["spec"]]);
    let profiles = contexts.map(|owner| &owner["securityContext"]["seccompProfile"]);
    profiles.filter(|profile| !profile.is_null()).collect()
}
