//! The processes of containers, as the kernel sees them: not what they were meant to get, but what they have.

use std::fs;

use crate::node::Node;

/// What a process may do, of proc(5).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Real, effective, saved and file-system user.
    pub(crate) users: [u32; 4],
    pub(crate) effective: u64,
    pub(crate) permitted: u64,
    pub(crate) bounding: u64,
    pub(crate) inheritable: u64,
    pub(crate) ambient: u64,
    /// Whether no program that it starts can have more.
    pub(crate) no_new_privileges: bool,
    /// Whether its system calls are filtered.
    pub(crate) seccomp: bool,
    pub(crate) read_only_root: bool,
}

/// The numbers of the processes whose command line begins with `words`, as their machine sees them.
pub(crate) fn running(node: &Node, words: &[&str]) -> Vec<u32> {
    let begin: String = words.iter().flat_map(|word| [*word, "\0"]).collect();
    let entries = fs::read_dir(node.sandbox.path("/proc")).expect("the machine has processes");
    let processes = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |process: &u32| read(node, *process, "cmdline").starts_with(&begin);
    processes.filter(is_one).collect()
}

/// A file under `/proc` of a process; empty where that has ended.
pub(crate) fn read(node: &Node, process: u32, file: &str) -> String {
    let bytes = fs::read(node.sandbox.path(&format!("/proc/{process}/{file}"))).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Standing {
    /// That of a process that runs.
    pub(crate) fn of(node: &Node, process: u32) -> Self {
        let status = read(node, process, "status");
        let field = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_else(|| panic!("{name} of {process}: {status}")).trim()
        };
        let set = |name: &str| u64::from_str_radix(field(name), 16).expect("a set is hexadecimal");
        let users = field("Uid")
            .split_whitespace()
            .map(|id| id.parse().expect("a user is a number"));
        let users: Vec<u32> = users.collect();
        Self {
            users: users.try_into().expect("there are four"),
            effective: set("CapEff"),
            permitted: set("CapPrm"),
            bounding: set("CapBnd"),
            inheritable: set("CapInh"),
            ambient: set("CapAmb"),
            no_new_privileges: field("NoNewPrivs") == "1",
            // SECCOMP_MODE_FILTER of linux/seccomp.h.
            seccomp: field("Seccomp") == "2",
            read_only_root: has_read_only_root(&read(node, process, "mountinfo")),
        }
    }

    /// That of `user` with these capabilities, no way to more, and nothing to write to.
    pub(crate) fn confined(user: u32, capabilities: u64) -> Self {
        Self {
            users: [user; 4],
            effective: capabilities,
            permitted: capabilities,
            bounding: capabilities,
            inheritable: 0,
            ambient: 0,
            no_new_privileges: true,
            seccomp: true,
            read_only_root: true,
        }
    }
}

fn has_read_only_root(mounts: &str) -> bool {
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let root = mounts.find(|fields| fields[4] == "/").expect("a container has a root");
    root[5].split(',').any(|option| option == "ro")
}
