//! The two servers, on the first core; this program goes to the second.

use crate::server::{Files, Server};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of the API server. One that is connected is asked for it, and says so; else every pod's author is told that
/// the newest is assumed.
const RELEASE: &str = "1.36";

/// Both servers.
pub(crate) struct Servers {
    pub(crate) floor: Server,
    pub(crate) ours: Server,
    pub(crate) files: Files,
}

impl Servers {
    /// Starts the webhook, and the floor whose sources and answer are in `tool`.
    pub(crate) fn start(tool: &Path) -> Result<Self, Box<dyn Error>> {
        let program = floor_program(tool)?;
        let files = Files::new()?;
        fs::write(files.path("objects"), objects().to_string())?;
        let cores = cores()?;
        pin(cores.first())?;
        let floor = Server::start(|address| {
            let mut command = Command::new(&program);
            command.arg(address.to_string());
            command.args([files.path("tls.crt"), files.path("tls.key"), tool.join("patch.b64")]);
            Ok(command)
        })?;
        let ours = Server::webhook(&files, |command| {
            command.arg("--standalone").arg("--objects").arg(files.path("objects"));
            command.args(["--server-version", RELEASE]);
        })?;
        pin(cores.get(1))?;
        Ok(Self { floor, ours, files })
    }
}

/// The floor's program: the one that `OUTRIGGER_FLOOR` names, else built from `tool` beside our own programs.
fn floor_program(tool: &Path) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(program) = std::env::var_os("OUTRIGGER_FLOOR") {
        return Ok(program.into());
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floor");
    fs::create_dir_all(copy.join("src"))?;
    for name in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        let content = fs::read(tool.join(name)).map_err(|error| format!("{}: {error}", tool.join(name).display()))?;
        // What is the same stays as old as it is, so that nothing is built twice.
        if fs::read(copy.join(name)).ok().as_ref() != Some(&content) {
            fs::write(copy.join(name), content)?;
        }
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(copy.join("target"))
        .current_dir(&copy)
        .status()?;
    match built.success() {
        true => Ok(copy.join("target/release/floor")),
        false => Err(format!("the floor cannot be built: {built}").into()),
    }
}

/// The cores that this process may use.
fn cores() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Keeps this process, and those that it starts from now on, on `core`, where there is such a one.
fn pin(core: Option<&usize>) -> io::Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(*core);
    Ok(sched_setaffinity(None, &set)?)
}

/// A cluster with a namespace of each case, in which the CNI plugin is on every node.
fn objects() -> Value {
    let namespace = |name: &str, level: &str, annotations: Value| {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels, "annotations": annotations}})
    };
    let replica_set = |namespace: &str| {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": "1", "controller": true});
        let metadata = json!({"name": "shop-6d5f9c7b84", "namespace": namespace, "ownerReferences": [owner]});
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata})
    };
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}});
    let plugin = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "linkerd-cni", "namespace": "linkerd-cni", "labels": {"k8s-app": "linkerd-cni"}},
        "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}], "containers": [],
            "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}},
    });
    let items = [
        namespace("restricted", "restricted", json!({"linkerd.io/inject": "enabled"})),
        namespace(
            "privileged",
            "privileged",
            json!({"linkerd.io/inject": "enabled", "linkerd.io/setup-iptables": "init-container"}),
        ),
        namespace(
            "annotated",
            "restricted",
            json!({
                "linkerd.io/inject": "enabled",
                "config.linkerd.io/proxy-cpu-request": "100m",
                "config.linkerd.io/proxy-memory-limit": "250Mi",
            }),
        ),
        replica_set("restricted"),
        replica_set("privileged"),
        replica_set("annotated"),
        node("one"),
        node("two"),
        plugin,
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
