//! The table of what changes for workloads: one by one, or what many have in common.

use super::WORKLOADS;
use crate::cli::check::rules::takeover::change::{Change, Fate};
use crate::cli::paint::{Paint, Tone};
use crate::cli::table::Table;
use std::collections::BTreeMap;

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
    let mut groups: BTreeMap<Common<'_>, (usize, Tone)> = BTreeMap::new();
    for change in changes {
        groups.entry(common(change)).or_insert_with(|| (0, tone(change))).0 += 1;
    }
    let mut table = Table::new(&["WORKLOADS", "TODAY", "THEN", "REASON"]);
    for (common, (number, tone)) in groups {
        let row = common.into_iter().map(str::to_owned);
        table.add([number.to_string()].into_iter().chain(row).collect(), tone);
    }
    table
}
