//! The plugin behind bridge and host-local, called by `cnitool` as libcni calls it.

use crate::agent::Agent;
use crate::api::Api;
use crate::netns::{Netns, output, stderr};
use crate::pods::meshed;
use crate::rules::native;
use crate::runtime::{PLUGIN, has_rules};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The folder with cnitool and the CNI project's plugins: `tests/assets/build cni` prints it.
fn assets() -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/assets/build");
    let built = output(Command::new(build).arg("cni").stderr(Stdio::inherit()));
    assert!(
        built.status.success(),
        "tests/assets/build cni: what it needs is said above"
    );
    PathBuf::from(String::from_utf8_lossy(&built.stdout).trim_end())
}

/// A node with networks of its own: its bridge, its addresses and its configuration go with it.
pub(crate) struct Node {
    namespace: Netns,
    assets: PathBuf,
    folder: TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self {
            namespace: Netns::new(),
            assets: assets(),
            folder: TempDir::new().expect("a folder can be made"),
        }
    }

    /// Writes the network `name`: bridge with host-local, and our plugin with `ours` behind it.
    pub(crate) fn write_network(&self, name: &str, version: &str, ours: &Value) {
        let mut plugin = ours.clone();
        plugin["type"] = json!("outrigger-cni");
        let bridge = json!({
            "type": "bridge", "bridge": "cni0", "isGateway": true, "isDefaultGateway": true,
            "ipam": {
                "type": "host-local",
                "dataDir": self.folder.path().join("addresses"),
                "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd88::/64"}]],
            },
        });
        self.write_list(name, version, &json!([bridge, plugin]));
    }

    fn write_list(&self, name: &str, version: &str, plugins: &Value) {
        let list = json!({"cniVersion": version, "name": name, "plugins": plugins});
        let file = self.folder.path().join(format!("{name}.conflist"));
        std::fs::write(file, list.to_string()).expect("a file can be written");
    }

    /// Runs cnitool on the node.
    pub(crate) fn cnitool(&self, verb: &str, network: &str, pod: &Netns) -> Output {
        let plugins = Path::new(PLUGIN).parent().expect("it lies in a folder");
        let path = format!("{}:{}", self.assets.display(), plugins.display());
        let mut command = Command::new(self.assets.join("cnitool"));
        command
            .args([verb, network])
            .arg(pod.path())
            .env("CNI_PATH", path)
            .env("NETCONFPATH", self.folder.path())
            .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=app;K8S_POD_NAME=meshed");
        self.namespace.run(&mut command)
    }

    /// The addresses that are taken.
    fn addresses(&self, network: &str) -> usize {
        let folder = std::fs::read_dir(self.folder.path().join("addresses").join(network));
        let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names
            .filter(|name| {
                name.to_string_lossy().contains(['.', ':']) && !name.to_string_lossy().starts_with("last_reserved")
            })
            .count()
    }
}

fn done(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", stderr(output));
    printed
}

fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output);
    assert!(!output.status.success(), "{said}");
    said
}

fn name(version: &str) -> String {
    format!("or{}-{}", std::process::id(), version.replace('.', ""))
}

#[test]
fn a_chain_gives_a_pod_its_address_and_its_rules_and_takes_both_away() {
    for version in ["1.1.0", "1.0.0"] {
        let (node, pod, agent) = (Node::new(), Netns::new(), Agent::knowing(meshed()));
        let network = name(version);
        node.write_network(
            &network,
            version,
            &json!({"outrigger": {"socket": agent.socket()}, "linkerd": {"ipv6": true}}),
        );
        node.write_list("lo", version, &json!([{"type": "loopback"}]));
        done(&node.cnitool("add", "lo", &pod));
        let run = |verb| node.cnitool(verb, &network, &pod);

        let result: Value = serde_json::from_str(&done(&run("add"))).expect("a result is JSON");
        assert_eq!(result["cniVersion"], version);
        assert_eq!(result["ips"].as_array().map(Vec::len), Some(2), "{result}");
        assert!(pod.tool("ip", &["addr", "show", "eth0"]).contains("10.88.0."));
        let rules = native(&pod);
        assert!(
            rules.contains("table inet outrigger") && rules.contains("skuid 2102"),
            "{rules}"
        );
        done(&run("check"));

        pod.tool("nft", &["delete", "table", "inet", "outrigger"]);
        assert!(refused(&run("check")).contains("the rules of pod app/meshed are not in force"));

        // A runtime that calls ADD again must call DEL before; the bridge insists on it, our part does not.
        done(&run("del"));
        done(&run("add"));
        assert_eq!(native(&pod), rules);
        done(&run("check"));

        done(&run("del"));
        assert!(!has_rules(&pod), "the namespace lives, the rules are gone");
        assert_eq!(node.addresses(&network), 0);
        done(&run("del"));
        if version == "1.1.0" {
            done(&run("add"));
            done(&run("status"));
            done(&run("gc"));
            done(&run("del"));
        }
    }
}

#[test]
fn status_of_a_chain_is_ours_to_deny() {
    let (node, pod) = (Node::new(), Netns::new());
    let network = name("status");
    let status = |ours: &Value| {
        node.write_network(&network, "1.1.0", ours);
        node.cnitool("status", &network, &pod)
    };
    let nobody = json!({"outrigger": {"socket": "/nonexistent/socket"}});
    assert!(refused(&status(&nobody)).contains("pods cannot be set up at the moment"));
    let inside = |make: fn() -> Api| node.namespace.inside(make);
    for (api, there) in [
        (inside(|| Api::refusing(401)), false),
        (inside(|| Api::with(&meshed())), true),
    ] {
        let kubernetes = json!({"kubeconfig": api.kubeconfig()});
        let answered = status(&json!({"outrigger": {"socket": "/nonexistent/socket"}, "kubernetes": kubernetes}));
        if there {
            done(&answered);
        } else {
            let said = refused(&answered);
            assert!(said.contains("status 401"), "{said}");
        }
    }
}

#[test]
fn what_fails_behind_others_is_undone_by_del() {
    let (node, pod) = (Node::new(), Netns::new());
    let network = name("failing");
    let agent = Agent::knowing(meshed());
    node.write_network(
        &network,
        "1.1.0",
        &json!({"outrigger": {"socket": agent.socket()}, "linkerd": {"iptables-mode": "ebtables"}}),
    );
    let said = refused(&node.cnitool("add", &network, &pod));
    assert!(said.contains("linkerd.iptables-mode"), "{said}");
    done(&node.cnitool("del", &network, &pod));
    assert_eq!(node.addresses(&network), 0);
    assert!(!has_rules(&pod));
}
