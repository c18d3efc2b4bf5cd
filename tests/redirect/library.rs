//! What the CNI plugin and its agent call: apply, check, remove.

use crate::netns::Netns;
use crate::rules::{native, shown};
use outrigger::redirect::apply::{ApplyError, Mode, Options, Wait, apply, check, remove};
use outrigger::redirect::{PortList, Redirection, SubnetList};

const MODES: [Mode; 4] = [Mode::Native, Mode::Nft, Mode::Legacy, Mode::Auto];

fn redirection() -> Redirection {
    Redirection {
        inbound_port: 4143,
        outbound_port: 4140,
        proxy_uid: Some(2102),
        skip_inbound_ports: PortList::parse("4190,4191").expect("these are ports").list,
        ..Redirection::default()
    }
}

fn options(mode: Mode) -> Options {
    Options {
        mode,
        ipv6: true,
        wait: Wait::Usual,
    }
}

/// What holds the rules of a mode.
fn table(mode: Mode) -> &'static str {
    match mode {
        Mode::Native | Mode::Auto => "native",
        Mode::Nft | Mode::Plain => "nft",
        Mode::Legacy => "legacy",
    }
}

#[test]
fn a_check_sees_rules_that_are_gone_or_others() {
    for mode in MODES {
        let namespace = Netns::new();
        let checked = |rules: &Redirection| namespace.inside(|| check(rules, options(mode)));
        assert!(
            matches!(checked(&redirection()), Err(ApplyError::NotInForce { .. })),
            "{mode}"
        );
        let applied = namespace
            .inside(|| apply(&redirection(), options(mode)))
            .expect("it works here");
        assert!(applied.changed && applied.warnings.is_empty(), "{applied:?}");
        checked(&redirection()).expect("they were just written");
        let others = Redirection {
            proxy_uid: Some(1),
            ..redirection()
        };
        assert!(checked(&others).is_err(), "{mode}");
        let repaired = Redirection {
            new_connections_only: true,
            ..redirection()
        };
        checked(&repaired).expect("every new connection is redirected alike");
        namespace.tool(
            "sh",
            &[
                "-c",
                match table(mode) {
                    "native" => "nft flush chain inet outrigger output",
                    "nft" => "ip6tables-nft -t nat -F OUTPUT",
                    _ => "iptables-legacy -t nat -F PROXY_INIT_OUTPUT",
                },
            ],
        );
        assert!(checked(&redirection()).is_err(), "{mode}");
    }
}

#[test]
fn rules_that_are_removed_leave_nothing_and_removing_them_twice_is_no_error() {
    for mode in MODES {
        let namespace = Netns::new();
        namespace.tool(
            "sh",
            &[
                "-c",
                "iptables-nft -t nat -A OUTPUT -d 10.9.9.9/32 -j RETURN; iptables-legacy -t nat -N OTHER",
            ],
        );
        for program in ["ip6tables-nft-save", "ip6tables-legacy-save"] {
            namespace.tool(program, &["-t", "nat"]);
        }
        let before = shown(&namespace, table(mode));
        namespace
            .inside(|| apply(&redirection(), options(mode)))
            .expect("it works here");
        assert_ne!(shown(&namespace, table(mode)), before, "{mode}");
        for _ in 0..2 {
            namespace.inside(|| remove(options(mode))).expect("it works here");
            assert_eq!(shown(&namespace, table(mode)), before, "{mode}");
        }
    }
    let namespace = Netns::new();
    namespace
        .inside(|| remove(options(Mode::Native)))
        .expect("nothing is there to remove");
    assert_eq!(native(&namespace), "");
}

#[test]
fn nft_shows_the_rules_of_a_pod_with_one_family() {
    let namespace = Netns::new();
    let skipping = Redirection {
        skip_inbound_subnets: SubnetList::parse("10.1.0.0/16,fd00::/8").expect("these are subnets"),
        ..redirection()
    };
    let options = Options {
        ipv6: false,
        ..options(Mode::Native)
    };
    namespace.inside(|| apply(&skipping, options)).expect("it works here");
    let shown = native(&namespace);
    assert!(shown.contains("ip saddr @") && !shown.contains("ip6 saddr"), "{shown}");
    namespace
        .inside(|| check(&skipping, options))
        .expect("they were just written");
}
