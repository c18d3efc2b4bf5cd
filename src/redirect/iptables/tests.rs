use super::*;
use crate::redirect::rules::tests::{redirections, usual};
use crate::redirect::{Family, Fence, PortList, Redirection, SubnetList, name_servers};
use proptest::prelude::*;

fn restored(redirection: &Redirection, before: &str) -> String {
    let now = SavedTables::parse(before).unwrap();
    restore(now.lines(), &wanted(&redirection.iptables_rules(Family::V4), &now))
}

#[test]
fn a_first_run_makes_chains_rules_and_jumps() {
    let wanted = Redirection {
        proxy_gid: Some(2103),
        skip_inbound_ports: PortList::parse("4190,4191,6000-8000").unwrap().list,
        skip_outbound_ports: PortList::parse("25").unwrap().list,
        skip_inbound_subnets: SubnetList::parse("1.1.1.1/24,0.0.0.0/0,fd00::/8").unwrap(),
        skip_outbound_subnets: SubnetList::parse("10.9.0.0/16").unwrap(),
        ..usual()
    };
    assert_eq!(
        restored(&wanted, ""),
        r#"*nat
:PROXY_INIT_REDIRECT - [0:0]
:PROXY_INIT_OUTPUT - [0:0]
-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,4191,6000:8000 -m comment --comment "proxy-init/ignore-port-4190,4191,6000:8000" -j RETURN
-A PROXY_INIT_REDIRECT -s 1.1.1.0/24 -m comment --comment "proxy-init/ignore-subnet-1.1.1.1/24" -j RETURN
-A PROXY_INIT_REDIRECT -m comment --comment "proxy-init/ignore-subnet-0.0.0.0/0" -j RETURN
-A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
-A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
-A PROXY_INIT_OUTPUT -m owner --gid-owner 2103 -m comment --comment "proxy-init/ignore-proxy-group-id" -j RETURN
-A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
-A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 25 -m comment --comment "proxy-init/ignore-port-25" -j RETURN
-A PROXY_INIT_OUTPUT -d 10.9.0.0/16 -m comment --comment "proxy-init/ignore-subnet-10.9.0.0/16" -j RETURN
-A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
-A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
COMMIT
"#
    );
}

#[test]
fn a_fence_is_a_chain_of_the_filter_table() {
    let fenced = Redirection {
        skip_outbound_ports: PortList::parse("25").unwrap().list,
        fence: Some(Fence {
            name_servers: name_servers("10.96.0.10,fd00::a").unwrap(),
        }),
        ..usual()
    };
    let unfenced = Redirection {
        fence: None,
        ..fenced.clone()
    };
    let text = restored(&fenced, "");
    let filter = text.strip_prefix(&restored(&unfenced, "")).unwrap();
    assert_eq!(
        filter,
        r#"*filter
:PROXY_INIT_FENCE - [0:0]
-A PROXY_INIT_FENCE -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment "proxy-init/fence-known-connections" -j RETURN
-A PROXY_INIT_FENCE -m owner --uid-owner 2102 -m comment --comment "proxy-init/fence-proxy-user-id" -j RETURN
-A PROXY_INIT_FENCE -p tcp -m multiport --dports 4140 -m conntrack --ctstate DNAT -m comment --comment "proxy-init/fence-redirected-to-proxy" -j RETURN
-A PROXY_INIT_FENCE -o lo -p tcp -m multiport --dports 4140,4143 -m comment --comment "proxy-init/fence-proxy-ports" -j REJECT
-A PROXY_INIT_FENCE -o lo -m comment --comment "proxy-init/fence-loopback" -j RETURN
-A PROXY_INIT_FENCE -p tcp -m multiport --dports 25 -m comment --comment "proxy-init/ignore-port-25" -j RETURN
-A PROXY_INIT_FENCE -d 10.96.0.10/32 -p udp -m udp --dport 53 -m comment --comment "proxy-init/fence-name-servers" -j RETURN
-A PROXY_INIT_FENCE -m comment --comment "proxy-init/fence-closed" -j REJECT
-I OUTPUT -m comment --comment "proxy-init/install-egress-fence" -j PROXY_INIT_FENCE
COMMIT
"#
    );
    let shown = text.replace("\n-I ", "\n-A ");
    let taken_down = restored(&unfenced, &shown);
    assert!(taken_down.starts_with("*filter\n-D OUTPUT "), "{taken_down}");
    assert!(
        taken_down.contains("-F PROXY_INIT_FENCE\n-X PROXY_INIT_FENCE\nCOMMIT\n*nat\n"),
        "{taken_down}"
    );
    let narrow = shown.replace(
        "-A OUTPUT -m comment --comment \"proxy-init/install-egress",
        "-A OUTPUT -o eth0 -m comment --comment \"x",
    );
    let table = SavedTables::parse(&narrow).unwrap();
    assert!(!table.enforces(&fenced.iptables_rules(Family::V4)));
    assert!(restored(&fenced, &narrow).contains("-D OUTPUT -o eth0 "));
}

