//! A disk that is full: nothing is half-done, what worked goes on working, and all is put right once there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use outrigger::cni::agent::install::{Installer, Layout};
use serde_json::json;
use tempfile::TempDir;

use crate::agent::LIST;

/// The content of a program that is to be installed.
const PROGRAM: &str = "a newer program";

/// A folder on a disk of its own, of which little is left.
struct FullDisk(PathBuf);

impl FullDisk {
    /// Mounts it, keeps what is in the folder, and fills the rest.
    fn mount(folder: &Path) -> Self {
        let kept: Vec<_> = names(folder)
            .into_iter()
            .map(|name| (folder.join(&name), fs::read(folder.join(&name)).unwrap()))
            .collect();
        let mut mount = Command::new("mount");
        let status = mount
            .args(["-t", "tmpfs", "-o", "size=64k", "disk"])
            .arg(folder)
            .status();
        assert!(status.unwrap().success(), "mounting needs root");
        let disk = Self(folder.to_owned());
        for (path, content) in kept {
            fs::write(path, content).unwrap();
        }
        let full = fs::write(folder.join("filler"), vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        disk
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg(&self.0).status();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A node with an older version of everything.
fn node() -> (TempDir, Installer) {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["source", "bin", "net.d", "run"] {
        fs::create_dir(path(name)).unwrap();
    }
    for name in ["outrigger-cni", "outrigger-cni-api"] {
        fs::write(path("source").join(name), PROGRAM).unwrap();
        fs::write(path("bin").join(name), "older").unwrap();
    }
    fs::write(path("run/kubeconfig"), "older").unwrap();
    fs::write(path("net.d/10-net.conflist"), LIST).unwrap();
    let layout = Layout {
        source_dir: path("source"),
        bin_dir: path("bin"),
        net_dir: path("net.d"),
        kubeconfig: path("run/kubeconfig"),
        cache_dir: None,
    };
    let mut installer = Installer::new(layout, json!({"type": "outrigger-cni"}));
    installer.set_credentials("newer credentials".to_owned());
    (folder, installer)
}

#[test]
fn a_full_disk_is_said_and_nothing_is_half_done() {
    for full in ["bin", "run", "net.d"] {
        let (folder, mut installer) = node();
        let path = |name: &str| folder.path().join(name);
        let before = names(&path(full));
        let disk = FullDisk::mount(&path(full));
        let beside_filler = names(&path(full));
        assert_eq!(beside_filler.len(), before.len() + 1, "{beside_filler:?}");
        let content = |name: &str| fs::read_to_string(path(full).join(name)).unwrap();
        let contents: Vec<_> = before.iter().map(|name| content(name)).collect();
        for _ in 0..2 {
            let report = installer.reconcile(Instant::now());
            let said = report.errors.join("; ");
            assert!(
                !report.is_complete() && said.contains("No space left on device"),
                "{full}: {report:?}"
            );
            assert!(said.contains(path(full).to_str().unwrap()), "{full}: {said}");
            // What is there is whole and as it was, and nothing of a file to be is beside it.
            assert_eq!(names(&path(full)), beside_filler, "{full}");
            assert_eq!(
                before.iter().map(|name| content(name)).collect::<Vec<_>>(),
                contents,
                "{full}"
            );
            // No configuration names what is not there.
            assert_eq!(
                fs::read_to_string(path("net.d/10-net.conflist")).unwrap(),
                LIST,
                "{full}"
            );
        }
        disk.make_room();
        let report = installer.reconcile(Instant::now());
        assert!(report.is_complete(), "{full}: {report:?}");
        assert_eq!(fs::read_to_string(path("bin/outrigger-cni")).unwrap(), PROGRAM);
        assert!(
            fs::read_to_string(path("net.d/10-net.conflist"))
                .unwrap()
                .contains("outrigger-cni")
        );
    }
}
