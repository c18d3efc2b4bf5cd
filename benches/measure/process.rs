//! What the kernel knows of a process.

use std::fs;
use std::io;

/// CPU time that the process `id` has used, user and system together, in seconds.
pub(crate) fn cpu_seconds(id: u32) -> io::Result<f64> {
    // Linux counts in hundredths for every program, whatever the kernel's own clock (`USER_HZ`, proc(5)).
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name stands in parentheses and may hold anything; `utime` and `stime` are the 14th and 15th field.
    let fields = stat
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
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
