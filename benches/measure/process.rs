//! What the kernel knows of a process.

use std::fs;
use std::io;

/// CPU time that the threads of the process `id` have used, user and system together, in seconds.
///
/// The scheduler's own account (`schedstat`, in nanoseconds) and not the one in ticks of a hundredth (proc(5)): on a busy
/// machine those fall on whoever runs at the moment.
pub(crate) fn cpu_seconds(id: u32) -> io::Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        // One that has ended since it was listed has no account any more.
        let account = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let on_cpu = account.split_whitespace().next().and_then(|field| field.parse().ok());
        nanoseconds += on_cpu.unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e9)
}

/// The figure `key` of `/proc/<id>/status`, such as `VmRSS`, in bytes.
pub(crate) fn memory(id: u32, key: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| io::Error::other(format!("no {key} of process {id}")))
}
