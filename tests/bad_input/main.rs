//! The command line on input that is wrong: a message that names file, document and field; an exit status that says so;
//! nothing on standard output; never a panic.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed expectation is how a test fails; the program reads files and is started"
)]

mod files;
mod manifests;
mod rewriting;
mod urls;
mod usage;

use std::path::Path;
use std::process::{Command, Output};

/// What a run left behind.
struct Run {
    status: i32,
    printed: String,
    said: String,
}

/// Runs the program in `folder`.
fn run(folder: &Path, arguments: &str) -> Run {
    finished(command(folder, arguments).output().unwrap(), arguments)
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command
}

fn finished(output: Output, arguments: &str) -> Run {
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{arguments}: {said}");
    Run {
        // Ended by a signal: a stack overflow, for example.
        status: output.status.code().unwrap_or(-1),
        printed: String::from_utf8(output.stdout).unwrap(),
        said,
    }
}

impl Run {
    /// The run failed with `status`, said `part`, and printed nothing.
    fn expect_failure(&self, status: i32, part: &str) {
        assert!(self.said.contains(part), "expected {part:?}: {}", self.said);
        assert_eq!(self.status, status, "{}", self.said);
        assert_eq!(self.printed, "", "{}", self.said);
    }
}
