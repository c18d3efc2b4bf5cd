//! The messages that make, replace, remove and list the table.

use super::netlink::{Attributes, Batch, dump_request};
use super::set::{self, Element, Key};
use super::{Chain, TABLE, Table, TableFamily, expression};
use crate::redirect::rules::Rule;

/// `NFT_MSG_*`.
pub(super) const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
pub(super) const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
pub(super) const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const NEW_SET: u16 = 9;
pub(super) const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;

/// `NLM_F_EXCL`, `NLM_F_CREATE` and `NLM_F_APPEND`.
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// `NFT_SET_INTERVAL` and `NFT_SET_ELEM_INTERVAL_END`.
const SET_INTERVAL: u32 = 0x4;
const INTERVAL_END: u32 = 0x1;
/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// Elements in one message: their list is one attribute, whose length has 16 bits.
const ELEMENTS_A_MESSAGE: usize = 1000;
/// The longest comment that nft shows (`NFTNL_UDATA_COMMENT_MAXLEN`).
const COMMENT_LIMIT: usize = 127;

/// The batch that makes `table` where there is none of ours; the kernel refuses it where there is one of its family.
///
/// Cheaper than [`replace`]: the kernel lets no batch that deletes return before every processor has seen it.
pub fn create(table: &Table) -> Batch {
    let mut batch = Batch::begin();
    push_table(&mut batch, table, CREATE | EXCLUSIVE);
    batch
}

/// The batch that puts `table` in the place of whatever table of ours is there, in either family.
pub fn replace(table: &Table) -> Batch {
    let mut batch = remove();
    push_table(&mut batch, table, CREATE);
    batch
}

fn push_table(batch: &mut Batch, table: &Table, flags: u16) {
    let family = table.family.number();
    batch.push(NEW_TABLE, flags, family, &named(1));
    for chain in Chain::ALL {
        let Some(rules) = chain.rules(&table.rules) else {
            continue;
        };
        batch.push(NEW_CHAIN, CREATE, family, &base_chain(chain));
        for (index, rule) in rules.iter().enumerate() {
            let name = chain.set_name(index);
            let set = set::of(&rule.matches);
            if let Some((key, elements)) = &set {
                push_set(batch, family, (&name, *key), elements);
            }
            let set = set.map(|(key, _)| (key, name.as_str()));
            let attributes = rule_attributes(chain, (rule, table.family), set);
            batch.push(NEW_RULE, CREATE | APPEND, family, &attributes);
        }
    }
}

/// The batch that takes our table away, in either family and whether it is there or not.
pub fn remove() -> Batch {
    let mut batch = Batch::begin();
    for family in TableFamily::ALL {
        // Deleting a table that is not there is an error; making one that is there is none.
        batch.push(NEW_TABLE, CREATE, family.number(), &named(1));
        batch.push(DELETE_TABLE, 0, family.number(), &named(1));
    }
    batch
}

/// The request for every chain, of every family and table.
pub fn list_chains() -> Vec<u8> {
    dump_request(GET_CHAIN, 0, &Attributes::default())
}

/// The request for the rules of our table.
pub(super) fn list_rules(family: TableFamily) -> Vec<u8> {
    dump_request(GET_RULE, family.number(), &named(1))
}

/// The request for the elements of one set of our table.
pub(super) fn list_elements(family: TableFamily, set: &str) -> Vec<u8> {
    dump_request(GET_ELEMENTS, family.number(), &named(1).text(2, set))
}

fn named(kind: u16) -> Attributes {
    Attributes::default().text(kind, TABLE)
}

fn base_chain(chain: Chain) -> Attributes {
    let hook = Attributes::default()
        .number(1, chain.hook())
        .bytes(2, &chain.priority().to_be_bytes());
    named(1)
        .text(3, chain.name())
        .nest(4, &hook)
        .number(5, ACCEPT)
        .text(7, chain.kind())
}

fn rule_attributes(chain: Chain, (rule, family): (&Rule, TableFamily), set: Option<(Key, &str)>) -> Attributes {
    let attributes = named(1)
        .text(2, chain.name())
        .nest(4, &expression::write(rule, set, family));
    attributes.bytes(7, &comment(&rule.comment))
}

/// A comment as nft keeps it in a rule's user data: type 0, length, text that ends with NUL.
fn comment(text: &str) -> Vec<u8> {
    let text = text.get(..COMMENT_LIMIT).unwrap_or(text);
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    let mut bytes = vec![0, length];
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes
}

fn push_set(batch: &mut Batch, family: u8, (name, key): (&str, Key), elements: &[Element]) {
    // The kernel wants an identifier that is unique within the batch, and finds the set by its name all the same.
    let identifier = batch.next_identifier();
    let attributes = named(1)
        .text(2, name)
        .number(3, SET_INTERVAL)
        .number(4, key.type_number())
        .number(5, key.length().into())
        .number(10, identifier);
    batch.push(NEW_SET, CREATE, family, &attributes);
    for part in elements.chunks(ELEMENTS_A_MESSAGE) {
        let list = part.iter().fold(Attributes::default(), |list, &element| {
            list.nest(1, &element_attributes(key, element))
        });
        batch.push(NEW_ELEMENTS, CREATE, family, &named(1).text(2, name).nest(3, &list));
    }
}

fn element_attributes(key: Key, (value, ends): Element) -> Attributes {
    let bytes = value.to_be_bytes();
    let (_, bytes) = bytes.split_at(bytes.len().saturating_sub(key.length().into()));
    let element = Attributes::default().nest(1, &Attributes::default().bytes(1, bytes));
    if ends { element.number(3, INTERVAL_END) } else { element }
}

/// An element as [`element_attributes`] writes it, read back.
pub(super) fn read_element(attributes: &[u8]) -> Option<Element> {
    use super::netlink::{attribute, number};
    let bytes = attribute(attribute(attributes, 1)?, 1)?;
    let value = (bytes.len() <= 16).then(|| bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)))?;
    Some((value, number(attributes, 3).unwrap_or(0) & INTERVAL_END != 0))
}
