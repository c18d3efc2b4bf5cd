//! The program under test.

use std::process::{Command, Output};

use crate::cluster::repository;

/// Runs the program, in the folder of the charts.
pub(crate) fn outrigger(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command.args(arguments).current_dir(repository().join("charts"));
    command.output().expect("the program runs")
}

/// What it prints where it must succeed and has nothing else to say.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = outrigger(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "outrigger {arguments:?}: {said}"
    );
    String::from_utf8(output.stdout).expect("it prints text")
}
