//! What cannot work ends with exit status 1, one sentence that names the cause, and nothing half done.

use crate::netns::{Netns, OUTRIGGER, assert_done, output, stderr};
use crate::rules::{FIRST, MODES, args, shown};
use rustix::process::geteuid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

/// The cause that was given: the last line, which is all that a termination message shows.
fn cause(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let said = stderr(output);
    let last = said.trim_end().lines().last().unwrap_or_default();
    last.strip_prefix("Error: ")
        .unwrap_or_else(|| panic!("no cause is the last line: {said}"))
        .to_owned()
}

fn assert_untouched(namespace: &Netns) {
    for mode in MODES {
        let shown = shown(namespace, mode).concat();
        assert!(
            !shown.contains("PROXY_INIT") && !shown.contains("outrigger"),
            "{mode}: {shown}"
        );
    }
}

#[test]
fn values_that_are_wrong_are_named_before_anything_is_written() {
    let namespace = Netns::new();
    for (wrong, named) in [
        ("--inbound-ports-to-ignore abc", "\"abc\""),
        ("--inbound-ports-to-ignore 90-80", "\"90-80\""),
        ("--outbound-ports-to-ignore ,", "\",\""),
        ("--subnets-to-ignore 10.0.0.0", "\"10.0.0.0\""),
        ("--outbound-subnets-to-ignore 10.0.0.0/33", "\"10.0.0.0/33\""),
        ("-r 70000", "70000"),
        ("-p 65536", "65536"),
        ("-u 99999999999", "99999999999"),
        ("--iptables-mode ebpf", "\"ebpf\""),
        ("--log-level loud", "\"loud\""),
        ("--strict --inbound-ports-to-ignore 22,x", "\"x\""),
        ("--netns /var/run/netns/does-not-exist", "/var/run/netns/does-not-exist"),
        ("--netns /etc/passwd", "/etc/passwd"),
    ] {
        let all = args("native", "-p 4143 -o 4140 -u 2102")
            .into_iter()
            .chain(wrong.split(' '));
        let cause = cause(&namespace.proxy_init(all));
        assert!(cause.contains(named), "{wrong}: {cause}");
    }
    assert_untouched(&namespace);
}

#[test]
fn junk_among_ports_is_named_and_dropped() {
    for mode in MODES {
        let namespace = Netns::new();
        let output = namespace.proxy_init(args(
            mode,
            "-p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 22,80-70,70000,33",
        ));
        assert_done(&output);
        for junk in ["\"80-70\"", "\"70000\""] {
            assert!(stderr(&output).contains(junk), "{}", stderr(&output));
        }
        assert!(shown(&namespace, mode)[0].contains("22"), "{mode}");
    }
}

#[test]
fn ten_thousand_ports_and_overlapping_ranges_work() {
    let ports: Vec<String> = (0..10_000).map(|n| (n * 5 + 1).to_string()).collect();
    let ports = format!("{},6000-8000,7000-9000,0-3", ports.join(","));
    for mode in MODES {
        let namespace = Netns::new();
        let run = || {
            namespace.proxy_init(
                args(mode, FIRST)
                    .into_iter()
                    .chain(["--outbound-ports-to-ignore", &ports]),
            )
        };
        assert_done(&run());
        assert!(stderr(&run()).contains("changed=false"), "{mode}");
    }
}

#[test]
fn without_capability_the_cause_is_said() {
    for (mode, named) in [
        ("native", "NET_ADMIN"),
        ("nft", "Permission denied"),
        ("legacy", "Permission denied"),
        ("auto", "NET_ADMIN"),
    ] {
        let namespace = Netns::new();
        let mut command = Command::new(OUTRIGGER);
        command
            .arg("proxy-init")
            .args(args(mode, FIRST))
            .uid(NOBODY)
            .gid(NOBODY);
        let cause = cause(&namespace.run(&mut command));
        assert!(cause.contains(named), "{mode}: {cause}");
        assert_untouched(&namespace);
    }
}

#[test]
fn an_ordinary_user_with_the_capability_is_enough() {
    for mode in ["native", "nft", "auto"] {
        let namespace = Netns::new();
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--bounding-set=-all,+net_admin",
        ]);
        command.args([
            "--inh-caps=-all,+net_admin",
            "--ambient-caps=-all,+net_admin",
            OUTRIGGER,
            "proxy-init",
        ]);
        assert_done(&namespace.run(command.args(args(mode, FIRST))));
    }
}

#[test]
fn without_programs_native_works_and_the_others_say_what_is_missing() {
    let empty = tempfile::tempdir().expect("there is room for a temporary folder");
    for mode in ["native", "auto"] {
        let namespace = Netns::new();
        assert_done(
            &namespace.run(
                Command::new(OUTRIGGER)
                    .arg("proxy-init")
                    .args(args(mode, FIRST))
                    .env("PATH", empty.path()),
            ),
        );
        assert!(shown(&namespace, "native")[0].contains("4143"));
    }
    for mode in ["nft", "legacy", "plain"] {
        let namespace = Netns::new();
        let output = namespace.run(
            Command::new(OUTRIGGER)
                .arg("proxy-init")
                .args(args(mode, FIRST))
                .env("PATH", empty.path()),
        );
        let wanted = if mode == "plain" {
            "iptables is not in PATH".to_owned()
        } else {
            format!("iptables-{mode} is not in PATH")
        };
        assert!(cause(&output).starts_with(&wanted), "{}", stderr(&output));
        assert_untouched(&namespace);
    }
}

