//! What the kernel lists of nftables: any bytes are read, and a table that is read can be written and read again.
//!
//! Bytes alone would rarely make a table: half of the inputs are edits of the messages of a real one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outrigger::redirect::nft::{Listing, Table, TableFamily, messages, replace};
use outrigger::redirect::{PortList, Redirection, SubnetList};

fn read(bytes: &[u8]) -> Listing {
    let mut listing = Listing::default();
    messages(bytes).for_each(|message| listing.take(message.kind));
    listing
}

/// The messages of a table that uses everything.
fn real() -> Vec<u8> {
    let redirection = Redirection {
        inbound_port: 4143,
        outbound_port: 4140,
        proxy_uid: Some(2102),
        proxy_gid: Some(2102),
        listed_inbound_ports: vec![80, 443],
        skip_inbound_ports: PortList::parse("0,4190-4191,65535").expect("these are ports").list,
        skip_inbound_subnets: SubnetList::parse("10.0.0.0/8,fd00::/8").expect("these are subnets"),
        skip_outbound_subnets: SubnetList::parse("0.0.0.0/0,::/0").expect("these are subnets"),
        new_connections_only: true,
        ..Redirection::default()
    };
    replace(&Table::new(&redirection, TableFamily::Inet)).finish().0
}

fn edited(edits: &[u8]) -> Vec<u8> {
    let mut bytes = real();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
        bytes[at] = edit[2];
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let bytes = if kind % 2 == 0 { rest.to_vec() } else { edited(rest) };
    let mut listing = read(&bytes);
    let _requests = (listing.next_requests(), listing.next_requests());
    let Ok(Some(table)) = listing.table() else { return };
    let _text = table.to_string();
    let again = read(&replace(&table).finish().0).table();
    assert!(again.is_ok_and(|again| again.is_some()));
});