#[test]
fn new_connections_only_asks_for_syn() {
    let wanted = Redirection {
        new_connections_only: true,
        listed_inbound_ports: vec![9090],
        ..usual()
    };
    let text = restored(&wanted, "");
    assert!(
        text.contains("-p tcp -m tcp --dport 9090 --tcp-flags FIN,SYN,RST,ACK SYN -m comment"),
        "{text}"
    );
    assert!(
        text.contains("-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m comment"),
        "{text}"
    );
}

const FOREIGN: &str = "# comment\n*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j PROXY_INIT_REDIRECT\nCOMMIT\n*nat\n\
    :PREROUTING ACCEPT [5:300]\n:OTHER - [0:0]\n\
    -A PREROUTING -p udp -m udp --dport 53 -j REDIRECT --to-ports 5353\n\
    -A OUTPUT -m comment --comment \"a \\\"quoted\\\" -j PROXY_INIT_OUTPUT\" -j OTHER\nCOMMIT\n";

#[test]
fn foreign_rules_are_kept_and_never_written() {
    let table = SavedTables::parse(FOREIGN).unwrap();
    assert_eq!(table.foreign().len(), 4);
    assert_eq!(table.lines(), &Lines::default());
    let text = restored(&usual(), FOREIGN);
    assert!(!text.contains("OTHER") && !text.contains("5353"), "{text}");
}

#[test]
fn a_jump_that_is_there_is_kept_and_a_doubled_one_becomes_one() {
    let jump = "-A OUTPUT -j PROXY_INIT_OUTPUT\n";
    let narrow = "-A PREROUTING -i eth0 -m comment --comment x -j PROXY_INIT_REDIRECT\n";
    let before = format!("*nat\n{jump}{jump}{narrow}COMMIT\n");
    let table = SavedTables::parse(&before).unwrap();
    assert_eq!(table.narrow_jumps().collect::<Vec<_>>(), [narrow.trim()]);
    let text = restored(&usual(), &before);
    let jumps: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("-A PRE") || line.contains(" OUTPUT "))
        .collect();
    assert_eq!(jumps, ["-D OUTPUT -j PROXY_INIT_OUTPUT"]);
}

#[test]
fn what_was_there_can_be_put_back() {
    let before =
        SavedTables::parse("*nat\n:PROXY_INIT_OUTPUT - [0:0]\n-A PROXY_INIT_OUTPUT -j ACCEPT\nCOMMIT\n").unwrap();
    let after = wanted(&usual().iptables_rules(Family::V4), &before);
    let text = restore(&after, before.lines());
    assert_eq!(
        text,
        format!(
            "*nat\n:PROXY_INIT_OUTPUT - [0:0]\n{}\n{}\n-A PROXY_INIT_OUTPUT -j ACCEPT\n\
             -F PROXY_INIT_REDIRECT\n-X PROXY_INIT_REDIRECT\nCOMMIT\n",
            INBOUND_JUMP.replacen("-A", "-D", 1),
            OUTBOUND_JUMP.replacen("-A", "-D", 1)
        )
    );
}

#[test]
fn a_table_that_is_cut_short_is_an_error() {
    let error = SavedTables::parse("*nat\n:PREROUTING ACCEPT [0:0]\n-A OUTPUT -j X\n").unwrap_err();
    assert!(error.to_string().contains("-A OUTPUT -j X"), "{error}");
}

#[test]
fn rules_that_were_not_written_here_are_not_read_as_ours() {
    for line in [
        "-A PROXY_INIT_OUTPUT ! -o lo -j RETURN",
        "-A PROXY_INIT_OUTPUT -p udp -j RETURN",
        "-A PROXY_INIT_OUTPUT -j ACCEPT",
        "-A PROXY_INIT_OUTPUT -m owner --uid-owner 1-5 -j RETURN",
        "-A PROXY_INIT_OUTPUT -j REDIRECT --to-ports 1-2",
        "-A PROXY_INIT_OUTPUT -m comment --comment \"open -j RETURN",
    ] {
        let text = format!("*nat\n:PROXY_INIT_OUTPUT - [0:0]\n:PROXY_INIT_REDIRECT - [0:0]\n{line}\nCOMMIT\n");
        assert_eq!(SavedTables::parse(&text).unwrap().rules(), None, "{line}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(redirection in redirections(), v6: bool) {
        let rules = redirection.iptables_rules(if v6 { Family::V6 } else { Family::V4 });
        let nothing = SavedTables::default();
        // What is inserted into an empty table is shown as if it had been appended.
        let shown = restore(nothing.lines(), &wanted(&rules, &nothing)).replace("\n-I ", "\n-A ");
        let table = SavedTables::parse(&shown).unwrap();
        prop_assert_eq!(table.rules(), Some(rules.clone()));
        prop_assert!(table.enforces(&rules));
        prop_assert_eq!(&wanted(&rules, &table), table.lines());
        prop_assert_eq!(table.foreign().len(), 0);
    }

    #[test]
    fn any_text_is_read_without_panic(text in "(\\*nat\n)?([-:A-Z_ \"\\\\a-z0-9]{0,30}\n){0,5}(COMMIT\n)?") {
        if let Ok(table) = SavedTables::parse(&text) {
            prop_assert!(restore(table.lines(), &Lines::default()).ends_with("COMMIT\n"));
        }
    }
}
