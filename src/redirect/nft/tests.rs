use super::*;
use crate::redirect::rules::tests::{redirections, usual};
use crate::redirect::{PortList, SubnetList};
use proptest::prelude::*;

/// The objects that a batch makes have the form in which the kernel lists them.
fn listed(bytes: &[u8]) -> Listing {
    let mut listing = Listing::default();
    messages(bytes).for_each(|message| listing.take(message.kind));
    listing
}

fn read_back(table: &Table) -> Option<Table> {
    listed(&replace(table).finish().0).table().unwrap()
}

#[test]
fn lists_of_both_families_are_intervals() {
    let wanted = Redirection {
        skip_inbound_ports: PortList::parse("0,65535,4190,4191,6000-8000,7000-9000").unwrap().list,
        skip_inbound_subnets: SubnetList::parse("10.0.0.0/24,10.0.1.0/25,fd00::/8,ff00::/8").unwrap(),
        skip_outbound_subnets: SubnetList::parse("0.0.0.0/0,::/0").unwrap(),
        listed_inbound_ports: vec![9099, 9090],
        ..usual()
    };
    let table = Table::new(&wanted, TableFamily::Inet);
    assert_eq!(read_back(&table), Some(table.clone()));
    assert_eq!(table.rules.inbound.len(), 4);
    assert_eq!(listed(&replace(&table).finish().0).sets().len(), 6);
}

#[test]
fn ten_thousand_ports_fit() {
    let list: PortList = (0..10_000).map(|n| crate::redirect::PortRange::single(n * 5)).collect();
    let table = Table::new(
        &Redirection {
            skip_inbound_ports: list,
            ..usual()
        },
        TableFamily::Ip,
    );
    assert_eq!(read_back(&table), Some(table));
}

#[test]
fn no_table_is_no_table() {
    assert_eq!(Listing::default().table(), Ok(None));
    assert_eq!(listed(&remove().finish().0).table(), Ok(None));
}

#[test]
fn tables_that_were_changed_are_told() {
    let table = Table::new(&usual(), TableFamily::Inet);
    let bytes = replace(&table).finish().0;
    let replaced = |from: &[u8], to: &[u8]| {
        let mut bytes = bytes.clone();
        let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to);
        listed(&bytes).table()
    };
    assert_eq!(
        replaced(b"redir\0", b"masq\0\0"),
        Err(DecodeError::Rule {
            chain: "output".to_owned(),
            index: 3
        })
    );
    assert_eq!(
        replaced(&PRIORITY.to_be_bytes(), &0_i32.to_be_bytes()),
        Err(DecodeError::Chain("output".to_owned()))
    );
    let both = [
        bytes.clone(),
        replace(&Table::new(&usual(), TableFamily::Ip)).finish().0,
    ]
    .concat();
    assert_eq!(listed(&both).table(), Err(DecodeError::Twice));
}

#[test]
fn people_read_it_in_the_words_of_nft() {
    let wanted = Redirection {
        proxy_gid: Some(7),
        skip_inbound_ports: PortList::parse("4190,6000-8000").unwrap().list,
        skip_inbound_subnets: SubnetList::parse("10.1.0.0/16,fd00::/8").unwrap(),
        new_connections_only: true,
        ..usual()
    };
    assert_eq!(
        Table::new(&wanted, TableFamily::Inet).to_string(),
        r#"table inet outrigger {
  chain prerouting {
    type nat hook prerouting priority -100; policy accept;
    tcp dport { 4190, 6000-8000 } return comment "proxy-init/ignore-ports"
    ip saddr { 10.1.0.0/16 } return comment "proxy-init/ignore-subnets"
    ip6 saddr { fd00::/8 } return comment "proxy-init/ignore-subnets"
    meta l4proto tcp tcp flags & (fin | syn | rst | ack) == syn redirect to :4143 comment "proxy-init/redirect-all-incoming-to-proxy-port"
  }
  chain output {
    type nat hook output priority -100; policy accept;
    meta skuid 2102 return comment "proxy-init/ignore-proxy-user-id"
    meta skgid 7 return comment "proxy-init/ignore-proxy-group-id"
    oifname "lo" return comment "proxy-init/ignore-loopback"
    meta l4proto tcp tcp flags & (fin | syn | rst | ack) == syn redirect to :4140 comment "proxy-init/redirect-all-outgoing-to-proxy-port"
  }
}
"#
    );
}

proptest! {
    #[test]
    fn what_is_written_reads_back(redirection in redirections(), inet: bool) {
        let table = Table::new(&redirection, if inet { TableFamily::Inet } else { TableFamily::Ip });
        prop_assert_eq!(read_back(&table), Some(table));
    }

    #[test]
    fn damaged_listings_are_read_without_panic(at in 0_usize..2000, byte: u8, cut in 0_usize..3000) {
        let skip = PortList::parse("1,5-9,65535").unwrap().list;
        let table = Table::new(&Redirection { skip_outbound_ports: skip, ..usual() }, TableFamily::Inet);
        let mut bytes = replace(&table).finish().0;
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut);
        let listing = listed(&bytes);
        prop_assert!(listing.families().len() <= 2);
        prop_assert!(listing.table().is_ok() || listing.table().is_err());
    }
}
