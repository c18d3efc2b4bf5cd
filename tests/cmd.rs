//! The transcripts of the command line in `tests/cmd`, which are its documentation as well.
#![expect(
    clippy::disallowed_methods,
    reason = "a test runs the program and reads the document"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

#[test]
fn transcripts_are_true() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}

/// A transcript has no standard input, and takes every backslash for a slash.
#[test]
fn the_questions_of_the_policy_transcript_have_these_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/policy.in");
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["policy", "evaluate", "--json-lines", "--server-version", "1.24"])
        .stdin(File::open(folder.join("questions.jsonl")).unwrap())
        .output()
        .unwrap();
    let answers = fs::read_to_string(folder.join("answers.jsonl")).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), answers);
    // The last question cannot be answered.
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_readme_lists_every_command_in_the_words_of_its_help() {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let listed = help.lines().filter_map(|line| line.strip_prefix("  "));
    let mut commands: BTreeMap<_, _> = listed
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once("  "))
        .map(|(name, about)| (name.to_owned(), about.trim().to_owned()))
        .collect();
    for everywhere in ["help", "version"] {
        commands.remove(everywhere).unwrap();
    }
    assert!(
        commands.contains_key("explain") && commands.contains_key("proxy-init"),
        "{help}"
    );
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let rows = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `outrigger ")?.split_once("` | "));
    let shown: BTreeMap<_, _> = rows
        .map(|(command, about)| {
            let name = command.split(' ').next().unwrap_or_default();
            (name.to_owned(), about.trim_end_matches(" |").to_owned())
        })
        .collect();
    assert_eq!(shown, commands);
}
