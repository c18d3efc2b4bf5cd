//! The rules in the words of iptables: what `iptables-save` shows of the tables nat and filter, and the text that
//! `iptables-restore --noflush` takes to get from what is there to what is wanted, in one commit a table.
//!
//! The same text serves both back ends (nft and legacy) and both families. Chains are Linkerd's. See iptables(8),
//! iptables-extensions(8).

mod save;

pub use save::{SaveError, SavedTables};

use super::Connection;
use super::rules::{Matches, Rule, RuleSet, Target, multiport};

/// The chain for connections that arrive.
pub const INBOUND_CHAIN: &str = "PROXY_INIT_REDIRECT";
/// The chain for connections that the pod opens.
pub const OUTBOUND_CHAIN: &str = "PROXY_INIT_OUTPUT";

/// The chain of the filter table that closes the ways around the proxy; ours alone.
pub const FENCE_CHAIN: &str = "PROXY_INIT_FENCE";

const INBOUND_JUMP: &str =
    "-A PREROUTING -m comment --comment \"proxy-init/install-proxy-init-prerouting\" -j PROXY_INIT_REDIRECT";
const OUTBOUND_JUMP: &str =
    "-A OUTPUT -m comment --comment \"proxy-init/install-proxy-init-output\" -j PROXY_INIT_OUTPUT";
const FENCE_JUMP: &str = "-A OUTPUT -m comment --comment \"proxy-init/install-egress-fence\" -j PROXY_INIT_FENCE";

/// Our part of the tables, as lines: the unit in which it is written and restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    inbound: Direction,
    outbound: Direction,
    fence: Direction,
}

/// One chain of ours and the jumps that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Direction {
    /// The `-A` lines of the chain; `None` where there is no such chain.
    chain: Option<Vec<String>>,
    /// The `-A` lines of the built-in chain that jump to it.
    jumps: Vec<String>,
}

/// The lines to have in place of `now` for `rules`: our chains in full, and one jump to each.
///
/// A jump that is there stays where it is, whoever wrote it, as with Linkerd; doubled ones become one.
pub fn wanted(rules: &RuleSet, now: &SavedTables) -> Lines {
    let now = now.lines();
    let direction = |chain: &str, rules: &[Rule], jumps: &[String], jump: &str| {
        let mut kept: Vec<String> = Vec::new();
        for line in jumps {
            if !kept.contains(line) {
                kept.push(line.clone());
            }
        }
        if kept.is_empty() {
            kept.push(jump.to_owned());
        }
        Direction {
            chain: Some(rules.iter().map(|rule| append(chain, rule)).collect()),
            jumps: kept,
        }
    };
    let whole: Vec<String> = now
        .fence
        .jumps
        .iter()
        .filter(|jump| save::is_unconditional(jump))
        .cloned()
        .collect();
    Lines {
        inbound: direction(INBOUND_CHAIN, &rules.inbound, &now.inbound.jumps, INBOUND_JUMP),
        outbound: direction(OUTBOUND_CHAIN, &rules.outbound, &now.outbound.jumps, OUTBOUND_JUMP),
        fence: match rules.fence.is_empty() {
            true => Direction::default(),
            false => direction(FENCE_CHAIN, &rules.fence, &whole, FENCE_JUMP),
        },
    }
}

/// The input of `iptables-restore --noflush` that turns our part of the tables from `now` into `wanted`, in one commit a
/// table; that of the filter table is there where there is a fence, now or then.
///
/// No other rule is in it. Taking it twice is refused by iptables or changes nothing.
pub fn restore(now: &Lines, wanted: &Lines) -> String {
    let directions = [
        (INBOUND_CHAIN, &now.inbound, &wanted.inbound), //
        (OUTBOUND_CHAIN, &now.outbound, &wanted.outbound),
    ];
    let nat = restore_table("nat", &directions);
    let fences = (&now.fence, &wanted.fence);
    if fences.0 == fences.1 {
        return nat;
    }
    let filter = restore_table("filter", &[(FENCE_CHAIN, fences.0, fences.1)]);
    // Where something cuts it short, there is no fence without redirection.
    match wanted.fence.chain {
        Some(_) => nat + &filter,
        None => filter + &nat,
    }
}

