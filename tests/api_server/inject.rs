//! `outrigger inject` with the values of a live installation, as its `ConfigMap`s have them.

use std::fs;
use std::path::Path;
use std::process::Command;

use kube::Client;
use serde_json::json;
use tempfile::TempDir;

use crate::cluster::{Cluster, Namespace, Options, create};

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web}]}
";

/// Exit status, what was printed and what was said.
fn inject(cluster: &Cluster, folder: &Path, flags: &str) -> (Option<i32>, String, String) {
    fs::write(folder.join("app.yaml"), POD).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["inject", "app.yaml", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(flags.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn create_map(client: &Client, name: &str, key: &str, text: &str) {
    let map = json!({"metadata": {"name": name}, "data": {key: text}});
    create(client, "/api/v1/namespaces/linkerd/configmaps", &map).await;
}

/// A certificate authority of no use but to be one.
fn anchors(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command.args(["certs", "--dns", "localhost", "--out"]).arg(folder);
    assert!(command.output().unwrap().status.success());
    fs::read_to_string(folder.join("ca.crt")).unwrap()
}

#[tokio::test]
async fn the_values_are_those_of_the_installation() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let folder = TempDir::new().unwrap();
    let inject = |flags: &str| inject(&cluster, folder.path(), flags);

    let (status, printed, said) = inject("");
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    let none = "Error: Cannot find Linkerd: namespace linkerd has no ConfigMap linkerd-config\n";
    assert!(said.starts_with(none), "{said}");
    Namespace::create_named(&client, "linkerd", &[], &[]).await;
    let values = "linkerdVersion: edge-26.1.1\nproxy: {ports: {admin: 9000}, logLevel: debug}\n";
    create_map(&client, "linkerd-config", "values", values).await;

    // A flag that says what the installation says is no annotation.
    let (_, printed, said) = inject("--admin-port 9000 --proxy-log-level info");
    assert_eq!(said, "\npod \"web\" injected\n\n");
    assert!(!printed.contains("admin-port"), "{printed}");
    assert!(
        printed.contains("config.linkerd.io/proxy-log-level: info\n"),
        "{printed}"
    );

    // An installation whose certificate authority somebody else keeps.
    let (status, _, said) = inject("--manual");
    assert_eq!(status, Some(1));
    assert!(
        said.contains("--manual needs the installation's trust anchors"),
        "{said}"
    );
    let anchors = anchors(folder.path());
    create_map(&client, "linkerd-identity-trust-roots", "ca-bundle.crt", &anchors).await;
    let (status, printed, said) = inject("--manual");
    assert_eq!(status, Some(0), "{said}");
    for part in [":edge-26.1.1\n", "-----BEGIN CERTIFICATE-----", "9000", "value: debug,"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let (status, _, said) = inject("--as nobody");
    assert_eq!(status, Some(1));
    let forbidden = "Error: Cannot find Linkerd: configmaps \"linkerd-config\" is forbidden: User \"nobody\"";
    assert!(said.starts_with(forbidden), "{said}");
}
