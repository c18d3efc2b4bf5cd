//! Images that no registry holds: a root file system, its configuration, and an archive that `ctr` imports.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::repository;
use crate::dockerfile;

/// The application, the client and the pause container.
pub(crate) const POD: &str = "localhost/pod:1";

/// The stand-in for the proxy, by name and tag.
pub(crate) const PROXY: (&str, &str) = ("localhost/proxy", "1");

/// Names that the product's image has, without tag: what the manifests call it, and what documents do once it is pushed.
const PRODUCT: [&str; 2] = ["docker.io/library/outrigger", "registry.example.com/outrigger"];

/// An image to be, in a folder of its own that has the root file system.
struct Image {
    folder: PathBuf,
    /// With their tags, in full.
    names: Vec<String>,
    configuration: Value,
}

/// Makes the archives of all images under `folder`, from the product's `programs` and the program `pod`.
pub(crate) fn archives(folder: &Path, programs: &Path, pod: &Path) -> Vec<PathBuf> {
    let (proxy, tag) = PROXY;
    let application = json!({"Entrypoint": ["/pod"], "Cmd": ["pause"]});
    let stand_in = json!({"Entrypoint": ["/pod", "proxy"]});
    vec![
        product(&folder.join("product"), programs),
        of_pods(folder.join("application"), pod, POD.to_owned(), application),
        of_pods(folder.join("proxy"), pod, format!("{proxy}:{tag}"), stand_in),
    ]
}

/// Makes the archive of the product's image in `folder`.
pub(crate) fn product(folder: &Path, programs: &Path) -> PathBuf {
    fs::create_dir(folder).expect("a folder can be made");
    let bill = folder.join("sbom.json");
    run(Command::new(repository().join("image/sbom")).arg(&bill));
    lay_out(folder, programs, &bill);
    archive(&Image {
        folder: folder.to_owned(),
        names: PRODUCT
            .map(|name| format!("{name}:{}", env!("CARGO_PKG_VERSION")))
            .into(),
        configuration: dockerfile::configuration(),
    })
}

/// Makes the root file system of the product's image in `folder`, and returns it.
pub(crate) fn lay_out(folder: &Path, programs: &Path, bill: &Path) -> PathBuf {
    let root = folder.join("root");
    run(Command::new(repository().join(dockerfile::LAYOUT)).args([programs, bill, &root]));
    root
}

fn of_pods(folder: PathBuf, pod: &Path, name: String, configuration: Value) -> PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(&root).expect("a folder can be made");
    fs::copy(pod, root.join("pod")).expect("a program can be copied");
    fs::set_permissions(root.join("pod"), Permissions::from_mode(0o755)).expect("modes can be set");
    archive(&Image {
        folder,
        names: vec![name],
        configuration,
    })
}

/// Makes an archive in the form of `docker save`, of one layer.
fn archive(image: &Image) -> PathBuf {
    let folder = &image.folder;
    let layer = folder.join("layer.tar");
    tar(&layer, &folder.join("root"), &["."]);
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
    let manifest = json!([{"Config": "config.json", "RepoTags": image.names, "Layers": ["layer.tar"]}]);
    for (name, document) in [("config.json", configuration), ("manifest.json", manifest)] {
        fs::write(folder.join(name), document.to_string()).expect("a file can be written");
    }
    let archive = folder.join("image.tar");
    tar(&archive, folder, &["manifest.json", "config.json", "layer.tar"]);
    archive
}

/// Packs `names` of a folder: with file capabilities, and without what differs from one time to the next but the times of
/// the files themselves.
fn tar(archive: &Path, folder: &Path, names: &[&str]) {
    let mut command = Command::new("tar");
    command
        .args([
            "--create",
            "--format=posix",
            "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
            "--sort=name",
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
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; needed: coreutils and tar"));
    let said = String::from_utf8_lossy(&output.stderr);
    let missing = "needed: apt-get install libcap2-bin, cargo install --locked cargo-cyclonedx@0.5.9";
    assert!(output.status.success(), "{command:?}: {said}; {missing}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
