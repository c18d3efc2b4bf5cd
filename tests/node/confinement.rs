//! The programs of the image in the containers that the charts and injection make: what their processes really have.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::getxattr;
use serde_json::{Value, json};

use crate::cluster::{Verb, call};
use crate::node::Node;
use crate::pods::{application, meshed_namespace, namespace};
use crate::process::{Standing, running};
use crate::{eventually, on_node};

/// `CAP_NET_ADMIN` and `CAP_NET_RAW`, by their numbers in linux/capability.h.
const NET: u64 = 1 << 12 | 1 << 13;

/// The file capabilities `cap_net_admin,cap_net_raw+eip`: `struct vfs_cap_data` of linux/capability.h, revision 2 with the
/// effective bit, then permitted and inheritable, low words first.
const NET_CAPABILITIES: [u32; 5] = [0x0200_0001, 0x3000, 0x3000, 0, 0];

const PROXY_INIT: &str = "/usr/lib/linkerd/linkerd2-proxy-init";
const VALIDATOR: &str = "/usr/lib/linkerd/linkerd2-network-validator";

/// The users of Linkerd's controllers, and of its init containers.
const CONTROLLER: u32 = 2103;
const NOBODY: u32 = 65534;

/// A pod of `namespace` as the webhook makes it.
async fn injected(node: &Node, namespace: &str, annotations: &Value) -> Value {
    let metadata = json!({"name": "injected", "annotations": annotations});
    let pod = json!({"metadata": metadata, "spec": application("injected")});
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let reply = call(&node.cluster.client().await, Verb::Create, &path, Some(&pod)).await;
    let reply = reply.expect("the API server answers");
    assert!(reply.accepted(), "{}", reply.body);
    reply.body
}

/// The injected container `name`.
fn container(pod: &Value, name: &str) -> Value {
    let mut containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let found = containers.find(|container| container["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {pod}")).clone()
}

/// Runs an injected container in a pod of its own, in a namespace that the webhook is not asked about; `folder` of the node
/// is in it.
fn run(node: &Node, name: &str, mut container: Value, folder: &Path) {
    let mounts: Vec<String> = ["linkerd-proxy-init-xtables-lock", "folder"].map(str::to_owned).into();
    container["volumeMounts"] = json!([
        {"name": mounts[0], "mountPath": "/run"},
        {"name": mounts[1], "mountPath": folder, "readOnly": true},
    ]);
    container.as_object_mut().unwrap().remove("restartPolicy");
    let mut spec = application(name);
    spec["initContainers"] = json!([container]);
    spec["volumes"] = json!([
        {"name": mounts[0], "emptyDir": {}},
        {"name": mounts[1], "hostPath": {"path": folder}},
    ]);
    let metadata = json!({"name": name, "namespace": "confined"});
    node.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
}

/// Waits until the program runs once, and tells what it has.
async fn standing(node: &Node, program: &str) -> Standing {
    let process = eventually(
        &format!("{program} runs"),
        async || match running(node, &[program])[..] {
            [process] => Ok(process),
            ref others => Err(format!("{others:?}")),
        },
    )
    .await;
    Standing::of(node, process)
}

#[test]
fn the_programs_of_pods_have_what_injection_gives_them_and_no_more() {
    on_node(async |node| {
        meshed_namespace(node, "giving", "privileged").await;
        namespace(
            node,
            "confined",
            &json!({"config.linkerd.io/admission-webhooks": "disabled"}),
            &json!({}),
        )
        .await;
        let folder = node.sandbox.folder().join("held");
        fs::create_dir(&folder).unwrap();
        // What opens it waits for somebody at its other end.
        let held = folder.join("held");
        node.sandbox.run(&["mkfifo", "--mode=0644", held.to_str().unwrap()]);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();

        let pod = injected(node, "giving", &json!({"linkerd.io/setup-iptables": "init-container"})).await;
        let mut init = container(&pod, "linkerd-init");
        let arguments = init["args"].as_array_mut().unwrap();
        arguments.extend(["--netns", held.to_str().unwrap()].map(Value::from));
        run(node, "init", init.clone(), &folder);
        assert_eq!(standing(node, PROXY_INIT).await, Standing::confined(NOBODY, NET));
        drop(File::options().write(true).open(&held).unwrap());

        let pod = injected(node, "giving", &json!({"linkerd.io/setup-iptables": "cni"})).await;
        let mut validator = container(&pod, "linkerd-network-validator");
        // There are no rules, so it waits for them.
        let arguments = validator["args"].as_array_mut().unwrap();
        let timeout = arguments.iter().position(|argument| argument == "--timeout").unwrap();
        arguments[timeout + 1] = "1h".into();
        run(node, "validator", validator, &folder);
        assert_eq!(standing(node, VALIDATOR).await, Standing::confined(NOBODY, 0));

        // This is why the program is nobody else's.
        init["securityContext"]["capabilities"] = json!({"drop": ["ALL"]});
        run(node, "dropped", init, &folder);
        eventually("the program cannot be started without its capabilities", async || {
            let pod = node.read("/api/v1/namespaces/confined/pods/dropped").await;
            let status = pod["status"]["initContainerStatuses"].to_string();
            match status.contains(PROXY_INIT) && status.contains("operation not permitted") {
                true => Ok(()),
                false => Err(status),
            }
        })
        .await;
        node.delete_namespaces(&["giving", "confined"]);
    });
}

#[test]
fn the_webhook_starts_with_nothing_and_file_capabilities_are_on_one_file() {
    on_node(async |node| {
        let webhooks = running(node, &["/outrigger", "webhook"]);
        assert!(!webhooks.is_empty());
        for process in webhooks {
            assert_eq!(Standing::of(node, process), Standing::confined(CONTROLLER, 0));
            let root = node.sandbox.path(&format!("/proc/{process}/root"));
            let inside = |path: &str| root.join(path.trim_start_matches('/'));
            let value: Vec<u8> = NET_CAPABILITIES.into_iter().flat_map(u32::to_le_bytes).collect();
            assert_eq!(capabilities(&inside(PROXY_INIT)), value);
            for program in [
                "/outrigger",
                "/outrigger-egress-gateway",
                "/outrigger-cni",
                "/outrigger-cni-api",
            ] {
                assert_eq!(capabilities(&inside(program)), [0; 0], "{program}");
            }
            let file = |path: &str| fs::metadata(inside(path)).unwrap().ino();
            assert_eq!(file(VALIDATOR), file("/outrigger"));
        }
    });
}

/// The file capabilities of a file; empty where it has none.
fn capabilities(file: &Path) -> Vec<u8> {
    let mut value = [0; 64];
    match getxattr(file, "security.capability", &mut value) {
        Ok(length) => value[..length].to_vec(),
        Err(rustix::io::Errno::NODATA) => Vec::new(),
        Err(error) => panic!("{}: {error}", file.display()),
    }
}
