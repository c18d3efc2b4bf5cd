//! The rules as data: what is sent to the proxy and what is left alone, in the order in which the kernel asks.
//!
//! The order and the comments are those of Linkerd's proxy-init, since people's tools read them.

use super::fence::{Connection, Fence};
use super::{Family, PortList, PortRange, Subnet, SubnetList};
use ipnet::IpNet;
use std::fmt::Write as _;

/// What a pod wants of the traffic rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirection {
    /// The proxy's port for incoming connections.
    pub inbound_port: u16,
    /// The proxy's port for outgoing connections.
    pub outbound_port: u16,
    /// The UID whose own connections are left alone; without it and `proxy_gid` the proxy talks to itself.
    pub proxy_uid: Option<u32>,
    /// The GID whose own connections are left alone.
    pub proxy_gid: Option<u32>,
    /// The only ports whose incoming connections are redirected; empty means all.
    pub listed_inbound_ports: Vec<u16>,
    /// Ports of the pod that are reached directly.
    pub skip_inbound_ports: PortList,
    /// Ports elsewhere that are reached directly.
    pub skip_outbound_ports: PortList,
    /// Sources that reach the pod directly.
    pub skip_inbound_subnets: SubnetList,
    /// Destinations that the pod reaches directly.
    pub skip_outbound_subnets: SubnetList,
    /// Redirects only packets that open a connection, so that a running pod keeps the connections that it has.
    pub new_connections_only: bool,
    /// Closes the ways around the proxy; without one nothing is closed.
    pub fence: Option<Fence>,
}

/// The rules of both directions, and the fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// What happens to connections that arrive.
    pub inbound: Vec<Rule>,
    /// What happens to connections that the pod opens.
    pub outbound: Vec<Rule>,
    /// What happens, after redirection, to everything that the pod sends; empty where there is no fence.
    pub fence: Vec<Rule>,
}

/// One rule: where everything in `matches` is true, `target` is done and no further rule asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What the packet must be.
    pub matches: Matches,
    /// What is done with it.
    pub target: Target,
    /// What people read.
    pub comment: String,
}

/// What a packet must be; nothing said is nothing asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// The UID of the process that sent it.
    pub uid: Option<u32>,
    /// The GID of the process that sent it.
    pub gid: Option<u32>,
    /// It leaves through the loop-back device.
    pub loopback: bool,
    /// It is TCP.
    pub tcp: bool,
    /// It is UDP to this port.
    pub udp_port: Option<u16>,
    /// It is ICMP of IPv6, and of this type.
    pub icmpv6: Option<u8>,
    /// It belongs to a connection of this kind.
    pub connection: Option<Connection>,
    /// It opens a TCP connection: SYN, and none of ACK, FIN and RST.
    pub opening: bool,
    /// Its TCP destination port is one of these.
    pub ports: Vec<PortRange>,
    /// Its source is in one of these, which are of one family.
    pub from: Vec<IpNet>,
    /// Its destination is in one of these, which are of one family.
    pub to: Vec<IpNet>,
}

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It is left alone.
    Return,
    /// It goes to this port of the pod.
    Redirect(u16),
    /// It is dropped, and its sender told that the port is unreachable.
    Reject,
}

/// What begins every comment.
const COMMENT_PREFIX: &str = "proxy-init/";

/// How many ports one multiport match holds; a range takes two (`XT_MULTI_PORTS` of the kernel).
const MULTIPORT_SLOTS: usize = 15;

impl Redirection {
    /// The rules as iptables takes them, for one family.
    pub fn iptables_rules(&self, family: Family) -> RuleSet {
        let ports = |list: &PortList| {
            multiport_groups(list)
                .into_iter()
                .map(skip_port_group)
                .collect::<Vec<_>>()
        };
        let mut inbound = ports(&self.skip_inbound_ports);
        inbound.extend(
            self.skip_inbound_subnets
                .of(family)
                .map(|subnet| skip_subnet(subnet, Direction::Inbound)),
        );
        if self.listed_inbound_ports.is_empty() {
            inbound.push(self.redirect_inbound());
        }
        inbound.extend(self.listed_inbound_ports.iter().map(|&port| {
            let matches = Matches {
                tcp: true,
                ports: vec![PortRange::single(port)],
                ..Matches::default()
            };
            self.redirect(
                matches,
                self.inbound_port,
                &format!("redirect-port-{port}-to-proxy-port"),
            )
        }));
        let mut around = ports(&self.skip_outbound_ports);
        around.extend(
            self.skip_outbound_subnets
                .of(family)
                .map(|subnet| skip_subnet(subnet, Direction::Outbound)),
        );
        RuleSet {
            inbound,
            outbound: self.outbound(&around),
            fence: self.iptables_fence(&around, family),
        }
    }

    /// The rules as one nftables table takes them: a rule a list, whatever its length, for one family or both.
    pub fn native_rules(&self, families: &[Family]) -> RuleSet {
        let subnets = |list, direction| {
            families
                .iter()
                .filter_map(move |&family| skip_subnets(list, family, direction))
                .collect::<Vec<_>>()
        };
        let mut inbound: Vec<Rule> = skip_ports(&self.skip_inbound_ports).into_iter().collect();
        inbound.extend(subnets(&self.skip_inbound_subnets, Direction::Inbound));
        if self.listed_inbound_ports.is_empty() {
            inbound.push(self.redirect_inbound());
        } else {
            let listed: PortList = self
                .listed_inbound_ports
                .iter()
                .copied()
                .map(PortRange::single)
                .collect();
            let matches = Matches {
                tcp: true,
                ports: listed.merged(),
                ..Matches::default()
            };
            inbound.push(self.redirect(matches, self.inbound_port, "redirect-listed-ports-to-proxy-port"));
        }
        let mut around: Vec<Rule> = skip_ports(&self.skip_outbound_ports).into_iter().collect();
        around.extend(subnets(&self.skip_outbound_subnets, Direction::Outbound));
        RuleSet {
            inbound,
            outbound: self.outbound(&around),
            fence: self.native_fence(&around, families),
        }
    }

