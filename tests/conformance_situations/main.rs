//! What people met with injectors, CNI plugins and admission policy, told as manifests with what is right: each is given
//! to `outrigger explain`, and what it answers is held against the `# expect:` lines.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed expectation is how a test fails; the cases are files and the program is started"
)]

#[path = "../conformance/folder.rs"]
mod folder;

mod answer;
mod facts;
mod situation;

use answer::Answers;
use situation::{Expectation, Situation};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Situations that are not all right yet, with what they wait for. One that comes right must leave the table.
const LATER: [(&str, &str); 2] = [
    (
        "22-failure-policy-deadlock",
        "the chart's webhook configuration before a real API server",
    ),
    ("24-cni-plugin-without-api", "the CNI plugin on a real node"),
];

/// Keys that only an API server or a node can answer.
const ELSEWHERE: [&str; 8] = [
    "event",
    "webhook_called",
    "admitted",
    "blocked",
    "since",
    "add",
    "rules",
    "max_seconds",
];

/// Keys that say which question is asked.
const ADDRESS: [&str; 2] = ["variant", "workload"];

#[test]
fn situations_end_as_they_should() {
    let Some(folder) = folder::conformance() else { return };
    let (mut held, mut elsewhere, mut wrong, mut later) = (0, BTreeMap::new(), Vec::new(), BTreeMap::new());
    for path in files(&folder.join("situations")) {
        let situation = Situation::read(&path);
        let answers = Answers::default();
        let (mut all, mut faults) = (0, Vec::new());
        for expectation in &situation.expectations {
            let (checked, found) = check(&situation, expectation, &answers);
            all += checked;
            faults.extend(found);
            for key in expectation.keys().filter(|key| ELSEWHERE.contains(key)) {
                *elsewhere.entry(key.to_owned()).or_insert(0) += 1;
            }
        }
        held += all - faults.len();
        match LATER.iter().find(|(name, _)| *name == situation.name) {
            Some((name, reason)) if all == 0 || !faults.is_empty() => drop(later.insert(*name, (*reason, faults))),
            Some((name, _)) => wrong.push(format!("{name} is right: take it out of the table of later ones")),
            None => wrong.extend(faults),
        }
    }
    println!("situations: {held} facts hold; for an API server or a node: {elsewhere:?}");
    for (name, (reason, faults)) in &later {
        println!("later: {name}, for {reason}; explain is wrong in {}:", faults.len());
        println!("  {}", faults.join("\n  "));
    }
    assert!(held > 0, "{} holds no situation", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    paths.sort();
    paths
}

/// How many facts of `expectation` were looked at, and those that do not hold.
fn check(situation: &Situation, expectation: &Expectation, answers: &Answers) -> (usize, Vec<String>) {
    let checkable: Vec<_> = expectation
        .keys()
        .filter(|key| !ELSEWHERE.contains(key) && !ADDRESS.contains(key))
        .collect();
    if checkable.is_empty() {
        return (0, Vec::new());
    }
    let answer = answers.find(situation, expectation);
    let faults = checkable.iter().filter_map(|key| {
        let expected = expectation.value(key);
        let found = facts::fault(key, expected, answer.as_ref())?;
        Some(format!(
            "{}: {}: {key} {expected}: {found}",
            situation.name, expectation
        ))
    });
    (checkable.len(), faults.collect())
}
