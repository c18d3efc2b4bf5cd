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

/// The namespace whose annotations change the proxy's values, so that less of a pod's shape is prepared. It is measured, and
/// has no budget yet.
const UNBUDGETED: &str = "annotated";

/// Requests before the first that counts: caches, branch predictors and the allocator settle in fewer.
const WARM_UP: u32 = 200;

/// Requests of a round. CPU time is told in hundredths of a second, so this is some 20 units of it.
const REQUESTS: u32 = 3000;

/// Rounds of each server, in turns; odd, for the median.
const ROUNDS: usize = 9;

/// What is measured: the namespace, and what must have been decided there.
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
    println!("CPU time of a request in µs, median of {ROUNDS} rounds of {REQUESTS}");
    println!(
        "{:<12} {:<15} {:>6} {:>9} {:>6}",
        "namespace", "redirection", "floor", "outrigger", "ratio"
    );
    let mut kept = true;
    for (namespace, redirection) in CASES {
        let row = measure(&servers, namespace, redirection)?;
        kept &= row.ratio <= BUDGET || namespace == UNBUDGETED;
        println!(
            "{namespace:<12} {redirection:<15} {:>6.1} {:>9.1} {:>6.2}  ({:.2} to {:.2})",
            row.floor, row.ours, row.ratio, row.least, row.most
        );
    }
    println!(
        "budget: {BUDGET} times the floor, but for {UNBUDGETED}: {}",
        if kept { "kept" } else { "exceeded" }
    );
    Ok(kept)
}

/// The figures of one case.
struct Row {
    floor: f64,
    ours: f64,
    ratio: f64,
    least: f64,
    most: f64,
}

fn measure(servers: &Servers, namespace: &str, redirection: &str) -> Result<Row, Box<dyn Error>> {
    let review = review(namespace).to_string();
    let connect = |server: &Server| Connection::open(server.address(), &servers.files.authority);
    let (mut floor, mut ours) = (connect(&servers.floor)?, connect(&servers.ours)?);
    check(&ours.ask(review.as_bytes())?, redirection)?;
    for connection in [&mut floor, &mut ours] {
        load(connection, &review, WARM_UP)?;
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let floor = timed(&servers.floor, &mut floor, &review)?;
        let ours = timed(&servers.ours, &mut ours, &review)?;
        rounds.push((floor, ours));
    }
    let sorted = |figure: fn(&(f64, f64)) -> f64| {
        let mut figures: Vec<_> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let ratios = sorted(|(floor, ours)| ours / floor);
    Ok(Row {
        floor: median(&sorted(|(floor, _)| *floor)),
        ours: median(&sorted(|(_, ours)| *ours)),
        ratio: median(&ratios),
        least: ratios.first().copied().unwrap_or(f64::NAN),
        most: ratios.last().copied().unwrap_or(f64::NAN),
    })
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
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