fn restore_table(table: &str, directions: &[(&str, &Direction, &Direction)]) -> String {
    let mut text = format!("*{table}\n");
    // A chain line makes the chain, or empties the one that is there.
    for &(chain, _, wanted) in directions {
        if wanted.chain.is_some() {
            push(&mut text, &format!(":{chain} - [0:0]"));
        }
    }
    for &(_, now, wanted) in directions {
        for gone in surplus(&now.jumps, &wanted.jumps) {
            push(&mut text, &gone.replacen("-A ", "-D ", 1));
        }
    }
    for &(_, now, wanted) in directions {
        for line in wanted.chain.iter().flatten() {
            push(&mut text, line);
        }
        for jump in surplus(&wanted.jumps, &now.jumps) {
            // Nothing that others accept may come before the fence.
            let inserted = jump.replacen("-A ", "-I ", usize::from(table == "filter"));
            push(&mut text, &inserted);
        }
    }
    for &(chain, now, wanted) in directions {
        if now.chain.is_some() && wanted.chain.is_none() {
            push(&mut text, &format!("-F {chain}\n-X {chain}"));
        }
    }
    push(&mut text, "COMMIT");
    text
}

/// What is in `lines` more often than in `others`.
fn surplus<'a>(lines: &'a [String], others: &[String]) -> Vec<&'a String> {
    let mut left: Vec<&String> = others.iter().collect();
    let mut surplus = Vec::new();
    for line in lines {
        match left.iter().position(|other| *other == line) {
            Some(index) => drop(left.swap_remove(index)),
            None => surplus.push(line),
        }
    }
    surplus
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// One rule as the line that appends it, in the form in which `iptables-save` shows it.
fn append(chain: &str, rule: &Rule) -> String {
    let mut words = vec![format!("-A {chain}")];
    words.extend(conditions(&rule.matches, rule.target));
    words.push(format!("-m comment --comment \"{}\"", rule.comment));
    words.push(match rule.target {
        Target::Return => "-j RETURN".to_owned(),
        Target::Redirect(port) => format!("-j REDIRECT --to-ports {port}"),
        Target::Reject => "-j REJECT".to_owned(),
    });
    words.join(" ")
}

fn conditions(matches: &Matches, target: Target) -> Vec<String> {
    let listed = matches!(target, Target::Redirect(_)) && !matches.ports.is_empty();
    let skipped = !listed && !matches.ports.is_empty();
    let mut words: Vec<String> = matches.from.iter().map(|net| format!("-s {net}")).collect();
    words.extend(matches.to.iter().map(|net| format!("-d {net}")));
    words.extend(matches.loopback.then(|| "-o lo".to_owned()));
    words.extend(matches.tcp.then(|| "-p tcp".to_owned()));
    words.extend(matches.udp_port.map(|port| format!("-p udp -m udp --dport {port}")));
    words.extend(
        matches
            .icmpv6
            .map(|kind| format!("-p ipv6-icmp -m icmp6 --icmpv6-type {kind}")),
    );
    words.extend((listed || matches.opening).then(|| "-m tcp".to_owned()));
    words.extend(listed.then(|| format!("--dport {}", multiport(&matches.ports))));
    words.extend(matches.opening.then(|| "--tcp-flags FIN,SYN,RST,ACK SYN".to_owned()));
    words.extend(skipped.then(|| format!("-m multiport --dports {}", multiport(&matches.ports))));
    words.extend(matches.connection.map(|connection| match connection {
        Connection::Known => "-m conntrack --ctstate RELATED,ESTABLISHED".to_owned(),
        Connection::Redirected => "-m conntrack --ctstate DNAT".to_owned(),
    }));
    words.extend(matches.uid.map(|uid| format!("-m owner --uid-owner {uid}")));
    words.extend(matches.gid.map(|gid| format!("-m owner --gid-owner {gid}")));
    words
}

#[cfg(test)]
mod tests;
