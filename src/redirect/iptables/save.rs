//! Reads the tables nat and filter back from `iptables-save -t nat` and `-t filter`, whichever version wrote them.

use super::{Direction, FENCE_CHAIN, INBOUND_CHAIN, Lines, OUTBOUND_CHAIN};
use crate::redirect::rules::{Matches, Rule, RuleSet, Target};
use crate::redirect::{Connection, PortRange};
use ipnet::IpNet;

/// The tables nat and filter as `iptables-save` shows them; everything that is not ours is kept as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTables {
    lines: Lines,
    foreign: Vec<String>,
}

/// A text that does not show whole tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table ends without COMMIT after {last:?}: iptables-save was cut short")]
pub struct SaveError {
    last: String,
}

impl SavedTables {
    /// Reads what `iptables-save` printed of either table or both; an empty text is an empty table.
    ///
    /// # Errors
    /// Where a table begins and does not end.
    pub fn parse(text: &str) -> Result<Self, SaveError> {
        let mut table = Self::default();
        let mut name = None;
        for line in text.lines().map(str::trim) {
            if let Some(begun) = line.strip_prefix('*') {
                name = Some(begun);
            } else if line == "COMMIT" {
                name = None;
            } else if let Some(name) = name.filter(|name| ["nat", "filter"].contains(name)) {
                table.read(name, line);
            }
        }
        if name.is_some() {
            return Err(SaveError {
                last: text.lines().last().unwrap_or_default().to_owned(),
            });
        }
        Ok(table)
    }

    /// Our part of it, as lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The lines of the nat table that are not ours, in their order, without counters.
    pub fn foreign(&self) -> &[String] {
        &self.foreign
    }

    /// Whether anything of ours is there.
    pub fn is_ours(&self) -> bool {
        let Lines {
            inbound,
            outbound,
            fence,
        } = &self.lines;
        [inbound, outbound, fence]
            .iter()
            .any(|direction| direction.chain.is_some() || !direction.jumps.is_empty())
    }

    /// Our rules; `None` where a chain is missing or holds a rule that was not written here.
    pub fn rules(&self) -> Option<RuleSet> {
        let chain = |direction: &Direction| -> Option<Vec<Rule>> {
            direction.chain.as_ref()?.iter().map(|line| rule(line)).collect()
        };
        Some(RuleSet {
            inbound: chain(&self.lines.inbound)?,
            outbound: chain(&self.lines.outbound)?,
            fence: match self.lines.fence.chain {
                Some(_) => chain(&self.lines.fence)?,
                None => Vec::new(),
            },
        })
    }

    /// Whether `rules` are in force: the chains hold them, and exactly one jump of a kind leads to each.
    pub fn enforces(&self, rules: &RuleSet) -> bool {
        let reached = |jumps: &[String]| !jumps.is_empty() && jumps.iter().all(|jump| is_single(jumps, jump));
        let fence = &self.lines.fence.jumps;
        let fenced = match rules.fence.is_empty() {
            true => fence.is_empty(),
            false => reached(fence) && fence.iter().all(|jump| is_unconditional(jump)),
        };
        fenced
            && reached(&self.lines.inbound.jumps)
            && reached(&self.lines.outbound.jumps)
            && self.rules().is_some_and(|shown| shown.redirects_alike(rules))
    }

    /// Whether some incoming connections are redirected: a jump leads to a chain that redirects.
    pub fn reaches_inbound_chain(&self) -> bool {
        let redirects = |line: &String| line.contains("-j REDIRECT");
        !self.lines.inbound.jumps.is_empty() && self.lines.inbound.chain.iter().flatten().any(redirects)
    }

    /// The jumps to a chain of ours to which no unconditional jump leads: what they do not match is not redirected.
    pub fn narrow_jumps(&self) -> impl Iterator<Item = &str> {
        [&self.lines.inbound, &self.lines.outbound]
            .into_iter()
            .filter(|direction| !direction.jumps.iter().any(|jump| is_unconditional(jump)))
            .flat_map(|direction| direction.jumps.iter().map(String::as_str))
    }

    fn read(&mut self, table: &str, line: &str) {
        let is_nat = table == "nat";
        if let Some(chain) = line.strip_prefix(':') {
            match chain.split_whitespace().next() {
                Some(FENCE_CHAIN) if !is_nat => self.lines.fence.chain = Some(Vec::new()),
                Some(INBOUND_CHAIN) if is_nat => self.lines.inbound.chain = Some(Vec::new()),
                Some(OUTBOUND_CHAIN) if is_nat => self.lines.outbound.chain = Some(Vec::new()),
                Some(name) if is_nat => self.foreign.push(format!(":{name}")),
                Some(_) | None => {}
            }
            return;
        }
        let Some((chain, rest)) = line.strip_prefix("-A ").and_then(|rest| rest.split_once(' ')) else {
            return;
        };
        let jumps_to = |target: &str| words(rest).is_some_and(|words| words.ends_with(&["-j".into(), target.into()]));
        let inbound = &mut self.lines.inbound;
        let outbound = &mut self.lines.outbound;
        let fence = &mut self.lines.fence;
        match chain {
            FENCE_CHAIN if !is_nat => fence.chain.get_or_insert_default().push(line.to_owned()),
            "OUTPUT" if !is_nat && jumps_to(FENCE_CHAIN) => fence.jumps.push(line.to_owned()),
            _ if !is_nat => {}
            INBOUND_CHAIN => inbound.chain.get_or_insert_default().push(line.to_owned()),
            OUTBOUND_CHAIN => outbound.chain.get_or_insert_default().push(line.to_owned()),
            "PREROUTING" if jumps_to(INBOUND_CHAIN) => inbound.jumps.push(line.to_owned()),
            "OUTPUT" if jumps_to(OUTBOUND_CHAIN) => outbound.jumps.push(line.to_owned()),
            _ => self.foreign.push(line.to_owned()),
        }
    }
}

