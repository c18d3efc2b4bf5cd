//! One rule as expressions of nftables: small steps over registers; and back.
//!
//! Attribute and constant names are those of the kernel's `nf_tables.h`.

use super::TableFamily;
use super::netlink::{Attributes, attribute, attributes, number, text};
use super::set::{self, Element, Key};
use crate::redirect::rules::{Matches, Rule, Target};
use crate::redirect::{Connection, Family};
use std::collections::BTreeMap;

/// `NFTA_LIST_ELEM`, `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`.
const LIST_ELEM: u16 = 1;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
/// `NFTA_DATA_VALUE`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_CODE`.
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
/// `NFT_REG_VERDICT`, `NFT_REG_1`: one register is enough for every rule.
const REG_VERDICT: u32 = 0;
const REG: u32 = 1;
/// `NFT_RETURN` is -5.
const RETURN: u32 = 0xffff_fffb;

/// A field of a packet that is loaded into the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// `meta`, by its `NFT_META_*` key.
    Meta(u32),
    /// `payload`: base (`NFT_PAYLOAD_*_HEADER`), offset and length in bytes.
    Payload(u32, u32, u32),
    /// `ct`, by its `NFT_CT_*` key.
    Connection(u32),
}

const OIFNAME: Field = Field::Meta(7);
const SKUID: Field = Field::Meta(10);
const SKGID: Field = Field::Meta(11);
const NFPROTO: Field = Field::Meta(15);
const L4PROTO: Field = Field::Meta(16);
const TCP_DPORT: Field = Field::Payload(2, 2, 2);
const TCP_FLAGS: Field = Field::Payload(2, 13, 1);
/// UDP has it where TCP has it.
const UDP_DPORT: Field = TCP_DPORT;
const ICMPV6_TYPE: Field = Field::Payload(2, 0, 1);

/// `IPPROTO_TCP`, `IPPROTO_UDP` and `IPPROTO_ICMPV6`.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// FIN, SYN, RST and ACK of the TCP flags, and SYN alone.
const OPENING_MASK: u8 = 0x17;
const SYN: u8 = 0x02;
/// `NFT_CMP_EQ` and `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// The loop-back device, as long as a device's name can be (`IFNAMSIZ`).
const LOOPBACK: [u8; 16] = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

impl Connection {
    /// What is loaded: `NFT_CT_STATE` or `NFT_CT_STATUS`.
    const fn field(self) -> Field {
        match self {
            Self::Known => Field::Connection(0),
            Self::Redirected => Field::Connection(2),
        }
    }

    /// The bits one of which is set: established and related (`NF_CT_STATE_BIT`), `IPS_DST_NAT`.
    const fn bits(self) -> u32 {
        match self {
            Self::Known => 0x6,
            Self::Redirected => 0x20,
        }
    }
}

impl Key {
    const fn field(self) -> Field {
        match self {
            Self::Port => TCP_DPORT,
            Self::Source(Family::V4) => Field::Payload(1, 12, 4),
            Self::Destination(Family::V4) => Field::Payload(1, 16, 4),
            Self::Source(Family::V6) => Field::Payload(1, 8, 16),
            Self::Destination(Family::V6) => Field::Payload(1, 24, 16),
        }
    }

    fn of_field(field: Field) -> Option<Self> {
        use Family::{V4, V6};
        [
            Self::Port,
            Self::Source(V4),
            Self::Source(V6),
            Self::Destination(V4),
            Self::Destination(V6),
        ]
        .into_iter()
        .find(|key| key.field() == field)
    }

    /// What must be told before an address is looked at, in a table for both families.
    const fn protocol(self) -> Option<u8> {
        match self {
            Self::Port => None,
            Self::Source(Family::V4) | Self::Destination(Family::V4) => Some(IPV4),
            Self::Source(Family::V6) | Self::Destination(Family::V6) => Some(IPV6),
        }
    }
}

/// The expressions of a rule in a table of `family`; `set` is the set that holds its list, where it has one.
pub(super) fn write(rule: &Rule, set: Option<(Key, &str)>, family: TableFamily) -> Attributes {
    let mut list = Expressions::default();
    conditions(&mut list, &rule.matches, family);
    if let Some((key, name)) = set {
        // In a table for one family the question would be idle, and nft 1.0 cannot show a rule that asks it.
        if let Some(protocol) = key.protocol().filter(|_| family == TableFamily::Inet) {
            list.equals(NFPROTO, &[protocol]);
        }
        list.load(key.field());
        list.push("lookup", &Attributes::default().text(1, name).number(2, REG));
    }
    target(&mut list, rule.target, family);
    list.0
}

