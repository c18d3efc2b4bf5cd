//! The README shows what `make demo` prints.
#![expect(
    clippy::disallowed_methods,
    reason = "a test runs the program and reads the document"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_readme_shows_the_demonstration() {
    let program = Path::new(env!("CARGO_BIN_EXE_outrigger"))
        .with_file_name("examples")
        .join("demo");
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let shown = readme
        .split("<!-- demo -->\n```\n")
        .nth(1)
        .unwrap()
        .split("```\n")
        .next()
        .unwrap();
    assert!(
        printed.ends_with(shown),
        "the README shows\n{shown}\nand the demonstration prints\n{printed}"
    );
    assert!(shown.lines().count() > 10, "the README shows too little of it");
}
