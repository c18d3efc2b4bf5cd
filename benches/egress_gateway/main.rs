//! The egress gateway as a middleman of TLS that it does not open, against two others in the same run: a program that copies
//! bytes both ways and looks at none, and `HAProxy`, which tells by SNI where a connection goes.
//!
//! Throughput of one connection and of 64, the time until a new connection has its first answer, and that of a request on an
//! open one; each in turns, round by round, and printed as ratios. A pod, the middlemen and the servers have a network
//! namespace each. Then the gateway's resident memory with 10,000 connections that are idle.
//!
//! Budget: 150 MB for those connections, and at least 0.7 of `HAProxy`'s throughput. The exit status is 1 beyond either.
//!
//! `OUTRIGGER_PROGRAMS` names a folder with the `outrigger` to measure, where it is not the bench's own build. Needs root,
//! iproute2 and `HAProxy`.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench that cannot run must fail"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench runs programs and prints what it measured"
)]

mod client;
mod middle;
#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/redirect/netns.rs"]
mod netns;
#[expect(dead_code, reason = "the other benches use the rest")]
#[path = "../measure/process.rs"]
mod process;
mod world;

use client::Client;
use middle::Middle;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use world::World;

/// The budgets: bytes, and the least share of the other's throughput.
const MEMORY: u64 = 150_000_000;
const SHARE: f64 = 0.7;

/// Rounds of each middleman, in turns.
const ROUNDS: usize = 9;

/// Bytes of a round over one connection, and over each of many.
const BYTES: usize = 128 << 20;
const MANY: usize = 64;

/// New connections, and requests on an open one, of a round.
const CONNECTIONS: usize = 100;
const REQUESTS: usize = 500;

/// Connections that are idle.
const IDLE: u64 = 10_000;

/// What one middleman needed, round by round.
#[derive(Default)]
struct Took {
    one: Vec<Duration>,
    many: Vec<Duration>,
    connection: Vec<Duration>,
    request: Vec<Duration>,
}

fn main() -> ExitCode {
    middle::play();
    let files = world::allow_files();
    let world = World::new();
    let middles = [Middle::splice(&world), Middle::haproxy(&world), Middle::gateway(&world)];
    let mut took = [Took::default(), Took::default(), Took::default()];
    for round in 0..=ROUNDS {
        for (middle, took) in middles.iter().zip(&mut took) {
            let measured = world.pod.inside(|| measure(middle));
            // The first warms up.
            if round > 0 {
                took.add(measured);
            }
        }
    }
    let share = table(&took.map(Took::medians));
    let [_, _, gateway] = &middles;
    let memory = idle(&world, gateway, files);
    let kept = memory <= MEMORY && share >= SHARE;
    let budget = format!("budget {} MB and {SHARE} of HAProxy's throughput", MEMORY / 1_000_000);
    println!("{budget}: {}", if kept { "kept" } else { "exceeded" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(middle: &Middle) -> [Duration; 4] {
    let one = timed(|| Client::open(middle).push(BYTES));
    let many = timed(|| {
        std::thread::scope(|scope| {
            for _ in 0..MANY {
                scope.spawn(|| Client::open(middle).push(BYTES / MANY));
            }
        });
    });
    let connection = median((0..CONNECTIONS).map(|_| timed(|| Client::open(middle).ask())).collect());
    let mut open = Client::open(middle);
    let request = median((0..REQUESTS).map(|_| timed(|| open.ask())).collect());
    [one, many, connection, request]
}

/// Prints what came of it, and returns the gateway's least share of `HAProxy`'s throughput.
fn table([splice, haproxy, gateway]: &[[Duration; 4]; 3]) -> f64 {
    println!(
        "{:<32} {:>10} {:>10} {:>10} {:>12} {:>12}",
        "median of rounds", "splice", "HAProxy", "gateway", "to splice", "to HAProxy"
    );
    let rows = [
        "128 MB, one connection",
        "128 MB, 64 connections",
        "new connection, first answer",
        "request on an open one",
    ];
    for (index, row) in rows.into_iter().enumerate() {
        let [splice, haproxy, gateway] = [splice, haproxy, gateway].map(|times| times[index]);
        println!(
            "{row:<32} {:>7} µs {:>7} µs {:>7} µs {:>12.2} {:>12.2}",
            splice.as_micros(),
            haproxy.as_micros(),
            gateway.as_micros(),
            ratio(gateway, splice),
            ratio(gateway, haproxy)
        );
    }
    f64::min(ratio(haproxy[0], gateway[0]), ratio(haproxy[1], gateway[1]))
}

fn ratio(of: Duration, to: Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64()
}

/// What the gateway has in memory with connections that have been used and are idle, in bytes; where it may not have files
/// enough for all of them, in proportion.
fn idle(world: &World, gateway: &Middle, files: u64) -> u64 {
    // Each is two files of the gateway's, which has some of its own.
    let count = IDLE.min((files - 100) / 2);
    let connections = world.pod.inside(|| {
        let open = |_| {
            let mut client = Client::open(gateway);
            client.ask();
            client
        };
        (0..count).map(open).collect::<Vec<_>>()
    });
    let figure = |key| process::memory(gateway.id(), key).unwrap();
    let (all, anonymous) = (figure("VmRSS"), figure("RssAnon"));
    drop(connections);
    println!(
        "resident memory of the gateway with {count} idle connections: {} MB, {} MB of it anonymous",
        all / 1_000_000,
        anonymous / 1_000_000
    );
    all * IDLE / count
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

impl Took {
    fn add(&mut self, [one, many, connection, request]: [Duration; 4]) {
        self.one.push(one);
        self.many.push(many);
        self.connection.push(connection);
        self.request.push(request);
    }

    fn medians(self) -> [Duration; 4] {
        [self.one, self.many, self.connection, self.request].map(median)
    }
}
