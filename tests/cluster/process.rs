//! Server processes that end with the test process, whatever ends that.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::deadline::poll;

/// Reads until the test process closes the pipe, then kills the group `$1` and removes the folder `$2`.
const WATCHDOG: &str = r#"read -r _; kill -s KILL -- "-$1"; rm -rf -- "$2""#;

/// How long a server may take to end after SIGTERM: what kubelet grants a pod by default.
const GRACE: Duration = Duration::from_secs(30);

/// How much of a log is worth quoting in a failure.
const TAIL_LINES: usize = 25;

/// A running server, leader of a process group of its own, with a log file.
///
/// Dropping it kills the group. Where nothing is dropped (a static, an abort, SIGKILL), the kernel still closes the pipe
/// to the watchdog, which then does the same and removes the scratch folder.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    watchdog: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, its output appended to `<scratch>/<name>.log`.
    pub(crate) fn spawn(name: &'static str, command: &mut Command, scratch: &Path) -> Self {
        let log = scratch.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log can be opened");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file handle can be copied"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let watchdog = watch(WATCHDOG, child.id(), &[scratch.as_os_str()]);
        Self {
            name,
            child,
            watchdog,
            log,
        }
    }

    /// Its number, which is that of its group, too.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let status = poll(GRACE, async || self.ended()).await;
        status.unwrap_or_else(|| panic!("{} ignores SIGTERM for {GRACE:?}:\n{}", self.name, self.log_tail()))
    }

    /// What the process has written, all of it.
    pub(crate) fn log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The end of the log, for the message of a failure.
    pub(crate) fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<_> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
        format!("end of {}:\n{}", self.log.display(), tail.join("\n"))
    }

    /// Signals the group; a group that is gone is what was wanted.
    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            kill_process_group(Pid::from_child(&self.child), signal).ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: once the child is reaped its number may belong to somebody else.
        self.watchdog.kill().ok();
        self.watchdog.wait().ok();
        self.signal(Signal::KILL);
        self.child.wait().ok();
    }
}

/// Starts the watchdog of `group`, outside the group that a terminal interrupts: `script` with the number of the group as
/// `$1` and `arguments` after it. Its standard input ends when the test process does.
pub(crate) fn watch(script: &str, group: u32, arguments: &[&OsStr]) -> Child {
    Command::new("sh")
        .args(["-c", script, "watchdog", &group.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sh starts")
}

mod tests {
    use tempfile::TempDir;

    use super::*;

    #[tokio::test]
    async fn a_process_ends_with_the_test_process() {
        let scratch = TempDir::new().unwrap();
        let mut process = Process::spawn("sleep", Command::new("sleep").arg("600"), scratch.path());
        assert_eq!(process.ended(), None);
        drop(process.watchdog.stdin.take());
        let gone = async || (process.ended().is_some() && !scratch.path().exists()).then_some(());
        poll(GRACE, gone)
            .await
            .expect("the process is killed and its folder removed");
    }
}
