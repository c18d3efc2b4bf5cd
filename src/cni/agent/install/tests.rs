#![expect(clippy::disallowed_methods, reason = "the tests are about files")]

use super::*;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tempfile::TempDir;

const LIST: &str =
    "{\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"net\",\n  \"plugins\": [\n    {\"type\": \"bridge\"}\n  ]\n}\n";
const SINGLE: &str = r#"{"cniVersion": "1.0.0", "name": "net", "type": "kube-router"}"#;

/// A node in a temporary folder.
struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(TempDir::new().unwrap());
        for folder in ["image", "bin", "net.d", "cache/results"] {
            fs::create_dir_all(node.path(folder)).unwrap();
        }
        for name in PROGRAMS {
            fs::write(node.path("image").join(name), "program 1").unwrap();
        }
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn installer(&self) -> Installer {
        let layout = Layout {
            source_dir: self.path("image"),
            bin_dir: self.path("bin"),
            net_dir: self.path("net.d"),
            kubeconfig: self.path("run/kubeconfig"),
            cache_dir: Some(self.path("cache")),
        };
        let mut installer = Installer::new(layout, json!({"type": PLUGIN, "log_level": "info"}));
        installer.set_credentials("secret".to_owned());
        installer
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("net.d").join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("net.d").join(name)).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names = file::list(&self.path(folder)).unwrap();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn has_entry(text: &str) -> bool {
    List::read(text).is_ok_and(|list| list.entry().is_some())
}

#[test]
fn everything_is_installed_once_and_removed_without_a_trace() {
    let node = Node::new();
    node.write("10-net.conflist", LIST);
    fs::set_permissions(node.path("net.d/10-net.conflist"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut installer = node.installer();
    let report = installer.reconcile(Instant::now());
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.used.as_deref(), Some("10-net.conflist"));
    assert_eq!(report.changed.len(), 4);
    assert_eq!(mode(&node.path("bin/outrigger-cni")), 0o755);
    assert_eq!(mode(&node.path("run/kubeconfig")), 0o600);
    assert_eq!(mode(&node.path("run")), 0o700);
    assert_eq!(mode(&node.path("net.d/10-net.conflist")), 0o640);
    let installed = installer.installed().unwrap();
    assert_eq!(
        installed,
        json!({"type": PLUGIN, "log_level": "info", "name": "net", "cniVersion": "1.0.0"})
    );
    let again = installer.reconcile(Instant::now());
    assert!(again.is_complete() && again.changed.is_empty(), "{again:?}");

    let removed = installer.remove().unwrap();
    let order: Vec<_> = [
        "net.d/10-net.conflist",
        "run/kubeconfig",
        "bin/outrigger-cni",
        "bin/outrigger-cni-api",
    ]
    .map(|name| node.path(name))
    .into();
    assert_eq!(removed.changed, order);
    assert_eq!(node.read("10-net.conflist"), LIST);
    assert_eq!(mode(&node.path("net.d/10-net.conflist")), 0o640);
    assert_eq!(
        (
            node.names("bin").len(),
            node.names("net.d").len(),
            node.names("run").len()
        ),
        (0, 1, 0)
    );
    assert!(installer.remove().unwrap().changed.is_empty());
}

#[test]
fn the_program_stays_for_pods_that_were_set_up_with_it() {
    let node = Node::new();
    node.write("10-net.conf", SINGLE);
    let mut installer = node.installer();
    assert!(installer.reconcile(Instant::now()).is_complete());
    let config = STANDARD.encode(node.read("10-net-outrigger.conflist"));
    fs::write(
        node.path("cache/results/net-c0ffee-eth0"),
        json!({"config": config}).to_string(),
    )
    .unwrap();
    let removed = installer.remove().unwrap();
    assert!(removed.kept);
    assert_eq!(node.names("net.d"), ["10-net.conf"]);
    assert_eq!(node.names("bin"), ["outrigger-cni", "outrigger-cni-api"]);
    fs::write(node.path("cache/results/net-c0ffee-eth0"), "{}").unwrap();
    assert!(!installer.remove().unwrap().kept);
    assert!(node.names("bin").is_empty());
}

#[test]
fn what_is_deleted_or_changed_is_put_back() {
    let node = Node::new();
    node.write("10-net.conflist", LIST);
    let mut installer = node.installer();
    assert!(installer.reconcile(Instant::now()).is_complete());
    let damages: [&dyn Fn(); 8] = [
        &|| fs::remove_file(node.path("bin/outrigger-cni")).unwrap(),
        &|| fs::write(node.path("bin/outrigger-cni"), "other").unwrap(),
        &|| fs::set_permissions(node.path("bin/outrigger-cni"), fs::Permissions::from_mode(0o644)).unwrap(),
        &|| fs::remove_dir_all(node.path("run")).unwrap(),
        &|| fs::set_permissions(node.path("run/kubeconfig"), fs::Permissions::from_mode(0o644)).unwrap(),
        &|| node.write("10-net.conflist", LIST),
        &|| fs::remove_file(node.path("bin/outrigger-cni-api")).unwrap(),
        &|| fs::write(node.path("image/outrigger-cni"), "program 2").unwrap(),
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        let report = installer.reconcile(Instant::now());
        assert!(
            report.is_complete() && report.changed.len() == 1,
            "{number}: {report:?}"
        );
        assert!(installer.reconcile(Instant::now()).changed.is_empty(), "{number}");
    }
    assert_eq!(fs::read_to_string(node.path("bin/outrigger-cni")).unwrap(), "program 2");
}

#[test]
fn nothing_is_configured_before_it_would_work() {
    let node = Node::new();
    node.write("10-net.conflist", LIST);
    let mut installer = node.installer();
    installer.credentials = None;
    let report = installer.reconcile(Instant::now());
    assert!(report.errors[0].starts_with("no credentials yet"), "{report:?}");
    assert_eq!(node.read("10-net.conflist"), LIST);
    let mut installer = node.installer();
    fs::remove_file(node.path("image/outrigger-cni-api")).unwrap();
    let report = installer.reconcile(Instant::now());
    assert!(
        report.errors[0].starts_with("cannot read") && report.errors[0].contains("outrigger-cni-api"),
        "{report:?}"
    );
    assert_eq!(node.read("10-net.conflist"), LIST);
}

#[test]
fn files_of_others_that_are_broken_stay_and_end_nothing() {
    let node = Node::new();
    let mut installer = node.installer();
    let report = installer.reconcile(Instant::now());
    assert!(
        !report.is_complete() && report.errors[0].contains("has no network configuration"),
        "{report:?}"
    );
    node.write("05-half.conflist", "{\"name\": \"x\", \"plu");
    node.write("06-binary.conf", "\u{0}\u{1}");
    symlink("/nowhere", node.path("net.d/07-dangling.conf")).unwrap();
    fs::create_dir(node.path("net.d/08-folder.conf")).unwrap();
    node.write("10-net.conflist", LIST);
    let report = installer.reconcile(Instant::now());
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.obstacle(Reading::GoesOn), None);
    let stopped = report.obstacle(Reading::of("containerd://2.1.4")).unwrap();
    assert!(
        stopped.contains("while 05-half.conflist is the first: it cannot be decoded"),
        "{stopped}"
    );
    let files: Vec<_> = report.problems.iter().map(|problem| problem.file.as_str()).collect();
    assert_eq!(files, ["05-half.conflist", "06-binary.conf", "07-dangling.conf"]);
    assert_eq!(node.read("05-half.conflist"), "{\"name\": \"x\", \"plu");
}