fn is_single(jumps: &[String], jump: &str) -> bool {
    jumps.iter().filter(|other| *other == jump).count() == 1
}

/// Whether a jump has no condition: a comment, at most.
pub(super) fn is_unconditional(jump: &str) -> bool {
    let rest = jump.splitn(3, ' ').nth(2).unwrap_or_default();
    words(rest).is_some_and(|words| match words.as_slice() {
        [m, comment, flag, _, j, _] => m == "-m" && comment == "comment" && flag == "--comment" && j == "-j",
        [j, _] => j == "-j",
        _ => false,
    })
}

/// The matches that rules use.
const MATCHES: [&str; 7] = ["comment", "conntrack", "icmp6", "multiport", "owner", "tcp", "udp"];

/// What a rejection says where nothing else is asked for, by family.
const REJECTIONS: [&str; 2] = ["icmp-port-unreachable", "icmp6-port-unreachable"];

/// Reads a line `-A CHAIN …`; `None` where it says anything that the rules never say.
fn rule(line: &str) -> Option<Rule> {
    let rest = line.splitn(3, ' ').nth(2)?;
    let words = words(rest)?;
    let mut words = words.iter().map(String::as_str);
    let mut matches = Matches::default();
    let mut target = None;
    let mut comment = String::new();
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "-m" if MATCHES.contains(&value) => {}
            "--comment" => value.clone_into(&mut comment),
            "-j" if value == "RETURN" => target = Some(Target::Return),
            "-j" if value == "REJECT" => target = Some(Target::Reject),
            "--reject-with" if REJECTIONS.contains(&value) => {}
            "-j" if value == "REDIRECT" => target = Some(Target::Redirect(redirect_port(&mut words)?)),
            "--tcp-flags" => matches.opening = value == "FIN,SYN,RST,ACK" && words.next()? == "SYN",
            _ => condition(&mut matches, word, value)?,
        }
    }
    // Of these two, no rule asks the protocol alone.
    let whole = matches.udp_port != Some(0) && matches.icmpv6 != Some(0);
    Some(Rule {
        matches,
        target: target.filter(|_| whole)?,
        comment,
    })
}

fn redirect_port<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u16> {
    (words.next()? == "--to-ports").then_some(())?;
    words.next()?.parse().ok()
}

fn condition(matches: &mut Matches, word: &str, value: &str) -> Option<()> {
    match word {
        "-s" => matches.from.push(net(value)?),
        "-d" => matches.to.push(net(value)?),
        "-o" if value == "lo" => matches.loopback = true,
        "-p" if value == "tcp" || value == "6" => matches.tcp = true,
        "-p" if value == "udp" || value == "17" => matches.udp_port = Some(0),
        "-p" if value == "ipv6-icmp" || value == "58" => matches.icmpv6 = Some(0),
        "--icmpv6-type" => matches.icmpv6 = Some(value.parse().ok()?),
        "--ctstate" => {
            matches.connection = Some(match value {
                "RELATED,ESTABLISHED" | "ESTABLISHED,RELATED" => Connection::Known,
                "DNAT" => Connection::Redirected,
                _ => return None,
            });
        }
        "--dport" if matches.udp_port.is_some() => matches.udp_port = Some(value.parse().ok()?),
        "--dport" | "--dports" => matches.ports = value.split(',').map(range).collect::<Option<_>>()?,
        "--uid-owner" => matches.uid = Some(value.parse().ok()?),
        "--gid-owner" => matches.gid = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

/// A subnet; a bare address is one of its own.
fn net(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))
}

fn range(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    PortRange::new(first.parse().ok()?, last.parse().ok()?)
}

/// Splits a line into words; double quotes hold one together, a backslash takes the next character as it is.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Some(words);
        }
        let mut word = String::new();
        let quoted = chars.next_if_eq(&'"').is_some();
        let ends = |c: char| if quoted { c == '"' } else { c.is_whitespace() };
        loop {
            match chars.next() {
                Some(c) if ends(c) => break,
                Some('\\') => word.push(chars.next()?),
                Some(c) => word.push(c),
                None if quoted => return None,
                None => break,
            }
        }
        words.push(word);
    }
}
