//! The examples of `docs/egress.md` and `docs/egress-gateway.md`.

use std::fs;
use std::process::{Command, Output};

use outrigger::egress::record::Record;
use tempfile::TempDir;

/// The first block of `docs/egress.md` in `language`.
fn block(language: &str) -> String {
    block_of(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/egress.md"), language)
}

/// The first block of a document in `language`.
fn block_of(document: &str, language: &str) -> String {
    let document = fs::read_to_string(document).unwrap();
    let (_, rest) = document
        .split_once(&format!("```{language}\n"))
        .expect("there is a block");
    rest.split_once("```").expect("it ends").0.to_owned()
}

/// Runs the program in `folder` with the words of `line`, a command of the document, as far as it is ours.
fn run(folder: &TempDir, line: &str) -> Output {
    let ours = line.split('|').next().unwrap();
    let words = ours.split_whitespace().skip(1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command
        .args(words)
        .current_dir(folder.path())
        .output()
        .expect("the program runs")
}

#[test]
fn the_commands_do_what_is_said() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("github.yaml"), block("yaml")).unwrap();
    let commands = block("sh");
    let outputs: Vec<_> = commands.lines().map(|line| run(&folder, line)).collect();
    assert_eq!(outputs.len(), 2);
    for output in &outputs {
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(String::from_utf8_lossy(&outputs[0].stdout).contains("allowed: a policy lists it"));
    assert!(String::from_utf8_lossy(&outputs[1].stdout).contains("kind: TLSRoute"));
}

#[test]
fn the_line_of_a_log_is_one() {
    let line = block("json");
    let record: Record = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), line.trim());
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("decisions.jsonl"), line).unwrap();
    let output = run(&folder, "outrigger egress observe -f decisions.jsonl");
    assert!(String::from_utf8_lossy(&output.stdout).contains("- api.github.com"));
}

#[test]
fn the_gateway_is_installed_as_is_said() {
    let block = block_of(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/egress-gateway.md"), "sh");
    let program = env!("CARGO_BIN_EXE_outrigger");
    let script = format!("set -e; outrigger() {{ {program} \"$@\"; }}; kubectl() {{ cat; }}; {block}");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("command: [/outrigger-egress-gateway]") && printed.contains("--cluster-network=10.244.0.0/16")
    );
}