fn conditions(list: &mut Expressions, matches: &Matches, family: TableFamily) {
    if let Some(connection) = matches.connection {
        list.load(connection.field());
        list.push("bitwise", &bitwise(&connection.bits().to_ne_bytes()));
        list.push("cmp", &compare(UNEQUAL, &0_u32.to_ne_bytes()));
    }
    if let Some(uid) = matches.uid {
        list.equals(SKUID, &uid.to_ne_bytes());
    }
    if let Some(gid) = matches.gid {
        list.equals(SKGID, &gid.to_ne_bytes());
    }
    if matches.loopback {
        list.equals(OIFNAME, &LOOPBACK);
    }
    if matches.tcp {
        list.equals(L4PROTO, &[TCP]);
    }
    if let Some(port) = matches.udp_port {
        list.equals(L4PROTO, &[UDP]);
        list.equals(UDP_DPORT, &port.to_be_bytes());
    }
    if let Some(kind) = matches.icmpv6 {
        if family == TableFamily::Inet {
            list.equals(NFPROTO, &[IPV6]);
        }
        list.equals(L4PROTO, &[ICMPV6]);
        list.equals(ICMPV6_TYPE, &[kind]);
    }
    if matches.opening {
        list.load(TCP_FLAGS);
        list.push("bitwise", &bitwise(&[OPENING_MASK]));
        list.push("cmp", &compare(EQUAL, &[SYN]));
    }
}

fn target(list: &mut Expressions, target: Target, family: TableFamily) {
    match target {
        Target::Return => {
            let verdict = Attributes::default().nest(DATA_VERDICT, &Attributes::default().number(VERDICT_CODE, RETURN));
            list.push(
                "immediate",
                &Attributes::default().number(1, REG_VERDICT).nest(2, &verdict),
            );
        }
        Target::Redirect(port) => {
            list.push(
                "immediate",
                &Attributes::default()
                    .number(1, REG)
                    .nest(2, &value(&port.to_be_bytes())),
            );
            list.push("redir", &Attributes::default().number(1, REG));
        }
        Target::Reject => {
            let (kind, code) = family.rejection();
            list.push("reject", &Attributes::default().number(1, kind).bytes(2, &[code]));
        }
    }
}

#[derive(Default)]
struct Expressions(Attributes);

impl Expressions {
    fn push(&mut self, name: &str, data: &Attributes) {
        let expression = Attributes::default().text(EXPR_NAME, name).nest(EXPR_DATA, data);
        self.0 = std::mem::take(&mut self.0).nest(LIST_ELEM, &expression);
    }

    fn load(&mut self, field: Field) {
        match field {
            Field::Meta(key) => self.push("meta", &Attributes::default().number(1, REG).number(2, key)),
            Field::Connection(key) => self.push("ct", &Attributes::default().number(1, REG).number(2, key)),
            Field::Payload(base, offset, length) => {
                let data = Attributes::default()
                    .number(1, REG)
                    .number(2, base)
                    .number(3, offset)
                    .number(4, length);
                self.push("payload", &data);
            }
        }
    }

    fn equals(&mut self, field: Field, value: &[u8]) {
        self.load(field);
        self.push("cmp", &compare(EQUAL, value));
    }
}

fn value(bytes: &[u8]) -> Attributes {
    Attributes::default().bytes(DATA_VALUE, bytes)
}

fn compare(operator: u32, bytes: &[u8]) -> Attributes {
    let registers = Attributes::default().number(1, REG).number(2, operator);
    registers.nest(3, &value(bytes))
}

fn bitwise<const N: usize>(mask: &[u8; N]) -> Attributes {
    let registers = Attributes::default().number(1, REG).number(2, REG);
    registers
        .number(3, u32::try_from(N).unwrap_or(u32::MAX))
        .nest(4, &value(mask))
        .nest(5, &value(&[0; N]))
}

/// Reads the expressions of a rule back; `None` where they do what no rule of ours does.
pub(super) fn read(
    list: &[u8],
    family: TableFamily,
    sets: &BTreeMap<String, Vec<Element>>,
) -> Option<(Matches, Target)> {
    let mut rule = Reading {
        matches: Matches::default(),
        target: None,
        register: Register::Empty,
        protocol: None,
        transport: None,
        family,
        implied: (family == TableFamily::Ip).then_some(IPV4),
        sets,
    };
    for (kind, expression) in attributes(list) {
        if kind != LIST_ELEM || rule.target.is_some() {
            return None;
        }
        rule.step(text(expression, EXPR_NAME)?, attribute(expression, EXPR_DATA)?)?;
    }
    let asked = [rule.protocol, rule.protocol.or(rule.implied)];
    let fits = match (rule.transport, &rule.matches) {
        (None | Some(TCP), _) => true,
        (Some(UDP), matches) => matches.udp_port.is_some(),
        (Some(_), matches) => matches.icmpv6.is_some() && asked.contains(&Some(IPV6)),
    };
    Some((rule.matches, rule.target.filter(|_| fits)?))
}

struct Reading<'a> {
    matches: Matches,
    target: Option<Target>,
    register: Register,
    protocol: Option<u8>,
    transport: Option<u8>,
    family: TableFamily,
    /// The protocol of everything in a table for one family.
    implied: Option<u8>,
    sets: &'a BTreeMap<String, Vec<Element>>,
}

