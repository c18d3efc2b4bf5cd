//! Reads the table back from what the kernel lists.

use super::encode::{NEW_CHAIN, NEW_ELEMENTS, NEW_RULE, list_elements, list_rules, read_element};
use super::netlink::{MessageKind, attribute, attributes, number, text};
use super::set::Element;
use super::{Chain, TABLE, Table, TableFamily, expression};
use crate::redirect::rules::{Rule, RuleSet};
use std::collections::{BTreeMap, BTreeSet};

/// What the kernel has listed of our table so far.
///
/// Begin with [`list_chains`](super::list_chains), then ask what [`Listing::next_requests`] says until it says nothing.
#[derive(Debug, Default)]
pub struct Listing {
    asked: Asked,
    chains: BTreeMap<(TableFamily, String), bool>,
    rules: Vec<(TableFamily, ListedRule)>,
    sets: BTreeMap<String, Vec<Element>>,
}

/// How far the asking has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Chains,
    Rules,
    Elements,
}

#[derive(Debug)]
struct ListedRule {
    chain: String,
    expressions: Vec<u8>,
    comment: String,
}

/// A table of ours that does what none of ours does: something else has changed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There are tables of ours in two families.
    #[error("table {TABLE} is there twice, for inet and for ip")]
    Twice,
    /// A chain that is not ours, or that hangs elsewhere.
    #[error("chain {0:?} of table {TABLE} is not one that was written here")]
    Chain(String),
    /// A rule that is not ours.
    #[error("rule {index} of chain {chain:?} of table {TABLE} is not one that was written here")]
    Rule {
        /// The chain.
        chain: String,
        /// Its position in the chain, from 1.
        index: usize,
    },
}

impl Listing {
    /// Takes one object of a listing; objects of other tables are left out.
    pub fn take(&mut self, message: MessageKind<'_>) {
        let MessageKind::Object(kind, family, object) = message else {
            return;
        };
        let Some(family) = TableFamily::from_number(family).filter(|_| text(object, 1) == Some(TABLE)) else {
            return;
        };
        match kind {
            NEW_CHAIN => {
                let name = text(object, 3).unwrap_or_default().to_owned();
                let ours = is_base_chain(&name, object);
                self.chains.insert((family, name), ours);
            }
            NEW_RULE => self.rules.extend(ListedRule::read(object).map(|rule| (family, rule))),
            NEW_ELEMENTS => {
                let set = self
                    .sets
                    .entry(text(object, 2).unwrap_or_default().to_owned())
                    .or_default();
                let list = attribute(object, 3).unwrap_or_default();
                set.extend(attributes(list).filter_map(|(_, element)| read_element(element)));
            }
            _ => {}
        }
    }

    /// What to ask next, once everything that was asked before has been taken; nothing when the listing is whole.
    pub fn next_requests(&mut self) -> Vec<Vec<u8>> {
        match self.asked {
            Asked::Chains => {
                self.asked = Asked::Rules;
                self.families().into_iter().map(list_rules).collect()
            }
            Asked::Rules => {
                self.asked = Asked::Elements;
                self.sets()
                    .iter()
                    .map(|(family, set)| list_elements(*family, set))
                    .collect()
            }
            Asked::Elements => Vec::new(),
        }
    }

    /// The families in which there is a table of ours.
    pub(super) fn families(&self) -> BTreeSet<TableFamily> {
        self.chains.keys().map(|(family, _)| *family).collect()
    }

    /// The sets that the listed rules ask, with the family of their table.
    pub(super) fn sets(&self) -> BTreeSet<(TableFamily, String)> {
        let names = |rule: &ListedRule| -> Vec<String> {
            let data = |item| attribute(item, 2).and_then(|data| text(data, 1)).map(str::to_owned);
            let lookups = attributes(&rule.expressions).filter(|(_, item)| text(item, 1) == Some("lookup"));
            lookups.filter_map(|(_, item)| data(item)).collect()
        };
        self.rules
            .iter()
            .flat_map(|(family, rule)| names(rule).into_iter().map(|name| (*family, name)))
            .collect()
    }

    /// The table; `None` where there is none.
    ///
    /// # Errors
    /// Where it does what no table of ours does.
    pub fn table(&self) -> Result<Option<Table>, DecodeError> {
        let families = self.families();
        let Some(&family) = families.first() else {
            return Ok(None);
        };
        if families.len() > 1 {
            return Err(DecodeError::Twice);
        }
        if let Some(((_, name), _)) = self.chains.iter().find(|(_, ours)| !**ours) {
            return Err(DecodeError::Chain(name.clone()));
        }
        let rules = RuleSet {
            inbound: self.chain(Chain::Prerouting)?,
            outbound: self.chain(Chain::Output)?,
            fence: self.chain(Chain::Fence)?,
        };
        Ok(Some(Table { family, rules }))
    }

    fn chain(&self, chain: Chain) -> Result<Vec<Rule>, DecodeError> {
        let listed = self.rules.iter().filter(|(_, rule)| rule.chain == chain.name());
        let read = |(index, (family, rule)): (usize, &(TableFamily, ListedRule))| {
            let error = || DecodeError::Rule {
                chain: rule.chain.clone(),
                index: index + 1,
            };
            let (matches, target) = expression::read(&rule.expressions, *family, &self.sets).ok_or_else(error)?;
            Ok(Rule {
                matches,
                target,
                comment: rule.comment.clone(),
            })
        };
        listed.enumerate().map(read).collect()
    }
}

impl ListedRule {
    fn read(object: &[u8]) -> Option<Self> {
        let chain = text(object, 2)?.to_owned();
        let expressions = attribute(object, 4).unwrap_or_default().to_vec();
        let comment = match attribute(object, 7) {
            Some([0, _, text @ ..]) => String::from_utf8_lossy(text).trim_end_matches('\0').to_owned(),
            Some(_) | None => String::new(),
        };
        Some(Self {
            chain,
            expressions,
            comment,
        })
    }
}

fn is_base_chain(name: &str, object: &[u8]) -> bool {
    let hook = attribute(object, 4).unwrap_or_default();
    Chain::from_name(name).is_some_and(|chain| {
        number(hook, 1) == Some(chain.hook())
            && number(hook, 2).is_some_and(|priority| priority.to_be_bytes() == chain.priority().to_be_bytes())
            && text(object, 7) == Some(chain.kind())
    })
}
