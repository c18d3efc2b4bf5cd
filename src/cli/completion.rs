//! What shells, `kubectl` and `man` are told of the command line.

use super::print;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::{Shell, engine, generate};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Arguments of `completion`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Clone, Debug)]
pub(super) struct ManArguments {
    /// The folder, which is made where it is not there
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
}

/// What follows the last candidate: a shell that gets none completes names of files (`cobra.ShellCompDirectiveDefault`), else
/// it does not (`ShellCompDirectiveNoFileComp`).
const FILES: &str = ":0\n";
const NO_FILES: &str = ":4\n";

/// Prints the script that completes `command` in a shell.
pub(super) fn run(arguments: &Arguments, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    print(&String::from_utf8(script)?)
}

/// Writes a page of the manual for `command` and each of its sub-commands.
#[expect(clippy::disallowed_methods, reason = "writing files is what this is for")]
pub(super) fn man(arguments: &ManArguments, command: Command) -> Result<()> {
    let folder = &arguments.dir;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.with_context(|| folder.display().to_string())
}

/// Prints what `words`, the last of them unfinished, can be continued with, in the form in which `kubectl` asks its plugins:
/// a line a candidate, then what is to be done with them (the protocol of Go's `cobra`).
pub(super) fn complete(words: &[OsString], mut command: Command) -> Result<()> {
    let name = OsString::from(command.get_name());
    let words: Vec<_> = [name].into_iter().chain(words.iter().cloned()).collect();
    let last = words.len() - 1;
    let found = engine::complete(&mut command, words, last, None)?;
    let shown = found.iter().filter(|candidate| !candidate.is_hide_set());
    let lines: Vec<_> = shown
        .map(|candidate| {
            let value = candidate.get_value().to_string_lossy();
            let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
            match help.lines().next().unwrap_or_default() {
                "" => format!("{value}\n"),
                help => format!("{value}\t{help}\n"),
            }
        })
        .collect();
    print(&(lines.concat() + if lines.is_empty() { FILES } else { NO_FILES }))
}

/// The name by which people call the program, whose own name is `program`: as a plugin, `kubectl` runs it for them.
pub(super) fn called(program: &Path) -> &'static str {
    match program.file_name().and_then(|name| name.to_str()) {
        Some("kubectl-outrigger") => "kubectl outrigger",
        _ => "outrigger",
    }
}

/// Whether `kubectl` asks for completions: it runs the program of that name where there is one.
pub(super) fn is_asked_for(program: &Path) -> bool {
    program
        .file_name()
        .is_some_and(|name| name == "kubectl_complete-outrigger")
}
