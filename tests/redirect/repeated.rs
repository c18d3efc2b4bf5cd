//! Runs after runs, runs beside runs, and other people's rules.

use crate::netns::{Netns, OUTRIGGER, assert_done, stderr};
use crate::rules::{FIRST, MODES, SECOND, args, native, shown};
use std::process::{Command, Stdio};

#[test]
fn a_second_run_changes_nothing() {
    for mode in MODES {
        let namespace = Netns::new();
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        // Handles of nftables objects are new for every object that is made.
        let before = (
            shown(&namespace, mode),
            namespace.tool("nft", &["-a", "list", "ruleset"]),
        );
        let second = namespace.proxy_init(args(mode, FIRST));
        assert_done(&second);
        assert!(stderr(&second).contains("changed=false"), "{mode}: {}", stderr(&second));
        assert_eq!(
            (
                shown(&namespace, mode),
                namespace.tool("nft", &["-a", "list", "ruleset"])
            ),
            before,
            "{mode}"
        );
    }
}

#[test]
fn other_flags_replace_the_rules() {
    for mode in MODES {
        let (fresh, used) = (Netns::new(), Netns::new());
        assert_done(&fresh.proxy_init(args(mode, SECOND)));
        for rules in [FIRST, SECOND] {
            assert_done(&used.proxy_init(args(mode, rules)));
        }
        assert_eq!(shown(&used, mode), shown(&fresh, mode), "{mode}");
    }
}

#[test]
fn a_native_table_leaves_the_other_family_when_it_is_no_longer_wanted() {
    let namespace = Netns::new();
    assert_done(&namespace.proxy_init(args("native", FIRST)));
    assert!(native(&namespace).contains("table inet outrigger"));
    assert_done(&namespace.proxy_init(args("native", FIRST).into_iter().chain(["--ipv6=false"])));
    assert!(
        native(&namespace).starts_with("table ip outrigger"),
        "{}",
        native(&namespace)
    );
}

#[test]
fn a_table_that_somebody_changed_is_put_right() {
    for (mode, change) in [
        ("native", "nft insert rule inet outrigger output accept"),
        ("native", "nft delete chain inet outrigger prerouting"),
        ("native", "nft add chain inet outrigger other"),
        ("native", "nft delete element inet outrigger prerouting_0 { 4190-4191 }"),
        ("nft", "iptables-nft -t nat -I PROXY_INIT_OUTPUT -j ACCEPT"),
        ("nft", "ip6tables-nft -t nat -F OUTPUT"),
        ("legacy", "iptables-legacy -t nat -F PROXY_INIT_REDIRECT"),
        (
            "legacy",
            "iptables-legacy-save -t nat | sed -n '/-A OUTPUT/s/^/iptables-legacy -t nat /p' | sh",
        ),
    ] {
        let namespace = Netns::new();
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        let right = shown(&namespace, mode);
        namespace.tool("sh", &["-c", change]);
        assert_ne!(shown(&namespace, mode), right, "{change}");
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        assert_eq!(shown(&namespace, mode), right, "{change}");
    }
}

#[test]
fn foreign_rules_before_and_after_are_kept() {
    let foreign = "nft 'add table inet other; add chain inet other c { type nat hook output priority -100; };
        add rule inet other c udp dport 53 redirect to :5353; add set inet other s { type inet_service; }';
        iptables-nft -t nat -A PREROUTING -p udp --dport 53 -j REDIRECT --to-ports 5353;
        iptables-nft -t nat -N OTHER; iptables-nft -t filter -A INPUT -p tcp --dport 1 -j DROP;
        iptables-legacy -t nat -A OUTPUT -d 10.9.9.9/32 -j RETURN; ip6tables-legacy -t filter -A INPUT -p tcp -j ACCEPT";
    let ours = |line: &&str| {
        !["PROXY_INIT", "proxy-init/", "outrigger"]
            .iter()
            .any(|word| line.contains(word))
    };
    for mode in MODES {
        let namespace = Netns::new();
        let all = |namespace: &Netns| {
            let saves = [
                "iptables-nft-save",
                "ip6tables-nft-save",
                "iptables-legacy-save",
                "ip6tables-legacy-save",
            ];
            let mut texts: Vec<String> = saves.iter().map(|save| namespace.tool(save, &[])).collect();
            texts.push(namespace.tool("nft", &["list", "table", "inet", "other"]));
            let texts = texts.join("\n");
            let lines = texts
                .lines()
                .filter(ours)
                .filter(|line| line.starts_with("-A") || line.starts_with('\t'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        namespace.tool("sh", &["-ec", foreign]);
        let before = all(&namespace);
        assert!(before.len() >= 7, "{before:#?}");
        for rules in [FIRST, SECOND, SECOND] {
            assert_done(&namespace.proxy_init(args(mode, rules)));
            assert_eq!(all(&namespace), before, "{mode}");
        }
        namespace.tool("sh", &["-ec", "nft add rule inet other c tcp dport 1 return; iptables-legacy -t nat -A OUTPUT -d 10.9.9.8/32 -j RETURN"]);
        let before = all(&namespace);
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        assert_eq!(all(&namespace), before, "{mode}");
    }
}

#[test]
fn runs_at_once_leave_one_whole_set_of_rules() {
    for mode in MODES {
        let expected = [FIRST, SECOND].map(|rules| {
            let namespace = Netns::new();
            assert_done(&namespace.proxy_init(args(mode, rules)));
            shown(&namespace, mode)
        });
        for _ in 0..5 {
            let namespace = Netns::new();
            let children = namespace.inside(|| {
                let start = |rules| {
                    let mut command = Command::new(OUTRIGGER);
                    command.arg("proxy-init").args(args(mode, rules)).stderr(Stdio::piped());
                    command.spawn().expect("the program starts")
                };
                [FIRST, SECOND, FIRST, SECOND].map(start)
            });
            for child in children {
                assert_done(&child.wait_with_output().expect("it ends"));
            }
            assert!(
                expected.contains(&shown(&namespace, mode)),
                "{mode}: {:#?}",
                shown(&namespace, mode)
            );
        }
    }
}

#[test]
fn sixteen_pods_at_once_all_get_their_rules() {
    for mode in MODES {
        let namespaces: Vec<Netns> = (0..16).map(|_| Netns::new()).collect();
        std::thread::scope(|scope| {
            for namespace in &namespaces {
                scope.spawn(|| assert_done(&namespace.proxy_init(args(mode, FIRST))));
            }
        });
        let first = shown(&namespaces[0], mode);
        assert!(
            namespaces.iter().all(|namespace| shown(namespace, mode) == first),
            "{mode}"
        );
    }
}

#[test]
fn a_namespace_is_entered_from_outside() {
    let (inside, outside) = (Netns::new(), Netns::new());
    for mode in MODES {
        let path = inside.path();
        let output = outside.run(
            Command::new(OUTRIGGER)
                .arg("proxy-init")
                .args(args(mode, FIRST))
                .arg("--netns")
                .arg(&path),
        );
        assert_done(&output);
        assert!(shown(&inside, mode).concat().contains("4143"), "{mode}");
        assert!(!shown(&outside, mode).concat().contains("4143"), "{mode}");
    }
}
