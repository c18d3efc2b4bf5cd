//! The table in the words of nft(8), for people: sets are written out where they are asked.

use super::{Chain, Table, TableFamily};
use crate::redirect::Connection;
use crate::redirect::rules::{Matches, Rule, Target};
use std::fmt;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            TableFamily::Inet => "inet",
            TableFamily::Ip => "ip",
        };
        writeln!(f, "table {family} {} {{", super::TABLE)?;
        for chain in Chain::ALL {
            let Some(rules) = chain.rules(&self.rules) else {
                continue;
            };
            writeln!(f, "  chain {} {{", chain.name())?;
            writeln!(
                f,
                "    type {} hook {} priority {}; policy accept;",
                chain.kind(),
                chain.hook_name(),
                chain.priority()
            )?;
            rules
                .iter()
                .try_for_each(|rule| writeln!(f, "    {}", statement(rule)))?;
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}

fn statement(rule: &Rule) -> String {
    let mut words = conditions(&rule.matches);
    words.push(match rule.target {
        Target::Return => "return".to_owned(),
        Target::Redirect(port) => format!("redirect to :{port}"),
        Target::Reject => "reject".to_owned(),
    });
    words.push(format!("comment \"{}\"", rule.comment));
    words.join(" ")
}

fn conditions(matches: &Matches) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(matches.connection.map(|connection| match connection {
        Connection::Known => "ct state established,related".to_owned(),
        Connection::Redirected => "ct status dnat".to_owned(),
    }));
    words.extend(matches.uid.map(|uid| format!("meta skuid {uid}")));
    words.extend(matches.gid.map(|gid| format!("meta skgid {gid}")));
    words.extend(matches.loopback.then(|| "oifname \"lo\"".to_owned()));
    words.extend((matches.tcp && matches.ports.is_empty()).then(|| "meta l4proto tcp".to_owned()));
    words.extend(matches.udp_port.map(|port| format!("udp dport {port}")));
    words.extend(matches.icmpv6.map(|kind| format!("icmpv6 type {kind}")));
    words.extend(
        matches
            .opening
            .then(|| "tcp flags & (fin | syn | rst | ack) == syn".to_owned()),
    );
    words.extend(list("tcp dport", &matches.ports));
    for (nets, end) in [(&matches.from, "saddr"), (&matches.to, "daddr")] {
        let family = if matches!(nets.first(), Some(ipnet::IpNet::V6(_))) {
            "ip6"
        } else {
            "ip"
        };
        words.extend(list(&format!("{family} {end}"), nets));
    }
    words
}

fn list<T: fmt::Display>(what: &str, items: &[T]) -> Option<String> {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    (!items.is_empty()).then(|| format!("{what} {{ {} }}", items.join(", ")))
}
