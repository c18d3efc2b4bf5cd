//! The table of what changes for workloads: one by one, or what many have in common.

use super::{WORKLOADS, places};
use crate::cli::check::rules::takeover::change::{Change, Fate};
use crate::cli::paint::{Paint, Tone};
use crate::cli::table::Table;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a pod today, what then, and why.
type Common<'a> = [&'a str; 3];

/// The table; nothing where nothing changes.
pub(super) fn table(changes: &[Change], paint: Paint) -> String {
    let table = match changes.len() {
        0 => return String::new(),
        1..=WORKLOADS => single(changes),
        _ => grouped(changes),
    };
    table.render(paint, "  ")
}

fn common(change: &Change) -> Common<'_> {
    [change.today.word(), change.then.word(), change.reason]
}

fn tone(change: &Change) -> Tone {
    if change.then == Fate::Refused {
        Tone::Red
    } else {
        Tone::Plain
    }
}

fn single(changes: &[Change]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "WORKLOAD", "TODAY", "THEN", "REASON"]);
    for change in changes {
        let own = [change.namespace.as_str(), &change.workload];
        let row = own.into_iter().chain(common(change)).map(str::to_owned);
        table.add(row.collect(), tone(change));
    }
    table
}

fn grouped(changes: &[Change]) -> Table {
    let mut groups: BTreeMap<Common<'_>, (BTreeSet<&str>, usize, Tone)> = BTreeMap::new();
    for change in changes {
        let of = || (BTreeSet::new(), 0, tone(change));
        let (namespaces, number, _) = groups.entry(common(change)).or_insert_with(of);
        namespaces.insert(&change.namespace);
        *number += 1;
    }
    let mut table = Table::new(&["WORKLOADS", "NAMESPACES", "TODAY", "THEN", "REASON"]);
    for (common, (namespaces, number, tone)) in groups {
        let own = [number.to_string(), places(&namespaces)];
        table.add(own.into_iter().chain(common.map(str::to_owned)).collect(), tone);
    }
    table
}
