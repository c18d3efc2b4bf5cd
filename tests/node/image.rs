//! Images that no registry holds: a root file system, its configuration, and an archive that `ctr` imports.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};
use serde_json::{Value, json};

/// The application, the client and the pause container.
pub(crate) const POD: &str = "localhost/pod:1";

/// The stand-in for the proxy, by name and tag.
pub(crate) const PROXY: (&str, &str) = ("localhost/proxy", "1");

/// The file capabilities of `linkerd2-proxy-init`, `cap_net_admin,cap_net_raw+eip`: `struct vfs_cap_data` of
/// linux/capability.h, revision 2 with the effective bit, then permitted and inheritable, low words first.
const NET_CAPABILITIES: [u32; 5] = [0x0200_0001, 0x3000, 0x3000, 0, 0];

/// An image to be.
struct Image<'a> {
    /// With its tag, in full.
    name: String,
    /// What is in it: where it comes from, and where it goes.
    files: Vec<(PathBuf, &'a str)>,
    configuration: Value,
}

/// Makes the archives of all images under `folder`, from the product's `programs` and the program `pod`.
pub(crate) fn archives(folder: &Path, programs: &Path, pod: &Path) -> Vec<PathBuf> {
    let (proxy, tag) = PROXY;
    let images = [
        product(programs),
        Image {
            name: POD.to_owned(),
            files: vec![(pod.to_owned(), "pod")],
            configuration: json!({"Entrypoint": ["/pod"], "Cmd": ["pause"]}),
        },
        Image {
            name: format!("{proxy}:{tag}"),
            files: vec![(pod.to_owned(), "pod")],
            configuration: json!({"Entrypoint": ["/pod", "proxy"]}),
        },
    ];
    let numbered = images.iter().enumerate();
    numbered
        .map(|(number, image)| archive(&folder.join(format!("image-{number}")), image))
        .collect()
}

/// The product's image, as the Dockerfile lays it out.
fn product(programs: &Path) -> Image<'static> {
    let outrigger = programs.join("outrigger");
    Image {
        name: format!("docker.io/library/outrigger:{}", env!("CARGO_PKG_VERSION")),
        files: vec![
            (outrigger.clone(), "outrigger"),
            (programs.join("outrigger-cni"), "outrigger-cni"),
            (programs.join("outrigger-cni-api"), "outrigger-cni-api"),
            (outrigger.clone(), PROXY_INIT),
            (outrigger, "usr/lib/linkerd/linkerd2-network-validator"),
        ],
        configuration: json!({"Entrypoint": ["/outrigger"], "User": "2103"}),
    }
}

/// The program of `linkerd-init`.
const PROXY_INIT: &str = "usr/lib/linkerd/linkerd2-proxy-init";

/// Makes an archive in the form of `docker save`, of one layer.
fn archive(folder: &Path, image: &Image<'_>) -> PathBuf {
    let root = folder.join("root");
    for (source, target) in &image.files {
        let target = root.join(target);
        fs::create_dir_all(target.parent().expect("a file has a folder")).expect("a folder can be made");
        fs::copy(source, &target).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        fs::set_permissions(&target, Permissions::from_mode(0o755)).expect("modes can be set");
        if target.ends_with(PROXY_INIT) {
            let value: Vec<u8> = NET_CAPABILITIES.into_iter().flat_map(u32::to_le_bytes).collect();
            setxattr(&target, "security.capability", &value, XattrFlags::empty()).expect("root sets capabilities");
        }
    }
    let layer = folder.join("layer.tar");
    tar(&layer, &root, &["."]);
    let digest = run(Command::new("sha256sum").arg(&layer));
    let digest = digest.split(' ').next().expect("the digest comes first");
    let configuration = json!({
        "os": "linux",
        "architecture": match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        },
        "config": image.configuration,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [image.name], "Layers": ["layer.tar"]}]);
    for (name, document) in [("config.json", configuration), ("manifest.json", manifest)] {
        fs::write(folder.join(name), document.to_string()).expect("a file can be written");
    }
    let archive = folder.join("image.tar");
    tar(&archive, folder, &["manifest.json", "config.json", "layer.tar"]);
    archive
}

fn tar(archive: &Path, folder: &Path, names: &[&str]) {
    let mut command = Command::new("tar");
    command
        .args([
            "--create",
            "--format=posix",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .args(["--xattrs", "--xattrs-include=security.capability", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(folder)
        .args(names);
    run(&mut command);
}

/// Runs a program, which must succeed, and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("coreutils and tar are there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
