//! A node in a temporary folder, and the real agent on it, with the rights of its manifests.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::webhook::read;
use crate::cluster::{Cluster, Port, Process, Verb, call, poll};

/// Nothing that an agent does takes this long on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The configuration of the plugin before ours.
pub(crate) const LIST: &str =
    "{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"net\",\n  \"plugins\": [\n    {\"type\": \"bridge\"}\n  ]\n}\n";

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) folder: TempDir,
    admin: Port,
}

/// A running agent.
#[derive(Debug)]
pub(crate) struct Agent(Process);

/// Applies the manifests.
///
/// Tests of one cluster do so one after the other: of two `kubectl apply` that find nothing and create, one fails.
pub(crate) fn install(cluster: &Cluster) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for file in ["namespace.yaml", "rbac.yaml", "daemonset.yaml"] {
        apply(cluster, file);
    }
}

/// Applies one of the manifests.
pub(crate) fn apply(cluster: &Cluster, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cni-config").join(file);
    kubectl(cluster, &["apply", "-f", path.to_str().unwrap()]);
}

/// Runs `kubectl`, which must succeed.
pub(crate) fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = cluster.kubectl(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A token of the agent's account.
async fn token(cluster: &Cluster, request: &Value) -> Value {
    let path = "/api/v1/namespaces/linkerd-cni/serviceaccounts/outrigger-cni/token";
    let issued = call(&cluster.client().await, Verb::Create, path, Some(request))
        .await
        .unwrap();
    assert!(issued.accepted(), "{}", issued.message());
    issued.body["status"]["token"].clone()
}

impl Node {
    /// A node with the network configuration of somebody else, which no API server has.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let node = Self {
            name: format!("node-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            folder: TempDir::new().unwrap(),
            admin: Port::reserve(),
        };
        for folder in ["bin", "net.d", "cache", "netns"] {
            fs::create_dir(node.path(folder)).unwrap();
        }
        fs::write(node.path("net.d/10-net.conflist"), LIST).unwrap();
        node
    }

    /// The same, with `taints`, and known to the API server.
    pub(crate) async fn create(cluster: &Cluster, taints: &Value) -> Self {
        let node = Self::new();
        let object =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}, "spec": {"taints": taints}});
        let client = cluster.client().await;
        let created = call(&client, Verb::Create, "/api/v1/nodes", Some(&object))
            .await
            .unwrap();
        assert!(created.accepted(), "{}", created.message());
        node
    }

    /// A token of the agent's account that is bound to the pod `agent` on this node, as the kubelet's are; it makes the pod.
    pub(crate) async fn bound_token(&self, cluster: &Cluster) -> Value {
        let pod = json!({"metadata": {"name": "agent"}, "spec": {"serviceAccountName": "outrigger-cni", "nodeName": self.name,
            "containers": [{"name": "install-cni", "image": "i"}]}});
        let path = "/api/v1/namespaces/linkerd-cni/pods";
        let created = call(&cluster.client().await, Verb::Create, path, Some(&pod))
            .await
            .unwrap();
        assert!(created.accepted(), "{}", created.message());
        let uid = &created.body["metadata"]["uid"];
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "agent", "uid": uid});
        token(cluster, &json!({"spec": {"boundObjectRef": pod}})).await
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Starts the agent with the rights of its manifests.
    pub(crate) async fn start(&self, cluster: &Cluster, flags: &[&str]) -> Agent {
        let token = token(cluster, &json!({"spec": {}})).await;
        self.start_as(cluster, &token, flags)
    }

    /// Starts the agent with a token of its account.
    pub(crate) fn start_as(&self, cluster: &Cluster, token: &Value, flags: &[&str]) -> Agent {
        let mut document: Value = serde_json::from_str(&fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
        document["users"][0]["user"] = json!({"token": token});
        self.start_with(&document, flags)
    }

    /// Starts the agent with a kubeconfig of its own.
    pub(crate) fn start_with(&self, document: &Value, flags: &[&str]) -> Agent {
        fs::write(self.path("agent-kubeconfig"), document.to_string()).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_outrigger-cni")).parent().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command
            .args(["cni-agent", "--node-name", &self.name, "--mount-prefix", "/"])
            .args(["--admin-listen", &self.admin.address().to_string()])
            .args(["--daemon-set", "linkerd-cni/outrigger-cni"])
            .arg("--source-dir")
            .arg(programs);
        for (flag, name) in [
            ("--bin-dir", "bin"),
            ("--net-dir", "net.d"),
            ("--cache-dir", "cache"),
            ("--run-dir", "run"),
            ("--netns-dir", "netns"),
            ("--kubeconfig", "agent-kubeconfig"),
        ] {
            command.arg(flag).arg(self.path(name));
        }
        if !flags.contains(&"--plugin-token-file") {
            command.args(["--plugin-account", "linkerd-cni/outrigger-cni-plugin"]);
        }
        command.args(flags);
        Agent(Process::spawn("agent", &mut command, self.folder.path()))
    }

    /// What the admin port answers.
    pub(crate) async fn ask(&self, path: &str) -> (u16, String) {
        read(self.admin.address(), path).await.unwrap_or_default()
    }

    /// Waits until the agent is ready.
    pub(crate) async fn ready(&self, agent: &Agent) {
        let ready = async || (self.ask("/ready").await.0 == 200).then_some(());
        let found = poll(LIMIT, ready).await;
        assert!(
            found.is_some(),
            "{:?}; {}",
            self.ask("/ready").await,
            agent.0.log_tail()
        );
    }

    /// Asks on the agent's socket.
    pub(crate) fn question(&self, question: &Value) -> Value {
        let mut stream = UnixStream::connect(self.path("run/cni.sock")).unwrap();
        writeln!(stream, "{question}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The keys of the node's taints, but for those that the API server itself sets on a node without a kubelet.
    pub(crate) async fn taints(&self, cluster: &Cluster) -> Vec<String> {
        let path = format!("/api/v1/nodes/{}", self.name);
        let node = call(&cluster.client().await, Verb::Get, &path, None)
            .await
            .unwrap()
            .body;
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let keys = taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned());
        keys.filter(|key| !key.starts_with("node.kubernetes.io/")).collect()
    }
}

impl Agent {
    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(self) -> ExitStatus {
        self.0.terminate().await
    }

    pub(crate) fn log_tail(&self) -> String {
        self.0.log_tail()
    }
}
