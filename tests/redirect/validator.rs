//! `outrigger network-validator`, as an ordinary user without capabilities unless said otherwise.

use crate::netns::{Netns, OUTRIGGER, PROXY_UID, assert_done, stderr};
use crate::rules::{MODES, args};
use crate::traffic::{Pair, listen};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

const RULES: &str = "-p 4143 -o 4140 -u 2102";
const NOBODY: u32 = 65534;
/// What the webhook renders for both families, and for IPv4 alone.
const BOTH: [&str; 4] = ["--connect-addr", "[fd00::1]:20001", "--listen-addr", "[::]:4140"];
const V4: [&str; 4] = ["--connect-addr", "1.1.1.1:20001", "--listen-addr", "0.0.0.0:4140"];

/// Runs it; what is there is waited for as long as a busy machine needs, what is not there is not.
fn validate(namespace: &Netns, uid: u32, arguments: &[&str], patience: &str) -> (Option<i32>, String) {
    let mut command = Command::new(OUTRIGGER);
    command
        .args(["network-validator", "--log-level", "debug"])
        .args(arguments)
        .uid(uid)
        .gid(uid);
    if !arguments.contains(&"--timeout") {
        command.args(["--timeout", patience]);
    }
    let output: Output = namespace.run(&mut command);
    (output.status.code(), stderr(&output))
}

fn assert_ends(namespace: &Netns, uid: u32, arguments: &[&str], (status, named): (i32, &str)) {
    let patience = if status == 0 { "60s" } else { "300ms" };
    let (ended, said) = validate(namespace, uid, arguments, patience);
    assert_eq!(ended, Some(status), "{arguments:?}: {said}");
    assert!(said.contains(named), "{arguments:?}, expected {named:?}: {said}");
}

#[test]
fn rules_in_force_are_proved_for_every_family_asked() {
    for mode in MODES {
        let pair = Pair::new();
        assert_done(&pair.pod.proxy_init(args(mode, RULES)));
        assert_ends(&pair.pod, NOBODY, &V4, (0, "outgoing IPv4 connections are redirected"));
        assert_ends(
            &pair.pod,
            NOBODY,
            &BOTH,
            (0, "outgoing IPv4 connections are redirected"),
        );
        assert_ends(
            &pair.pod,
            NOBODY,
            &BOTH,
            (0, "outgoing IPv6 connections are redirected"),
        );
        assert_ends(&pair.pod, NOBODY, &[], (0, "IPv4"));
        assert_ends(&pair.pod, 0, &V4, (0, "incoming connections are redirected"));
    }
}

#[test]
fn rules_of_one_family_are_not_enough_for_both() {
    for mode in MODES {
        let pair = Pair::new();
        assert_done(
            &pair
                .pod
                .proxy_init(args(mode, RULES).into_iter().chain(["--ipv6=false"])),
        );
        assert_ends(&pair.pod, NOBODY, &V4, (0, "IPv4"));
        assert_ends(
            &pair.pod,
            NOBODY,
            &BOTH,
            (95, "outgoing IPv6 connections are not redirected"),
        );
    }
}

#[test]
fn without_rules_the_status_is_95_and_says_what_to_do() {
    let pair = Pair::new();
    for arguments in [V4, BOTH] {
        assert_ends(&pair.pod, NOBODY, &arguments, (95, "the CNI plugin set no rules"));
    }
    assert_ends(&pair.pod, NOBODY, &["--timeout", "0"], (95, ""));
}

#[test]
fn a_server_that_answers_in_our_place_is_not_taken_for_us() {
    let pair = Pair::new();
    pair.peer.ip(&["addr", "add", "1.1.1.1/32", "dev", "lo"]);
    listen(&pair.peer, "1.1.1.1:20001", |_| "0".repeat(64));
    assert_ends(&pair.pod, NOBODY, &V4, (95, "answered itself"));
}

