//! Killed at any moment: every table is the old one or the new one.

use crate::netns::{Netns, OUTRIGGER, assert_done};
use crate::rules::{FIRST, MODES, SECOND, args, shown};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many moments of a run are tried.
const MOMENTS: u32 = 40;

#[test]
fn a_run_killed_at_any_moment_leaves_the_old_rules_or_the_new() {
    for mode in MODES {
        let namespace = Netns::new();
        assert_done(&namespace.proxy_init(args(mode, SECOND)));
        let second = shown(&namespace, mode);
        let begun = Instant::now();
        assert_done(&namespace.proxy_init(args(mode, FIRST)));
        let whole = begun.elapsed();
        let first = shown(&namespace, mode);
        let mut killed = 0;
        for moment in 0..MOMENTS {
            let wanted = if moment % 2 == 0 { SECOND } else { FIRST };
            killed += u32::from(kill_after(start(&namespace, mode, wanted), whole * moment / MOMENTS));
            for ((table, first), second) in shown(&namespace, mode).iter().zip(&first).zip(&second) {
                assert!(table == first || table == second, "{mode}, moment {moment}: {table}");
            }
            // What was cut short is finished by the next run.
            assert_done(&namespace.proxy_init(args(mode, wanted)));
            assert_eq!(
                shown(&namespace, mode),
                if moment % 2 == 0 { second.clone() } else { first.clone() },
                "{mode}"
            );
        }
        println!("{mode}: {killed} of {MOMENTS} runs were killed before their end");
        assert!(killed > 0, "{mode}: no run was killed");
    }
}

/// In a process group of its own, so that the programs that it runs end with it.
fn start(namespace: &Netns, mode: &str, rules: &str) -> Child {
    let mut command = Command::new(OUTRIGGER);
    command
        .arg("proxy-init")
        .args(args(mode, rules))
        .stderr(Stdio::null())
        .process_group(0);
    namespace.inside(|| command.spawn().expect("the program starts"))
}

/// Kills once the time has passed; whether it came before the end.
fn kill_after(mut child: Child, time: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::thread::yield_now();
    }
    let pid = Pid::from_child(&child);
    let _ended = kill_process_group(pid, Signal::KILL);
    !child.wait().expect("a child is waited for").success()
}
