use super::*;
use proptest::prelude::*;

fn ports(text: &str) -> PortList {
    PortList::parse(text).unwrap().list
}

/// What a pod with Linkerd's ports and UID wants.
pub(in crate::redirect) fn usual() -> Redirection {
    Redirection {
        inbound_port: 4143,
        outbound_port: 4140,
        proxy_uid: Some(2102),
        ..Redirection::default()
    }
}

/// Any redirection.
pub(in crate::redirect) fn redirections() -> impl Strategy<Value = Redirection> {
    let range = (any::<u16>(), 0_u16..5).prop_filter_map("range", |(a, n)| PortRange::new(a, a.saturating_add(n)));
    let list = move || prop::collection::vec(range.clone(), 0..40).prop_map(|ranges| ranges.into_iter().collect());
    let subnets = || {
        let v4 =
            (any::<u32>(), 0_u8..=32).prop_map(|(net, length)| format!("{}/{length}", std::net::Ipv4Addr::from(net)));
        let v6 =
            (any::<u128>(), 0_u8..=128).prop_map(|(net, length)| format!("{}/{length}", std::net::Ipv6Addr::from(net)));
        prop::collection::vec(prop_oneof![v4, v6], 0..6).prop_map(|nets| SubnetList::parse(&nets.join(",")).unwrap())
    };
    let owners = (any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>());
    let listed = prop::collection::vec(any::<u16>(), 0..4);
    (
        any::<(u16, u16)>(),
        owners,
        listed,
        (list(), list()),
        (subnets(), subnets(), prop::option::of(subnets())),
    )
        .prop_map(
            |((inbound_port, outbound_port), (proxy_uid, proxy_gid, opening), listed, ports, subnets)| Redirection {
                inbound_port,
                outbound_port,
                proxy_uid,
                proxy_gid,
                listed_inbound_ports: listed,
                skip_inbound_ports: ports.0,
                skip_outbound_ports: ports.1,
                skip_inbound_subnets: subnets.0,
                skip_outbound_subnets: subnets.1,
                new_connections_only: opening,
                fence: subnets.2.map(|name_servers| Fence { name_servers }),
            },
        )
}

#[test]
fn a_multiport_match_holds_fifteen_slots_and_a_range_takes_two() {
    let sizes = |text: &str| multiport_groups(&ports(text)).iter().map(Vec::len).collect::<Vec<_>>();
    let singles = |count: u16| {
        (1000..1000 + count)
            .map(|port| port.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(sizes(&singles(15)), [15]);
    assert_eq!(sizes(&singles(16)), [15, 1]);
    assert_eq!(sizes(&singles(31)), [15, 15, 1]);
    assert_eq!(sizes(&format!("{},1-2", singles(14))), [14, 1]);
    assert_eq!(sizes(&format!("{},1-2", singles(13))), [14]);
    assert_eq!(sizes("1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16"), [7, 1]);
    assert_eq!(sizes(""), [0; 0]);
}

#[test]
fn subnets_go_to_the_family_that_can_have_them() {
    let subnets = SubnetList::parse("10.1.0.0/16,fd00::/8").unwrap();
    let wanted = Redirection {
        skip_inbound_subnets: subnets.clone(),
        skip_outbound_subnets: subnets,
        ..usual()
    };
    let v4 = wanted.iptables_rules(Family::V4);
    let v6 = wanted.iptables_rules(Family::V6);
    assert_eq!(v4.inbound[0].matches.from, ["10.1.0.0/16".parse().unwrap()]);
    assert_eq!(v4.inbound.len(), 2);
    assert_eq!(v6.inbound[0].matches.from, ["fd00::/8".parse().unwrap()]);
    assert_eq!(v6.outbound[2].matches.to, ["fd00::/8".parse().unwrap()]);
    assert_eq!(wanted.native_rules(&[Family::V4, Family::V6]).inbound.len(), 3);
    assert_eq!(wanted.native_rules(&[Family::V4]).inbound.len(), 2);
}

#[test]
fn the_age_of_connections_makes_no_difference_to_new_ones() {
    let plain = usual().iptables_rules(Family::V4);
    let repairing = Redirection {
        new_connections_only: true,
        ..usual()
    }
    .iptables_rules(Family::V4);
    assert_ne!(plain, repairing);
    assert!(plain.redirects_alike(&repairing));
    assert!(
        !plain.redirects_alike(
            &Redirection {
                proxy_uid: None,
                ..usual()
            }
            .iptables_rules(Family::V4)
        )
    );
}

proptest! {
    #[test]
    fn ten_thousand_ports_are_one_native_rule(stride in 1_u16..6) {
        let list: PortList = (0..10_000).map(|n| PortRange::single(n * stride)).collect();
        let rules = Redirection { skip_inbound_ports: list, ..usual() }.native_rules(&[Family::V4]);
        prop_assert_eq!(rules.inbound.len(), 2);
        prop_assert_eq!(rules.inbound[0].matches.ports.len(), if stride == 1 { 1 } else { 10_000 });
    }
}
