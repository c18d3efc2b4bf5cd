//! What fails half-way leaves what was there.

use crate::netns::{Netns, OUTRIGGER, assert_done, stderr};
use crate::rules::{FIRST, SECOND, args, shown};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Every program of iptables by its right name, but for one, which does what `script` says.
fn path_with(program: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("there is room for a temporary folder");
    for base in ["iptables", "ip6tables"] {
        for back in ["nft", "legacy"] {
            for what in ["", "-save", "-restore"] {
                let name = format!("{base}-{back}{what}");
                symlink(Path::new("/usr/sbin").join(&name), directory.path().join(name))
                    .expect("a fresh folder takes links");
            }
        }
    }
    let replaced = directory.path().join(program);
    fs::remove_file(&replaced).expect("it was just made");
    fs::write(&replaced, format!("#!/bin/sh\n{script}\n")).expect("a fresh folder takes files");
    fs::set_permissions(&replaced, fs::Permissions::from_mode(0o755)).expect("and their modes");
    directory
}

fn run(namespace: &Netns, path: &TempDir, args: &[&str]) -> Output {
    namespace.run(
        Command::new(OUTRIGGER)
            .arg("proxy-init")
            .args(args)
            .env("PATH", path.path()),
    )
}

/// A namespace whose IPv6 is used: with an address that rules are needed for.
fn dual_stack() -> Netns {
    let namespace = Netns::new();
    namespace.ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]);
    namespace.ip(&["link", "set", "eth0", "up"]);
    namespace.ip(&["addr", "add", "fd77::2/64", "dev", "eth0", "nodad"]);
    namespace
}

#[test]
fn when_ipv6_fails_ipv4_is_put_back() {
    for mode in ["nft", "legacy"] {
        let path = path_with(&format!("ip6tables-{mode}-restore"), "echo 'no luck' >&2; exit 3");
        for before in [None, Some(SECOND)] {
            let namespace = dual_stack();
            if let Some(before) = before {
                assert_done(&namespace.proxy_init(args(mode, before)));
            }
            let old = shown(&namespace, mode);
            let output = run(&namespace, &path, &args(mode, FIRST));
            assert_eq!(output.status.code(), Some(1), "{mode}");
            assert!(stderr(&output).contains("no luck"), "{}", stderr(&output));
            assert_eq!(shown(&namespace, mode), old, "{mode}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_not_touched() {
    for script in ["exit 1", "echo '*nat'; echo ':PROXY_INIT_OUTPUT - [0:0]'"] {
        let path = path_with("ip6tables-nft-save", script);
        let namespace = dual_stack();
        let old = shown(&namespace, "nft");
        assert_eq!(
            run(&namespace, &path, &args("nft", FIRST)).status.code(),
            Some(1),
            "{script}"
        );
        assert_eq!(shown(&namespace, "nft"), old, "{script}");
    }
}

#[test]
fn a_kernel_that_shows_other_rules_than_were_written_is_not_believed() {
    // It takes the rules and keeps none of them but the first chain.
    let path = path_with(
        "iptables-nft-restore",
        "/usr/bin/sed '/ PREROUTING /d' | /usr/sbin/iptables-nft-restore \"$@\"",
    );
    let namespace = Netns::new();
    let old = shown(&namespace, "nft");
    let output = run(&namespace, &path, &args("nft", FIRST));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("shows others"), "{}", stderr(&output));
    assert_eq!(shown(&namespace, "nft"), old);
}

#[test]
fn without_ipv6_nat_and_without_ipv6_addresses_ipv4_is_enough() {
    for program in ["ip6tables-nft-save", "ip6tables-nft-restore"] {
        let path = path_with(program, "echo \"can't initialize ip6tables table nat\" >&2; exit 3");
        let lone = Netns::new();
        let output = run(&lone, &path, &args("nft", FIRST));
        assert_done(&output);
        assert!(stderr(&output).contains("no IPv6 rules"), "{}", stderr(&output));
        assert!(shown(&lone, "nft")[0].contains("4143"), "{program}");
        let dual = dual_stack();
        assert_eq!(
            run(&dual, &path, &args("nft", FIRST)).status.code(),
            Some(1),
            "{program}"
        );
        assert!(!shown(&dual, "nft").concat().contains("PROXY_INIT"), "{program}");
    }
}