#[test]
fn a_link_is_followed() {
    let node = Node::new();
    fs::write(node.path("elsewhere"), LIST).unwrap();
    symlink("../elsewhere", node.path("net.d/10-net.conflist")).unwrap();
    let mut installer = node.installer();
    assert!(installer.reconcile(Instant::now()).is_complete());
    assert!(has_entry(&fs::read_to_string(node.path("elsewhere")).unwrap()));
    assert!(
        fs::symlink_metadata(node.path("net.d/10-net.conflist"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn folders_that_cannot_be_written_are_named() {
    let node = Node::new();
    node.write("10-net.conflist", LIST);
    let mut installer = node.installer();
    // No file can be made in it, not even by root.
    installer.layout.bin_dir = "/proc/self".into();
    let report = installer.reconcile(Instant::now());
    assert!(
        report.errors[0].starts_with("cannot write /proc/self/outrigger-cni-api: "),
        "{report:?}"
    );
    assert_eq!(node.read("10-net.conflist"), LIST);
    let mut installer = node.installer();
    installer.layout.net_dir = node.path("missing");
    let report = installer.reconcile(Instant::now());
    assert!(
        report.errors[0].starts_with("cannot list") && report.errors[0].contains("missing"),
        "{report:?}"
    );
}

#[test]
fn what_a_killed_process_left_unfinished_goes() {
    let node = Node::new();
    node.write(".outrigger-10-net.conflist-7.tmp", "{");
    node.installer();
    assert!(node.names("net.d").is_empty());
}

#[test]
fn somebody_who_keeps_changing_it_back_is_met_ever_less_often() {
    let node = Node::new();
    let mut installer = node.installer();
    let begun = Instant::now();
    let mut writes = 0;
    for second in 0..600 {
        node.write("10-net.conflist", LIST);
        let report = installer.reconcile(begun + Duration::from_secs(second));
        if report.is_complete() {
            writes += 1;
        } else {
            assert!(report.errors[0].contains("keeps changing"), "{report:?}");
        }
    }
    assert!((8..20).contains(&writes), "{writes}");
    // Left alone for a while, it is written at once again.
    let later = begun + Duration::from_secs(900);
    assert!(installer.reconcile(later).is_complete());
}

/// Writes versions of a list, each with a number, whole or in pieces, and never reads.
fn write_in_a_hurry(node: &Node, stop: &AtomicBool) -> String {
    let path = node.path("net.d/10-net.conflist");
    let mut last = String::new();
    for number in 0_u32.. {
        last = LIST.replace("\"net\"", &format!("\"net-{number}\""));
        if number % 3 == 0 {
            fs::write(&path, &last).unwrap();
        } else {
            let beside = node.path(&format!("net.d/.writing-{number}"));
            fs::write(&beside, &last).unwrap();
            fs::rename(&beside, &path).unwrap();
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        thread::yield_now();
    }
    last
}

#[test]
fn the_work_of_a_hurried_writer_is_never_lost() {
    for _ in 0..5 {
        let node = Node::new();
        let mut installer = node.installer();
        let stop = AtomicBool::new(false);
        let last = thread::scope(|scope| {
            let writer = scope.spawn(|| write_in_a_hurry(&node, &stop));
            for round in 0_u64..200 {
                // Far apart, so that it is not the pauses that are tested.
                installer.reconcile(Instant::now() + Duration::from_secs(1000 * round));
            }
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        let report = installer.reconcile(Instant::now() + Duration::from_secs(1_000_000));
        assert!(report.is_complete(), "{report:?}");
        let text = node.read("10-net.conflist");
        assert_eq!(List::read(&text).unwrap().without(), last);
        assert_eq!(node.names("net.d"), ["10-net.conflist"]);
        assert_eq!(installer.remove().unwrap().errors, Vec::<String>::new());
        assert_eq!(node.read("10-net.conflist"), last);
    }
}
