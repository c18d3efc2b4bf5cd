//! One request on one core: from a review to its answer over a kept-alive TLS connection, in CPU time of the server.
//!
//! Budget: 1.5 times the *floor*, the least that a webhook in axum and rustls must do (TLS, HTTP, parse the review, answer
//! a fixed patch). Whoever is called for every pod of a cluster should cost little more than being called does; the
//! injector that this one stands in for takes about 120 times the floor. The exit status is 1 above the budget.
//!
//! Both servers run on the first core, this program loads them from the second, in turns. The floor's sources lie beside
//! the conformance cases (`tools/floor`) and are built once; `OUTRIGGER_FLOOR` names a program that is built already.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    dead_code,
    reason = "a bench runs programs and prints what it measured, with parts that it shares with others"
)]

#[path = "../measure/client.rs"]
mod client;
#[path = "../../tests/conformance/folder.rs"]
mod folder;
#[path = "../measure/process.rs"]
mod process;
#[path = "../measure/review.rs"]
mod review;
#[path = "../measure/server.rs"]
mod server;

mod servers;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Connection;
use review::review;
use serde_json::Value;
use server::Server;
use servers::Servers;
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// The budget, in times of the floor.
const BUDGET: f64 = 1.5;

/// Requests before the first that counts: caches, branch predictors and the allocator settle in fewer.
const WARM_UP: u32 = 200;

/// Requests of a round: some tens of milliseconds, so that the servers take turns often and share whatever else goes on.
const REQUESTS: u32 = 500;

/// Rounds of each server, in turns.
const ROUNDS: usize = 60;

/// The round that counts is the lower quartile, the fourth part from the least on: whatever else the machine does only ever
/// adds.
const QUARTER: usize = 4;

/// What is measured: the namespace, and what must have been decided there. In the last its annotations change the proxy's
/// values.
const CASES: [(&str, &str); 3] = [
    ("restricted", "cni"),
    ("privileged", "init-container"),
    ("annotated", "cni"),
];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("request: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every case keeps the budget; so it does where nothing could be measured, which is said.
fn run() -> Result<bool, Box<dyn Error>> {
    let Some(folder) = folder::conformance() else {
        return Ok(true);
    };
    let servers = Servers::start(&folder.join("../tools/floor"))?;
    println!("CPU time of a request in µs, lower quartile of {ROUNDS} rounds of {REQUESTS}");
    println!(
        "{:<12} {:<15} {:>6} {:>9} {:>6}",
        "namespace", "redirection", "floor", "outrigger", "ratio"
    );
    let mut kept = true;
    for (namespace, redirection) in CASES {
        let row = measure(&servers, namespace, redirection)?;
        let ratio = row.ours / row.floor;
        kept &= ratio <= BUDGET;
        println!(
            "{namespace:<12} {redirection:<15} {:>6.1} {:>9.1} {ratio:>6.2}",
            row.floor, row.ours
        );
    }
    let verdict = if kept { "kept" } else { "exceeded" };
    println!("budget: {BUDGET} times the floor: {verdict}");
    Ok(kept)
}

/// The figures of one case, in microseconds.
struct Row {
    floor: f64,
    ours: f64,
}

fn measure(servers: &Servers, namespace: &str, redirection: &str) -> Result<Row, Box<dyn Error>> {
    let review = review(namespace).to_string();
    let connect = |server: &Server| Connection::open(server.address(), &servers.files.authority);
    let (mut floor, mut ours) = (connect(&servers.floor)?, connect(&servers.ours)?);
    check(&ours.ask(review.as_bytes())?, redirection)?;
    for connection in [&mut floor, &mut ours] {
        load(connection, &review, WARM_UP)?;
    }
    let (mut of_floor, mut of_ours) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        of_floor.push(timed(&servers.floor, &mut floor, &review)?);
        of_ours.push(timed(&servers.ours, &mut ours, &review)?);
    }
    Ok(Row {
        floor: quiet(of_floor),
        ours: quiet(of_ours),
    })
}

/// The lower quartile.
fn quiet(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / QUARTER).copied().unwrap_or(f64::NAN)
}

/// CPU time of one request, in microseconds.
fn timed(server: &Server, connection: &mut Connection, review: &str) -> io::Result<f64> {
    let before = process::cpu_seconds(server.id())?;
    load(connection, review, REQUESTS)?;
    Ok((process::cpu_seconds(server.id())? - before) * 1e6 / f64::from(REQUESTS))
}

fn load(connection: &mut Connection, review: &str, requests: u32) -> io::Result<()> {
    (0..requests).try_for_each(|_| connection.ask(review.as_bytes()).map(drop))
}

/// Looks at an answer: a refusal would be fast.
fn check(answer: &[u8], redirection: &str) -> Result<(), Box<dyn Error>> {
    let answer: Value = serde_json::from_slice(answer)?;
    let patch = answer.pointer("/response/patch").and_then(Value::as_str);
    let patch = STANDARD.decode(patch.ok_or_else(|| format!("the answer has no patch: {answer}"))?)?;
    let patch: Value = serde_json::from_slice(&patch)?;
    let adds = |path: &str, value: &str| {
        let operations = patch.as_array().into_iter().flatten();
        let mut added = operations.filter(|operation| operation.get("path").and_then(Value::as_str) == Some(path));
        added.any(|operation| operation.to_string().contains(&format!("\"{value}\"")))
    };
    let allowed = answer.pointer("/response/allowed") == Some(&Value::Bool(true));
    let chosen = adds("/metadata/annotations/linkerd.io~1setup-iptables", redirection);
    if allowed && chosen && adds("/spec/initContainers/1", "linkerd-proxy") {
        return Ok(());
    }
    Err(format!("the answer is not what is to be measured: {answer}\n{patch}").into())
}
