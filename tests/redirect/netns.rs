//! Network namespaces for tests: real ones, with real packets. Needs root, iproute2, iptables and nftables.

use outrigger::redirect::apply::inside;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// The program under test.
pub(crate) const OUTRIGGER: &str = env!("CARGO_BIN_EXE_outrigger");

/// The UID that the proxy has in every test.
pub(crate) const PROXY_UID: u32 = 2102;

/// A network namespace with its loop-back device up; gone when dropped.
#[derive(Debug)]
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    pub(crate) fn new() -> Self {
        let namespace = Self { name: fresh_name() };
        ip(&["netns", "add", &namespace.name]);
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// The network namespace of a process.
    pub(crate) fn attach(process: u32) -> Self {
        let namespace = Self { name: fresh_name() };
        ip(&["netns", "attach", &namespace.name, &process.to_string()]);
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from("/var/run/netns").join(&self.name)
    }

    /// Runs `ip` on this namespace.
    pub(crate) fn ip(&self, args: &[&str]) {
        ip(&[&["-n", &self.name], args].concat());
    }

    /// Does `work` on a thread in this namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.path(), work).expect("root may enter its namespaces")
    }

    /// Runs a command in this namespace.
    pub(crate) fn run(&self, command: &mut Command) -> Output {
        self.inside(|| output(command))
    }

    /// Runs a tool in this namespace and returns what it printed.
    pub(crate) fn tool(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(Command::new(program).args(args));
        assert!(output.status.success(), "{program} {args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("tools print UTF-8")
    }

    /// Runs `outrigger proxy-init` in this namespace.
    pub(crate) fn proxy_init<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        self.run(Command::new(OUTRIGGER).arg("proxy-init").args(args))
    }

    /// What one of the save programs shows of the nat table, without comments and counters.
    pub(crate) fn nat(&self, program: &str) -> Vec<String> {
        let text = self.tool(&format!("{program}-save"), &["-t", "nat"]);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.split(" [").next().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _gone = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("or{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a command to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| {
        let program = command.get_program().display();
        panic!("{program}: {error}; these tests need root and: apt-get install iproute2 iptables nftables util-linux")
    })
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with what a program said, unless it ended well.
pub(crate) fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
}

fn ip(args: &[&str]) {
    let output = output(Command::new("ip").args(args));
    assert!(output.status.success(), "ip {args:?}: {}", stderr(&output));
}