    /// The rules of outgoing connections, where those that match `around` pass the proxy by.
    fn outbound(&self, around: &[Rule]) -> Vec<Rule> {
        let mut outbound = self.skip_owners();
        outbound.extend_from_slice(around);
        outbound.push(self.redirect_outbound());
        outbound
    }

    fn skip_owners(&self) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(3);
        if self.proxy_uid.is_some() {
            let matches = Matches {
                uid: self.proxy_uid,
                ..Matches::default()
            };
            rules.push(Rule::new(matches, Target::Return, "ignore-proxy-user-id"));
        }
        if self.proxy_gid.is_some() {
            let matches = Matches {
                gid: self.proxy_gid,
                ..Matches::default()
            };
            rules.push(Rule::new(matches, Target::Return, "ignore-proxy-group-id"));
        }
        let matches = Matches {
            loopback: true,
            ..Matches::default()
        };
        rules.push(Rule::new(matches, Target::Return, "ignore-loopback"));
        rules
    }

    fn redirect_inbound(&self) -> Rule {
        let matches = Matches {
            tcp: true,
            ..Matches::default()
        };
        self.redirect(matches, self.inbound_port, "redirect-all-incoming-to-proxy-port")
    }

    fn redirect_outbound(&self) -> Rule {
        let matches = Matches {
            tcp: true,
            ..Matches::default()
        };
        self.redirect(matches, self.outbound_port, "redirect-all-outgoing-to-proxy-port")
    }

    fn redirect(&self, matches: Matches, port: u16, comment: &str) -> Rule {
        let matches = Matches {
            opening: self.new_connections_only,
            ..matches
        };
        Rule::new(matches, Target::Redirect(port), comment)
    }
}

impl RuleSet {
    /// Whether both treat every new connection alike; what they do to connections that are older than they may differ.
    pub fn redirects_alike(&self, other: &Self) -> bool {
        let ignoring_age = |rules: &Self| {
            let mut rules = rules.clone();
            rules
                .inbound
                .iter_mut()
                .chain(&mut rules.outbound)
                .for_each(|rule| rule.matches.opening = false);
            rules
        };
        ignoring_age(self) == ignoring_age(other)
    }
}

impl Rule {
    pub(super) fn new(matches: Matches, target: Target, comment: &str) -> Self {
        Self {
            matches,
            target,
            comment: format!("{COMMENT_PREFIX}{comment}"),
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Inbound,
    Outbound,
}

impl Direction {
    /// Inbound connections are told by their source, outbound ones by their destination.
    fn matches(self, nets: Vec<IpNet>) -> Matches {
        match self {
            Self::Inbound => Matches {
                from: nets,
                ..Matches::default()
            },
            Self::Outbound => Matches {
                to: nets,
                ..Matches::default()
            },
        }
    }
}

fn skip_port_group(ports: Vec<PortRange>) -> Rule {
    let comment = format!("ignore-port-{}", multiport(&ports));
    Rule::new(
        Matches {
            tcp: true,
            ports,
            ..Matches::default()
        },
        Target::Return,
        &comment,
    )
}

fn skip_subnet(subnet: &Subnet, direction: Direction) -> Rule {
    // A prefix length of 0 asks nothing, and iptables does not show it.
    let nets = if subnet.net().prefix_len() == 0 {
        vec![]
    } else {
        vec![subnet.net()]
    };
    Rule::new(
        direction.matches(nets),
        Target::Return,
        &format!("ignore-subnet-{}", subnet.given()),
    )
}

fn skip_ports(list: &PortList) -> Option<Rule> {
    let matches = Matches {
        tcp: true,
        ports: list.merged(),
        ..Matches::default()
    };
    (!list.is_empty()).then(|| Rule::new(matches, Target::Return, "ignore-ports"))
}

fn skip_subnets(list: &SubnetList, family: Family, direction: Direction) -> Option<Rule> {
    let nets: Vec<IpNet> = list.of(family).map(Subnet::net).collect();
    let rule = || {
        Rule::new(
            direction.matches(IpNet::aggregate(&nets)),
            Target::Return,
            "ignore-subnets",
        )
    };
    (!nets.is_empty()).then(rule)
}

/// Splits a list, in its order, so that each part fits one multiport match.
fn multiport_groups(list: &PortList) -> Vec<Vec<PortRange>> {
    let mut groups: Vec<Vec<PortRange>> = Vec::new();
    let mut free = 0;
    for &range in list.ranges() {
        let slots = if range.is_single() { 1 } else { 2 };
        if slots > free {
            groups.push(Vec::new());
            free = MULTIPORT_SLOTS;
        }
        if let Some(group) = groups.last_mut() {
            group.push(range);
        }
        free -= slots;
    }
    groups
}

/// Ports as a multiport match writes them: `25,6000:8000`.
pub(super) fn multiport(ports: &[PortRange]) -> String {
    let mut text = String::new();
    for range in ports {
        let separator = if text.is_empty() { "" } else { "," };
        let last = if range.is_single() {
            String::new()
        } else {
            format!(":{}", range.last())
        };
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{separator}{}{last}", range.first());
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