#[test]
fn another_back_end_is_used_with_a_warning_that_names_the_missing_one() {
    let namespace = Netns::new();
    let path = tempfile::tempdir().expect("there is room for a temporary folder");
    for program in [
        "iptables-nft",
        "iptables-nft-save",
        "ip6tables-nft",
        "ip6tables-nft-save",
    ] {
        let target = std::path::Path::new("/usr/sbin").join(program);
        std::os::unix::fs::symlink(target, path.path().join(program)).expect("a fresh folder takes links");
    }
    let mut command = Command::new(OUTRIGGER);
    command
        .arg("proxy-init")
        .args(args("legacy", FIRST))
        .env("PATH", path.path());
    let output = namespace.run(&mut command);
    assert_done(&output);
    for missing in ["iptables-legacy", "ip6tables-legacy"] {
        assert!(
            stderr(&output).contains(&format!("{missing} is not in PATH")),
            "{}",
            stderr(&output)
        );
    }
    assert!(shown(&namespace, "nft")[0].contains("4143"));
}

#[test]
fn a_read_only_run_stops_legacy_with_the_cause() {
    let namespace = Netns::new();
    let script = "mount --make-rprivate / && mount -t tmpfs -o ro none /run && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh", OUTRIGGER, "proxy-init"])
        .args(args("legacy", FIRST));
    let cause = cause(&namespace.run(&mut command));
    assert!(cause.contains("xtables.lock") && cause.contains("Read-only"), "{cause}");
    assert_untouched(&namespace);
}

/// Forbids a system call of this thread and its children, where all of `conditions` hold, as a seccomp profile does.
fn forbid(call: i64, conditions: &[(u8, u64)]) {
    let equal = |&(index, value)| SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let conditions = conditions
        .iter()
        .map(equal)
        .collect::<Result<_, _>>()
        .expect("conditions are sound");
    let rule = SeccompRule::new(conditions).expect("a rule has conditions");
    let arch = std::env::consts::ARCH.try_into().expect("seccomp knows this machine");
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, vec![rule])]),
        SeccompAction::Allow,
        SeccompAction::Errno(1),
        arch,
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("the filter is sound");
    apply_filter(&program).expect("a thread may restrict itself");
}

/// `socket(AF_NETLINK, …, NETLINK_NETFILTER)`, which native and `iptables-nft` need.
fn forbid_nftables() {
    forbid(libc_call("socket"), &[(0, 16), (2, 12)]);
}

/// `setsockopt(…, SOL_IP, IPT_SO_SET_REPLACE)`, by which `iptables-legacy` writes.
fn forbid_legacy() {
    forbid(libc_call("setsockopt"), &[(1, 0), (2, 64)]);
}

fn libc_call(name: &str) -> i64 {
    match (std::env::consts::ARCH, name) {
        ("x86_64", "socket") => 41,
        ("x86_64", "setsockopt") => 54,
        ("aarch64", "socket") => 198,
        ("aarch64", "setsockopt") => 208,
        other => panic!("no number is known for {other:?}"),
    }
}

#[test]
fn what_the_kernel_forbids_is_said_and_auto_goes_on_to_the_next() {
    assert!(geteuid().is_root(), "these tests need root");
    let run = |mode: &str, forbidden: &[fn()]| {
        let namespace = Netns::new();
        let output = namespace.inside(|| {
            for forbid in forbidden {
                forbid();
            }
            output(Command::new(OUTRIGGER).arg("proxy-init").args(args(mode, FIRST)))
        });
        (namespace, output)
    };
    for (mode, named) in [("native", "seccomp"), ("nft", "iptables-nft")] {
        let (namespace, output) = run(mode, &[forbid_nftables]);
        assert!(cause(&output).contains(named), "{}", stderr(&output));
        assert_untouched(&namespace);
    }
    let (namespace, output) = run("auto", &[forbid_nftables]);
    assert_done(&output);
    assert!(
        stderr(&output).contains("native nftables: cannot open a netlink socket"),
        "{}",
        stderr(&output)
    );
    assert!(shown(&namespace, "legacy")[0].contains("4143"));
    for mode in ["legacy", "auto"] {
        let (namespace, output) = run(mode, &[forbid_nftables, forbid_legacy]);
        let cause = cause(&output);
        assert!(
            cause.contains("iptables-legacy") && cause.contains("the kernel took no part of it"),
            "{mode}: {cause}"
        );
        assert_untouched(&namespace);
    }
}

#[test]
fn close_wait_is_set_in_the_namespace_given_and_fails_before_the_rules() {
    let read =
        |namespace: &Netns| namespace.tool("sysctl", &["-n", "net.netfilter.nf_conntrack_tcp_timeout_close_wait"]);
    let (inside, outside) = (Netns::new(), Netns::new());
    let path = inside.path();
    let mut command = Command::new(OUTRIGGER);
    command
        .arg("proxy-init")
        .args(args("native", FIRST))
        .args(["--timeout-close-wait-secs", "77", "--netns"])
        .arg(path);
    assert_done(&outside.run(&mut command));
    assert_eq!((read(&inside).trim(), read(&outside).trim()), ("77", "60"));
    let script = "mount --make-rprivate / && mount -o bind,ro /proc/sys /proc/sys && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh", OUTRIGGER, "proxy-init"])
        .args(args("native", FIRST));
    let cause = cause(&outside.run(command.args(["--timeout-close-wait-secs", "77"])));
    assert!(
        cause.contains("--timeout-close-wait-secs 77") && cause.contains("Read-only"),
        "{cause}"
    );
    assert_untouched(&outside);
}

#[test]
fn ipv6_that_is_switched_off_still_gets_its_rules() {
    for mode in MODES {
        let namespace = Netns::new();
        namespace.tool("sysctl", &["-qw", "net.ipv6.conf.all.disable_ipv6=1"]);
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        let shown = shown(&namespace, mode);
        assert!(
            shown.last().is_some_and(|table| table.contains("4143")),
            "{mode}: {shown:#?}"
        );
    }
}