enum Register {
    Empty,
    Field(Field),
    /// The TCP flags under the mask.
    Flags,
    /// State or status of the connection under the mask.
    Connection(Connection),
    Port(u16),
}

impl Reading<'_> {
    fn step(&mut self, name: &str, data: &[u8]) -> Option<()> {
        match name {
            "meta" => self.register = Register::Field(Field::Meta(loaded(data, number(data, 2)?)?)),
            "ct" => self.register = Register::Field(Field::Connection(loaded(data, number(data, 2)?)?)),
            "reject" => {
                let (kind, code) = self.family.rejection();
                let ours = number(data, 1)? == kind && attribute(data, 2)? == [code];
                self.target = Some(ours.then_some(Target::Reject)?);
            }
            "payload" => {
                let field = Field::Payload(number(data, 2)?, number(data, 3)?, number(data, 4)?);
                self.register = Register::Field(loaded(data, field)?);
            }
            "bitwise" => self.mask(data)?,
            "cmp" => self.compare(data)?,
            "lookup" => self.lookup(data)?,
            "immediate" => self.immediate(data)?,
            "redir" => {
                let Register::Port(port) = self.register else {
                    return None;
                };
                self.target = Some(loaded(data, Target::Redirect(port))?);
            }
            _ => return None,
        }
        Some(())
    }

    fn mask(&mut self, data: &[u8]) -> Option<()> {
        let bytes = |kind| attribute(attribute(data, kind)?, DATA_VALUE);
        let (mask, xor) = (bytes(4)?, bytes(5)?);
        let Register::Field(field) = self.register else {
            return None;
        };
        let of = |connection: &Connection| connection.field() == field && mask == connection.bits().to_ne_bytes();
        self.register = match [Connection::Known, Connection::Redirected].into_iter().find(of) {
            Some(connection) => Register::Connection(connection),
            None => (field == TCP_FLAGS && mask == [OPENING_MASK]).then_some(Register::Flags)?,
        };
        xor.iter().all(|&byte| byte == 0).then_some(())
    }

    fn compare(&mut self, data: &[u8]) -> Option<()> {
        let bytes = attribute(attribute(data, 3)?, DATA_VALUE)?;
        let owner = || bytes.try_into().ok().map(u32::from_ne_bytes);
        let operator = number(data, 2)?;
        let unset = operator == UNEQUAL && bytes == 0_u32.to_ne_bytes();
        match self.register {
            _ if number(data, 1)? != REG => return None,
            Register::Connection(connection) if unset => self.matches.connection = Some(connection),
            _ if operator != EQUAL => return None,
            Register::Field(SKUID) => self.matches.uid = Some(owner()?),
            Register::Field(SKGID) => self.matches.gid = Some(owner()?),
            Register::Field(OIFNAME) if bytes == LOOPBACK => self.matches.loopback = true,
            Register::Field(L4PROTO) => {
                self.transport = Some(*bytes.first()?);
                self.matches.tcp = self.transport == Some(TCP);
            }
            Register::Field(UDP_DPORT) if self.transport == Some(UDP) => {
                self.matches.udp_port = Some(u16::from_be_bytes(bytes.try_into().ok()?));
            }
            Register::Field(ICMPV6_TYPE) if self.transport == Some(ICMPV6) => {
                self.matches.icmpv6 = Some(*bytes.first()?);
            }
            Register::Field(NFPROTO) => self.protocol = Some(*bytes.first()?),
            Register::Flags if bytes == [SYN] => self.matches.opening = true,
            Register::Field(_) | Register::Flags | Register::Connection(_) | Register::Empty | Register::Port(_) => {
                return None;
            }
        }
        self.register = Register::Empty;
        Some(())
    }

    fn lookup(&mut self, data: &[u8]) -> Option<()> {
        let Register::Field(field) = self.register else {
            return None;
        };
        // `NFTA_LOOKUP_FLAGS` 1 turns the question round.
        let inverted = number(data, 5).unwrap_or(0) != 0;
        let asked = |key: &Key| [self.protocol, self.protocol.or(self.implied)].contains(&key.protocol());
        let key = Key::of_field(field).filter(|key| asked(key) && !inverted)?;
        let elements = self.sets.get(text(data, 1)?)?;
        set::fill(&mut self.matches, key, elements.clone())
    }

    fn immediate(&mut self, data: &[u8]) -> Option<()> {
        let held = attribute(data, 2)?;
        if number(data, 1)? == REG_VERDICT {
            let verdict = number(attribute(held, DATA_VERDICT)?, VERDICT_CODE)?;
            return (verdict == RETURN).then(|| self.target = Some(Target::Return));
        }
        let port = attribute(held, DATA_VALUE)?.try_into().ok()?;
        self.register = Register::Port(u16::from_be_bytes(port));
        Some(())
    }
}

/// `what`, where the expression uses the register that every rule uses.
fn loaded<T>(data: &[u8], what: T) -> Option<T> {
    (number(data, 1)? == REG).then_some(what)
}
