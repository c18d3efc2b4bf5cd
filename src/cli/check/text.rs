//! The answer for people, as `linkerd check` prints its own: sections, a sign a line, and what to do.

mod changes;

use super::Answer;
use super::code::Section;
use super::finding::{Finding, Status};
use super::rules::workloads::Judged;
use crate::cli::paint::{Paint, Tone};
use crate::cli::table::Table;
use std::collections::{BTreeMap, BTreeSet};

/// How many lines are said of single objects; JSON has them all.
const DETAILS: usize = 10;

/// How many workloads have a line of their own; more are counted.
const WORKLOADS: usize = 20;

/// The whole answer.
pub(super) fn render(answer: &Answer, paint: Paint) -> String {
    let mut text = String::new();
    let mut section = None;
    for finding in &answer.findings {
        let own = finding.code.section();
        if section != Some(own) {
            close(&mut text, section, answer, paint);
            let title = own.word();
            text.push_str(&paint.line(title, Tone::Bold));
            text.push_str(&paint.line(&"-".repeat(title.len()), Tone::Plain));
            section = Some(own);
        }
        tell(&mut text, finding, paint);
    }
    close(&mut text, section, answer, paint);
    let (sign, tone) = sign(answer.status());
    text + &paint.line(&format!("Status check results are {sign}"), tone)
}

/// Ends a section; those of workloads and of what changes for them with a table.
fn close(text: &mut String, section: Option<Section>, answer: &Answer, paint: Paint) {
    let Some(section) = section else {
        return;
    };
    if section == Section::Workloads {
        text.push_str(&table(&answer.workloads, paint));
    } else if section == Section::Takeover {
        text.push_str(&changes::table(answer.changes.as_deref().unwrap_or_default(), paint));
    }
    text.push('\n');
}

fn tell(text: &mut String, finding: &Finding, paint: Paint) {
    let (sign, tone) = sign(finding.status);
    let Finding { code, message, .. } = finding;
    if finding.status == Status::Ok {
        text.push_str(&paint.line(&format!("{sign} {message}"), tone));
        return;
    }
    text.push_str(&paint.line(&format!("{sign} {message} ({})", code.word()), tone));
    for line in finding.details.iter().take(DETAILS) {
        text.push_str(&paint.line(&format!("    {line}"), Tone::Plain));
    }
    if finding.details.len() > DETAILS {
        let more = finding.details.len() - DETAILS;
        text.push_str(&paint.line(&format!("    and {more} more, all of them with -o json"), Tone::Plain));
    }
    if !finding.hint.is_empty() {
        text.push_str(&paint.line(&format!("    hint: {}", finding.hint), Tone::Plain));
    }
}

fn sign(status: Status) -> (&'static str, Tone) {
    match status {
        Status::Ok => ("√", Tone::Green),
        Status::Unknown => ("?", Tone::Yellow),
        Status::Warning => ("‼", Tone::Yellow),
        Status::Failed => ("×", Tone::Red),
    }
}

/// Workloads that ask for the mesh: one by one, or what many have in common.
fn table(workloads: &[Judged], paint: Paint) -> String {
    let asking: Vec<_> = workloads.iter().filter(|it| it.asked).collect();
    let table = match asking.len() {
        0 => return String::new(),
        1..=WORKLOADS => single(&asking),
        _ => grouped(&asking),
    };
    table.render(paint, "  ")
}

/// What a group of workloads has in common.
fn common(workload: &Judged) -> [String; 6] {
    [
        workload.outcome,
        workload.redirection.word(),
        if workload.refused { "no" } else { "yes" },
        workload.policy.as_str(),
        workload.learned_from,
        workload.reason,
    ]
    .map(str::to_owned)
}

const COMMON: [&str; 6] = ["OUTCOME", "REDIRECTION", "ADMITTED", "POLICY", "LEARNED FROM", "REASON"];

fn tone(admitted: &str) -> Tone {
    if admitted == "no" { Tone::Red } else { Tone::Plain }
}

fn single(workloads: &[&Judged]) -> Table {
    let mut table = Table::new(&[&["NAMESPACE", "WORKLOAD"][..], &COMMON].concat());
    for workload in workloads {
        let common = common(workload);
        let [_, _, admitted, ..] = &common;
        let tone = tone(admitted);
        let own = [workload.namespace.clone(), workload.workload.clone()];
        table.add(own.into_iter().chain(common).collect(), tone);
    }
    table
}

fn grouped(workloads: &[&Judged]) -> Table {
    let mut groups: BTreeMap<[String; 6], (BTreeSet<&str>, usize)> = BTreeMap::new();
    for workload in workloads {
        let (namespaces, number) = groups.entry(common(workload)).or_default();
        namespaces.insert(&workload.namespace);
        *number += 1;
    }
    let mut table = Table::new(&[&["WORKLOADS", "NAMESPACES"][..], &COMMON].concat());
    for (common, (namespaces, number)) in groups {
        let [_, _, admitted, ..] = &common;
        let tone = tone(admitted);
        let own = [number.to_string(), places(&namespaces)];
        table.add(own.into_iter().chain(common).collect(), tone);
    }
    table
}

/// The first of several namespaces, and how many more there are.
fn places(namespaces: &BTreeSet<&str>) -> String {
    let first = namespaces.first().copied().unwrap_or_default();
    match namespaces.len() {
        0 | 1 => first.to_owned(),
        number => format!("{first} and {} more", number - 1),
    }
}
