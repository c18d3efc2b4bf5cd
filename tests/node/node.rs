//! A cluster of one node: control plane, container runtime and kubelet, all of them real, on a machine of their own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::{Cluster, Options, Process, Verb, built, call};
use crate::image::{POD, archives};
use crate::sandbox::{Sandbox, enter};
use crate::{block_on, eventually, install, programs};

/// Its name.
pub(crate) const NAME: &str = "node";

/// Its address; RFC 5737.
const ADDRESS: &str = "192.0.2.2";

/// The address of the service `kubernetes`: the first of the API server's `--service-cluster-ip-range`.
const KUBERNETES: &str = "10.96.0.1";

/// Where the container runtime listens.
pub(crate) const RUNTIME: &str = "/run/containerd/containerd.sock";

/// The configuration of the pod network that the node comes with.
pub(crate) const NETWORK: &str = "/etc/cni/net.d/10-pods.conflist";

/// The name of the network in it.
pub(crate) const NETWORK_NAME: &str = "pods";

/// Where the kubelet finds static pods.
pub(crate) const STATIC_PODS: &str = "/etc/kubernetes/manifests";

/// The taint that keeps pods away until the agent is ready.
pub(crate) const TAINT: &str = "outrigger.linkerd.io/cni-not-ready";

/// How much of a log is worth quoting in a failure.
const TAIL: usize = 12_000;

/// A running node with the product on it; its processes end before the machine that they run on.
#[derive(Debug)]
pub(crate) struct Node {
    /// The text of [`NETWORK`] before anybody changed it.
    pub(crate) network: String,
    _kubelet: Process,
    _runtime: Process,
    _controllers: [Process; 2],
    pub(crate) cluster: Cluster,
    pub(crate) sandbox: Sandbox,
}

/// Folders of programs.
struct Programs {
    node: PathBuf,
    cni: PathBuf,
}

impl Node {
    /// Starts everything, installs the product and waits until it is ready.
    pub(crate) fn start() -> Self {
        let build = |part| built(part).unwrap_or_else(|message| panic!("{message}"));
        let programs = Programs {
            node: build("node"),
            cni: build("cni"),
        };
        let sandbox = block_on(Sandbox::start(&programs.node.join("pod")));
        let network = sandbox.network();
        enter(&network, || block_on(Self::boot(sandbox, &programs)))
    }

    async fn boot(sandbox: Sandbox, programs: &Programs) -> Self {
        prepare_network(&sandbox, &programs.cni);
        let cluster = Cluster::start(options())
            .await
            .unwrap_or_else(|message| panic!("{message}"));
        route_to_api_server(&sandbox, cluster.port());
        let node = Self {
            network: fs::read_to_string(sandbox.path(NETWORK)).expect("it was just written"),
            _runtime: start_runtime(&sandbox).await,
            _controllers: start_controllers(&sandbox, &cluster, &programs.node),
            _kubelet: {
                import_images(&sandbox, &programs.node);
                start_kubelet(&sandbox, &cluster, &programs.node)
            },
            cluster,
            sandbox,
        };
        eventually("the node is ready", async || {
            let object = node.read(&format!("/api/v1/nodes/{NAME}")).await;
            match condition(&object, "Ready") {
                true => Ok(()),
                false => Err(format!("{}", object["status"]["conditions"])),
            }
        })
        .await;
        install::agent(&node).await;
        install::taint_is_gone(&node).await;
        install::webhook(&node).await;
        node
    }

    /// Starts the API server again after [`Cluster::stop_api_server`].
    pub(crate) async fn start_api_server(&mut self) {
        let started = self.cluster.restart_api_server(options()).await;
        started.unwrap_or_else(|message| panic!("{message}"));
    }

    /// Has namespaces deleted, which goes on when this returns.
    pub(crate) fn delete_namespaces(&self, names: &[&str]) {
        self.kubectl(&[&["delete", "namespace", "--wait=false"], names].concat());
    }

    /// Runs `kubectl`, which must succeed, and returns what it printed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.cluster.kubectl(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Applies an object.
    pub(crate) fn apply(&self, object: &Value) {
        let file = self.sandbox.folder().join("object.json");
        fs::write(&file, object.to_string()).expect("a file can be written");
        self.kubectl(&["apply", "--filename", file.to_str().expect("paths are UTF-8")]);
    }

    /// What the API server has at `path`; null where it has nothing.
    pub(crate) async fn read(&self, path: &str) -> Value {
        let client = self.cluster.client().await;
        match call(&client, Verb::Get, path, None).await {
            Ok(reply) if reply.accepted() => reply.body,
            Ok(_) | Err(_) => Value::Null,
        }
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let folders = [self.sandbox.logs(), self.sandbox.path("/var/log/pods")];
        let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_under(folder)).collect();
        files.sort();
        let tail = |file: &PathBuf| {
            let text = fs::read(file).unwrap_or_default();
            let from = text.len().saturating_sub(TAIL);
            format!(
                "=== end of {}\n{}\n",
                file.display(),
                String::from_utf8_lossy(&text[from..])
            )
        };
        files.iter().map(tail).collect()
    }
}

fn options() -> Options {
    Options {
        flags: vec![
            // There is no kube-proxy: webhooks are reached at the addresses of their pods.
            "--enable-aggregator-routing=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ],
        ..Options::default()
    }
}

/// Whether a condition of an object's status is true.
pub(crate) fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] })
        .collect()
}