#[test]
fn the_proxys_own_user_and_skipped_ports_are_not_redirected() {
    let pair = Pair::new();
    assert_done(
        &pair.pod.proxy_init(
            args("native", RULES)
                .into_iter()
                .chain(["--outbound-ports-to-ignore", "20002"]),
        ),
    );
    assert_ends(&pair.pod, PROXY_UID, &V4, (95, "UID 2102"));
    assert_ends(
        &pair.pod,
        NOBODY,
        &["--connect-addr", "1.1.1.1:20002"],
        (95, "port 20002"),
    );
}

#[test]
fn a_pod_without_default_route_is_proved_with_a_neighbour() {
    for mode in MODES {
        let pair = Pair::new();
        pair.pod.ip(&["route", "del", "default"]);
        pair.pod.ip(&["-6", "route", "del", "default"]);
        assert_ends(&pair.pod, NOBODY, &V4, (95, "10.77.0.254:20001"));
        assert_done(&pair.pod.proxy_init(args(mode, RULES)));
        assert_ends(
            &pair.pod,
            NOBODY,
            &BOTH,
            (0, "outgoing IPv6 connections are redirected"),
        );
        assert_ends(&pair.pod, NOBODY, &V4, (0, "outgoing IPv4 connections are redirected"));
    }
}

#[test]
fn what_cannot_be_tried_is_not_held_against_the_rules() {
    let alone = Netns::new();
    assert_ends(&alone, NOBODY, &V4, (1, "no IPv4 route leads out of this pod"));
    let pair = Pair::new();
    assert_done(&pair.pod.proxy_init(args("native", RULES)));
    let taken = pair
        .pod
        .inside(|| TcpListener::bind("0.0.0.0:4140"))
        .expect("the port is free");
    assert_ends(&pair.pod, NOBODY, &V4, (1, "the port is in use"));
    drop(taken);
    // A pod of one family is proved for that one.
    pair.pod.tool("sysctl", &["-qw", "net.ipv6.conf.all.disable_ipv6=1"]);
    assert_ends(
        &pair.pod,
        NOBODY,
        &BOTH,
        (0, "outgoing IPv6 connections were not tried"),
    );
}

#[test]
fn a_missing_inbound_part_is_seen_where_rules_may_be_read() {
    for (mode, cut) in [
        ("native", "nft flush chain inet outrigger prerouting"),
        ("nft", "iptables-nft -t nat -F PREROUTING"),
        ("legacy", "iptables-legacy -t nat -F PROXY_INIT_REDIRECT"),
    ] {
        let pair = Pair::new();
        assert_done(&pair.pod.proxy_init(args(mode, RULES)));
        pair.pod.tool("sh", &["-c", cut]);
        assert_ends(&pair.pod, 0, &V4, (95, "no rule redirects incoming connections"));
    }
}

#[test]
fn it_can_be_switched_off_and_refuses_wrong_arguments() {
    let alone = Netns::new();
    assert_ends(&alone, NOBODY, &["--off"], (0, "switched off"));
    for wrong in [&["--timeout", "10"][..], &["--listen-addr", "4140"], &["--frob"]] {
        assert_ends(&alone, NOBODY, wrong, (2, wrong[0]));
    }
}

#[test]
fn rules_that_come_late_are_waited_for() {
    let pair = Pair::new();
    let mut command = Command::new(OUTRIGGER);
    command
        .args(["network-validator", "--timeout", "60s"])
        .args(V4)
        .uid(NOBODY)
        .gid(NOBODY);
    std::thread::scope(|scope| {
        let validating = scope.spawn(|| pair.pod.run(&mut command));
        // It listens once it has begun to try.
        while !pair.pod.tool("ss", &["-Hltn"]).contains(":4140") {
            std::thread::yield_now();
        }
        assert_done(&pair.pod.proxy_init(args("native", RULES)));
        assert_done(&validating.join().expect("it ends"));
    });
}

#[test]
fn it_ends_at_once_when_it_is_told_to() {
    let pair = Pair::new();
    let mut command = Command::new(OUTRIGGER);
    command.args(["network-validator", "--timeout", "1h"]).args(V4);
    let mut child = pair
        .pod
        .inside(|| command.stderr(Stdio::null()).spawn())
        .expect("the program starts");
    while !pair.pod.tool("ss", &["-Hltn"]).contains(":4140") {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}
