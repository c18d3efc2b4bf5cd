//! Netlink messages and attributes as bytes: written in order, read without trust.

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
/// `NFNL_MSG_BATCH_BEGIN` and `NFNL_MSG_BATCH_END`.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACK: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
/// `NLM_F_DUMP_INTR`: the tables changed while they were being listed.
const FLAG_INTERRUPTED: u16 = 0x10;

/// `NLA_F_NESTED`; with `NLA_F_NET_BYTEORDER` above the bits of the attribute's type.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// `sizeof(struct nlmsghdr)`; an `nfgenmsg` of four bytes follows it.
const HEADER: usize = 16;
const FAMILY_HEADER: usize = 4;

/// Attributes being written.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        self.push(kind, value);
        self
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        let mut value = value.as_bytes().to_vec();
        value.push(0);
        self.bytes(kind, &value)
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(super) fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        // Nothing that is written here comes near the limit: texts are short, and lists are cut by their writers.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        pad(&mut self.0);
    }
}

/// Messages that the kernel takes in one transaction: all of them or none.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    last: usize,
}

impl Batch {
    pub(super) fn begin() -> Self {
        let mut batch = Self {
            bytes: Vec::new(),
            sequence: 0,
            last: 0,
        };
        batch.write(BATCH_BEGIN, FLAG_REQUEST, (0, SUBSYSTEM), &Attributes::default());
        batch
    }

    pub(super) fn push(&mut self, kind: u16, flags: u16, family: u8, attributes: &Attributes) {
        self.last = self.bytes.len();
        self.write(SUBSYSTEM << 8 | kind, FLAG_REQUEST | flags, (family, 0), attributes);
    }

    /// A number that no other message of the batch has.
    pub(super) fn next_identifier(&self) -> u32 {
        self.sequence + 1
    }

    /// The bytes to send, and the sequence number of the message whose acknowledgement ends the transaction.
    pub fn finish(mut self) -> (Vec<u8>, u32) {
        let acknowledged = self.sequence;
        let flags = self.last + 6..self.last + 8;
        if let Some(flags) = self.bytes.get_mut(flags) {
            let [low, high] = FLAG_ACK.to_ne_bytes();
            flags.iter_mut().zip([low, high]).for_each(|(byte, bit)| *byte |= bit);
        }
        self.write(BATCH_END, FLAG_REQUEST, (0, SUBSYSTEM), &Attributes::default());
        (self.bytes, acknowledged)
    }

    fn write(&mut self, kind: u16, flags: u16, family: (u8, u16), attributes: &Attributes) {
        self.sequence += 1;
        write(&mut self.bytes, (kind, flags, self.sequence), family, attributes);
    }
}

/// A request for a listing.
pub(super) fn dump_request(kind: u16, family: u8, attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(
        &mut bytes,
        (SUBSYSTEM << 8 | kind, FLAG_REQUEST | FLAG_DUMP, 1),
        (family, 0),
        attributes,
    );
    bytes
}

/// One message; `family` is the `nfgenmsg`: the family, and the resource that it is about.
fn write(bytes: &mut Vec<u8>, (kind, flags, sequence): (u16, u16, u32), family: (u8, u16), attributes: &Attributes) {
    let length = u32::try_from(HEADER + FAMILY_HEADER + attributes.0.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The port of the sender: the kernel fills it in.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([family.0, 0]);
    bytes.extend(family.1.to_be_bytes());
    bytes.extend(&attributes.0);
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A message that the kernel sent.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The sequence number of the request that it answers.
    pub sequence: u32,
    /// What it says.
    pub kind: MessageKind<'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub enum MessageKind<'a> {
    /// The outcome of a request: 0, or the error's number.
    Outcome(i32),
    /// The end of a listing: 0, or the error's number.
    Done(i32),
    /// The listing is no longer true of one moment and must be asked for again; whether it ends here.
    Interrupted(bool),
    /// An object of nftables: the low byte of its type, its family, and its attributes.
    Object(u16, u8, &'a [u8]),
}

/// Reads a datagram; what is cut short or of another subsystem is left out.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
        let message = rest.get(..length).filter(|message| message.len() >= HEADER)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
    .filter_map(message)
}

fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let (header, body) = bytes.split_first_chunk::<HEADER>()?;
    let [_, _, _, _, kind0, kind1, flags0, flags1, sequence @ ..] = *header;
    let kind = u16::from_ne_bytes([kind0, kind1]);
    let flags = u16::from_ne_bytes([flags0, flags1]);
    let sequence = u32::from_ne_bytes(*sequence.first_chunk()?);
    let outcome = || {
        body.first_chunk()
            .map_or(0, |bytes| i32::from_ne_bytes(*bytes).saturating_neg())
    };
    let kind = match kind {
        ERROR => MessageKind::Outcome(outcome()),
        _ if flags & FLAG_INTERRUPTED != 0 => MessageKind::Interrupted(kind == DONE),
        DONE => MessageKind::Done(outcome()),
        _ if kind >> 8 == SUBSYSTEM => {
            let (family, attributes) = body.split_first_chunk::<FAMILY_HEADER>()?;
            MessageKind::Object(kind & 0xff, *family.first()?, attributes)
        }
        _ => return None,
    };
    Some(Message { sequence, kind })
}

/// The attributes in `bytes`, with their types; what is cut short is left out.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [length0, length1, kind0, kind1] = *rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([length0, length1]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([kind0, kind1]) & TYPE_MASK, value))
    })
}

/// The value of the attribute of one type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|&(found, _)| found == kind)
        .map(|(_, value)| value)
}

/// The number in the attribute of one type.
pub(super) fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    attribute(bytes, kind)?
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// The text in the attribute of one type.
pub(super) fn text(bytes: &[u8], kind: u16) -> Option<&str> {
    std::str::from_utf8(attribute(bytes, kind)?)
        .ok()
        .map(|text| text.trim_end_matches('\0'))
}