/// Gives the machine an address, and pods a network.
fn prepare_network(sandbox: &Sandbox, plugins: &Path) {
    for command in [
        "ip link add uplink type bridge",
        "ip link set uplink up",
        &format!("ip address add {ADDRESS}/24 dev uplink"),
        "ip route add default via 192.0.2.1",
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1",
        "mkdir -p /opt/cni/bin /etc/cni/net.d",
    ] {
        sandbox.run(&command.split(' ').collect::<Vec<_>>());
    }
    for plugin in ["bridge", "host-local", "loopback"] {
        let target = sandbox.path("/opt/cni/bin").join(plugin);
        fs::copy(plugins.join(plugin), target).expect("a plugin can be copied");
    }
    let list = json!({"cniVersion": "1.0.0", "name": NETWORK_NAME, "plugins": [{
        "type": "bridge", "bridge": "pods0", "isDefaultGateway": true, "hairpinMode": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]},
    }]});
    fs::write(sandbox.path(NETWORK), format!("{list:#}\n")).expect("a file can be written");
}

/// Does what kube-proxy would, for the one service that pods need: the API server's.
fn route_to_api_server(sandbox: &Sandbox, port: u16) {
    let rule = format!("ip daddr {KUBERNETES} tcp dport 443 dnat to 127.0.0.1:{port}");
    let text = format!(
        "table ip services {{
            chain prerouting {{ type nat hook prerouting priority dstnat; {rule}; }}
            chain output {{ type nat hook output priority -100; {rule}; }}
        }}\n"
    );
    let file = sandbox.folder().join("services.nft");
    fs::write(&file, text).expect("a file can be written");
    sandbox.run(&["nft", "--file", file.to_str().expect("paths are UTF-8")]);
}

async fn start_runtime(sandbox: &Sandbox) -> Process {
    let configuration = format!(
        "version = 2
[grpc]
  address = \"{RUNTIME}\"
[plugins.\"io.containerd.grpc.v1.cri\"]
  sandbox_image = \"{POD}\"
  restrict_oom_score_adj = true
"
    );
    fs::write(sandbox.path("/etc/containerd.toml"), configuration).expect("a file can be written");
    let mut command = sandbox.command("containerd");
    command.args(["--config", "/etc/containerd.toml"]);
    let mut runtime = Process::spawn("containerd", &mut command, &sandbox.logs());
    eventually("containerd answers", async || {
        if let Some(status) = runtime.ended() {
            panic!(
                "containerd ended: {status}; needed: apt-get install containerd runc; {}",
                runtime.log_tail()
            );
        }
        let output = sandbox.try_run(&["ctr", "--address", RUNTIME, "version"]);
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await;
    runtime
}

/// Runs `ctr` in the namespace of the kubelet's containers; it must succeed.
pub(crate) fn ctr(sandbox: &Sandbox, arguments: &[&str]) {
    let of_kubelet = ["ctr", "--address", RUNTIME, "--namespace", "k8s.io"];
    sandbox.run(&[of_kubelet.as_slice(), arguments].concat());
}

fn import_images(sandbox: &Sandbox, assets: &Path) {
    let folder = sandbox.folder().join("images");
    fs::create_dir(&folder).expect("a folder can be made");
    let programs = programs::link(&folder);
    for archive in archives(&folder, &programs, &assets.join("pod")) {
        let archive = archive.to_str().expect("paths are UTF-8");
        ctr(sandbox, &["images", "import", archive]);
    }
    fs::remove_dir_all(&folder).expect("a folder can be removed");
}

fn start_controllers(sandbox: &Sandbox, cluster: &Cluster, programs: &Path) -> [Process; 2] {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let start = |name: &'static str, flags: &[String]| {
        let mut command = sandbox.command(programs.join(name));
        command
            .args([&kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"])
            .args(flags);
        Process::spawn(name, &mut command, &sandbox.logs())
    };
    let file = |flag: &str, name: &str| format!("--{flag}={}", cluster.file(name).display());
    let accounts = [
        file("service-account-private-key-file", "service-account.key"),
        file("root-ca-file", "apiserver.crt"),
    ];
    [
        start("kube-controller-manager", &accounts),
        start("kube-scheduler", &[]),
    ]
}

fn start_kubelet(sandbox: &Sandbox, cluster: &Cluster, programs: &Path) -> Process {
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", sandbox.name()),
        "cgroupsPerQOS": true,
        "containerRuntimeEndpoint": format!("unix://{RUNTIME}"),
        "enforceNodeAllocatable": [],
        // Whatever disk and kernel the tests run on.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        "registerWithTaints": [{"key": TAINT, "effect": "NoSchedule"}],
        "resolvConf": "",
        "staticPodPath": STATIC_PODS,
    });
    fs::create_dir_all(sandbox.path(STATIC_PODS)).expect("a folder can be made");
    fs::write(sandbox.path("/etc/kubelet.json"), configuration.to_string()).expect("a file can be written");
    let mut command = sandbox.command(programs.join("kubelet"));
    command
        .args([
            "--config=/etc/kubelet.json",
            "--hostname-override",
            NAME,
            "--node-ip",
            ADDRESS,
        ])
        .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    Process::spawn("kubelet", &mut command, &sandbox.logs())
}
