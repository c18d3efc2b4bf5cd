//! `docs/troubleshooting.md` and the other pages know every code and message of the product, and no others.

use crate::codes;
use crate::pages::{files, read, spans, tables};
use crate::sources;
use std::collections::BTreeSet;

const PAGE: &str = "docs/troubleshooting.md";

/// Pages that are generated from the same lists: that a code is in them proves nothing.
const GENERATED: &str = "docs/reference/";

/// Heads of columns in which everything in back quotes is said by the product.
const SAID: [&str; 4] = ["code", "event", "reason", "words"];

/// The text of all pages that people wrote, with single blanks.
fn pages() -> String {
    let written = files("docs", ".md")
        .into_iter()
        .filter(|path| !path.starts_with(GENERATED));
    let text: Vec<_> = written.map(|path| read(&path).replace("\\|", "|")).collect();
    text.join("\n").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_code_is_explained() {
    let pages = pages();
    let codes = codes::all();
    assert!(codes.len() > 150, "{}", codes.len());
    let is_explained = |code: &&codes::Code| match code.word.parse::<u32>() {
        // Numbers begin a row of a table.
        Ok(number) => pages.contains(&format!("| {number} |")) || pages.contains(&format!("; {number}: ")),
        Err(_) => pages.contains(&format!("`{}`", code.word)),
    };
    let missing: Vec<_> = codes.iter().filter(|code| !is_explained(code)).collect();
    assert!(missing.is_empty(), "no page of docs/ explains {missing:#?}");
}

#[test]
fn every_message_is_found() {
    let pages = pages();
    let mut messages = sources::messages();
    assert!(messages.len() > 100, "{messages:?}");
    let of_charts = sources::messages_of_charts();
    assert!(of_charts.len() > 2, "{of_charts:?}");
    messages.extend(of_charts);
    let normal = |piece: &str| piece.split_whitespace().collect::<Vec<_>>().join(" ");
    let missing: Vec<_> = messages
        .iter()
        .filter(|(piece, _)| !pages.contains(&normal(piece)))
        .map(|(piece, path)| format!("{path}: {piece}"))
        .collect();
    assert!(missing.is_empty(), "no page of docs/ has\n{}", missing.join("\n"));
}

#[test]
fn it_names_what_the_product_says_and_nothing_else() {
    let everything = sources::everything();
    let codes: BTreeSet<_> = codes::all().into_iter().map(|code| code.word).collect();
    let mut seen = 0;
    let mut faults = Vec::new();
    for table in tables(&read(PAGE)) {
        let is_said = |head: &String| SAID.iter().any(|word| head.split([' ', ',']).any(|it| it == *word));
        let columns: Vec<_> = table.head.iter().map(is_said).collect();
        for row in &table.rows {
            for (cell, _) in row.iter().zip(&columns).filter(|(_, said)| **said) {
                for span in spans(cell) {
                    seen += 1;
                    let mut pieces = span.split('…').map(str::trim).filter(|piece| piece.len() > 2);
                    if !codes.contains(&span) && !pieces.all(|piece| everything.contains(piece)) {
                        faults.push(format!("{}: {span}", table.heading));
                    }
                }
            }
        }
    }
    assert!(seen > 200, "{seen}");
    assert!(faults.is_empty(), "nothing says\n{}", faults.join("\n"));
}

/// The tables of codes explain those that there are.
#[test]
fn tables_of_codes_have_no_others() {
    let codes: BTreeSet<_> = codes::all().into_iter().map(|code| code.word).collect();
    let mut seen = 0;
    for page in ["docs/check.md", "docs/cni.md", "docs/decision.md"] {
        for table in tables(&read(page)).iter().filter(|table| table.head[0] == "code") {
            for row in &table.rows {
                let word = row[0].trim_matches('`');
                assert!(codes.contains(word), "{page} explains {word}, which is no code");
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}
