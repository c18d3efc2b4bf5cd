//! The programs of iptables: which of them are there, and running them.

use super::{ApplyError, Wait};
use crate::redirect::Family;
use std::env;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A back end of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Nft,
    Plain,
    Legacy,
}

impl Back {
    /// In the order in which Linkerd looks for another when the one asked for is missing.
    const ALL: [Self; 3] = [Self::Nft, Self::Plain, Self::Legacy];

    pub(super) fn program(self, family: Family) -> String {
        let base = match family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        let suffix = match self {
            Self::Nft => "-nft",
            Self::Plain => "",
            Self::Legacy => "-legacy",
        };
        format!("{base}{suffix}")
    }
}

/// The programs of one back end and family.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// The name of the main program.
    pub(super) name: String,
    save: Program,
    restore: Program,
}

#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    name: String,
}

impl Programs {
    /// The programs of `back`, or of the first other back end that is there; then with a warning.
    pub(super) fn find(back: Back, family: Family) -> Result<(Self, Option<String>), ApplyError> {
        if is_there(back, family) {
            return Self::of(back, family).map(|programs| (programs, None));
        }
        let wanted = back.program(family);
        let Some(other) = Back::ALL.into_iter().find(|other| is_there(*other, family)) else {
            let looked_for = Back::ALL.map(|back| back.program(family)).join(", ");
            return Err(ApplyError::NoProgram { wanted, looked_for });
        };
        let warning = format!(
            "{wanted} is not in PATH: {} is used in its place",
            other.program(family)
        );
        Self::of(other, family).map(|programs| (programs, Some(warning)))
    }

    /// The programs of `back` and no other.
    pub(super) fn exactly(back: Back, family: Family) -> Result<Self, ApplyError> {
        if is_there(back, family) {
            return Self::of(back, family);
        }
        let wanted = back.program(family);
        Err(ApplyError::NoProgram {
            looked_for: wanted.clone(),
            wanted,
        })
    }

    fn of(back: Back, family: Family) -> Result<Self, ApplyError> {
        let name = back.program(family);
        let missing = |name: String| ApplyError::NoRestore(name);
        let save_name = format!("{name}-save");
        let save = Program::in_path(&save_name).ok_or_else(|| missing(save_name))?;
        let restore_name = format!("{name}-restore");
        let restore = Program::in_path(&restore_name)
            .or_else(|| Program::in_path(&name)?.as_another(&restore_name))
            .ok_or_else(|| missing(restore_name))?;
        Ok(Self { name, save, restore })
    }

    /// What a table holds.
    pub(super) fn save(&self, table: &str) -> Result<String, ApplyError> {
        self.save.run(&["-t", table], "")
    }

    /// Changes the tables, each in one commit.
    pub(super) fn restore(&self, text: &str, wait: Wait) -> Result<(), ApplyError> {
        let mut args = vec!["--noflush", "-w"];
        // Whole seconds are all that it takes; 0 does not wait.
        let seconds = wait.left().map(|left| left.as_secs().to_string());
        args.extend(seconds.as_deref());
        self.restore
            .run(&args, text)
            .map(drop)
            .map_err(|error| with_line(error, text))
    }

    /// The name of the program that reads.
    pub(super) fn save_name(&self) -> &str {
        &self.save.name
    }
}

/// The error with the line that it speaks of, which nobody else sees.
fn with_line(error: ApplyError, text: &str) -> ApplyError {
    let ApplyError::Program { program, status, said } = error else {
        return error;
    };
    let number = said
        .split("line ")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let line = number.and_then(|number| text.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?));
    let said = match line {
        Some("COMMIT") => format!(
            "{said}, which is the commit: the kernel took no part of it, for want of a capability (NET_ADMIN, NET_RAW) \
             or of a module, or because of a seccomp or SELinux policy"
        ),
        Some(line) => format!("{said}, which is {line}"),
        None => said,
    };
    ApplyError::Program { program, status, said }
}

fn is_there(back: Back, family: Family) -> bool {
    let name = back.program(family);
    [format!("{name}-save"), name]
        .iter()
        .all(|name| Program::in_path(name).is_some())
}

impl Program {
    fn in_path(name: &str) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "programs are looked for where the shell would")]
        let path = env::var_os("PATH")?;
        let is_program =
            |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
        let path = env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(is_program)?;
        Some(Self {
            path,
            name: name.to_owned(),
        })
    }

    /// The same file under another name, where it is one that does what its name says: all of iptables is one program.
    fn as_another(&self, name: &str) -> Option<Self> {
        let path = self.path.canonicalize().ok()?;
        let is_multi = path.file_name().and_then(OsStr::to_str)?.starts_with("xtables-");
        is_multi.then(|| Self {
            path,
            name: name.to_owned(),
        })
    }

    /// Runs it with `input` and returns what it printed.
    fn run(&self, args: &[&str], input: &str) -> Result<String, ApplyError> {
        let error = |status: String, said: String| ApplyError::Program {
            program: self.name.clone(),
            status,
            said,
        };
        let io_error = |source: std::io::Error| error("it could not be run".to_owned(), source.to_string());
        let mut child = command(&self.path, &self.name, args).spawn().map_err(io_error)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before it has read everything says why itself.
            let _written = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(io_error)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(error(
            output.status.to_string(),
            cause(&String::from_utf8_lossy(&output.stderr)),
        ))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that runs the programs of iptables"
)]
fn command(path: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command
        .arg0(name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a program said, in one line, without its hints and its full stop.
fn cause(stderr: &str) -> String {
    let is_hint = |line: &&str| line.is_empty() || line.starts_with("Try `") || line.starts_with("# Warning:");
    let said: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !is_hint(line)).collect();
    if said.is_empty() {
        "it said nothing".to_owned()
    } else {
        said.join(", ").trim_end_matches('.').to_owned()
    }
}
