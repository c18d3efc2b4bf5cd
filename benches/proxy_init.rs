//! `outrigger proxy-init` as a whole process against one bare `nft` batch that makes the same table.
//!
//! Both run in fresh network namespaces, in turns, so that the ratio of their medians means something on a busy machine.
//! Needs root, iproute2 and nftables. Fails above the ratio that is promised.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that cannot run must fail"
)]

use outrigger::redirect::apply::inside;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 41;

/// What `proxy-init` as a whole may take of the time of one bare batch.
const PROMISED: f64 = 1.3;

const ARGS: &str = "proxy-init --iptables-mode auto -p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 4190,4191 --outbound-ports-to-ignore 2525";

const BATCH: &str = "add table inet outrigger
delete table inet outrigger
table inet outrigger {
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    tcp dport { 4190, 4191 } return
    meta l4proto tcp redirect to :4143
  }
  chain output {
    type nat hook output priority -100; policy accept;
    meta skuid 2102 return
    oifname \"lo\" return
    tcp dport { 2525 } return
    meta l4proto tcp redirect to :4140
  }
}
";

fn main() {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let ours = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        times[0].push(time(ours, &ARGS.split(' ').collect::<Vec<_>>(), ""));
        times[1].push(time(Command::new("nft"), &["-f", "-"], BATCH));
    }
    let [ours, bare] = times.map(median);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("proxy-init / bare nft batch: {ratio:.2} (at most {PROMISED}; {ours:?} / {bare:?})");
    assert!(ratio <= PROMISED, "proxy-init takes {ratio:.2} times a bare batch");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How long a program takes in a fresh network namespace.
fn time(mut command: Command, args: &[&str], input: &str) -> Duration {
    let name = format!("orbench{}", std::process::id());
    ip(&["netns", "add", &name]);
    command.args(args).stdin(Stdio::piped()).stderr(Stdio::null());
    let run = || {
        let begun = Instant::now();
        let mut child = command
            .spawn()
            .expect("the program starts; nft: apt-get install nftables");
        child
            .stdin
            .take()
            .expect("it is piped")
            .write_all(input.as_bytes())
            .expect("a pipe holds a batch");
        assert!(child.wait().expect("it ends").success(), "{args:?} failed");
        begun.elapsed()
    };
    let time = inside(&Path::new("/var/run/netns").join(&name), run).expect("root may enter its namespaces");
    ip(&["netns", "del", &name]);
    time
}

fn ip(args: &[&str]) {
    let status = Command::new("ip")
        .args(args)
        .status()
        .expect("apt-get install iproute2");
    assert!(status.success(), "ip {args:?}");
}
