//! How long a pod's author waits: with a cluster of 2,000 namespaces and 50 `PodSecurityPolicies`, of which new versions
//! arrive all the time, against one that is all but empty.
//!
//! Budget: a median within 10 % of the empty cluster's. What a cluster has is read when it changes, off the way of a
//! request. The two webhooks are asked in turns, each with its own API server of the last release that has these policies
//! (`tests/assets/build psp`). The exit status is 1 above the budget.
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
#![expect(
    dead_code,
    unused_imports,
    reason = "the control plane of the tests can do more than is needed here"
)]

#[path = "../measure/watching.rs"]
mod watching;

mod crowd;

use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watching::client::Connection;
use watching::cluster::{Cluster, Edition, Options};
use watching::server::Server;
use watching::{cluster, objects, review, verdict, webhook};

/// The budget, in times of the empty cluster's median.
const BUDGET: f64 = 1.1;

/// Rounds of each webhook, in turns.
const ROUNDS: usize = 40;

/// Requests of a round.
const REQUESTS: usize = 100;

/// The namespace that is asked about, in both clusters.
const NAMESPACE: &str = "shop";

/// A webhook with its cluster, and how long its answers took.
struct Side {
    connection: Connection,
    review: Vec<u8>,
    took: Vec<Duration>,
    cluster: Cluster,
    _webhook: Server,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let (mut empty, mut full) = (Side::start(false).await, Side::start(true).await);
    let changes = crowd::change(full.cluster.client().await);
    tokio::task::block_in_place(|| {
        for _ in 0..ROUNDS {
            empty.round();
            full.round();
        }
    });
    let changes = changes.stop().await;
    let (empty, full) = (median(empty.took), median(full.took));
    let ratio = full.as_secs_f64() / empty.as_secs_f64();
    println!(
        "median latency of {} requests each, while {changes} objects changed",
        ROUNDS * REQUESTS
    );
    println!("{:<44} {:>7} µs", "an empty cluster", empty.as_micros());
    let crowd = format!("{} namespaces and {} policies", crowd::NAMESPACES, crowd::POLICIES);
    println!("{crowd:<44} {:>7} µs", full.as_micros());
    println!("ratio {ratio:.2}");
    verdict(&BUDGET.to_string(), ratio <= BUDGET)
}

impl Side {
    async fn start(crowded: bool) -> Self {
        let cluster = Cluster::start(Options {
            edition: Edition::PodSecurityPolicy,
            ..Options::default()
        });
        let cluster = cluster.await.unwrap();
        let client = cluster.client().await;
        let common = [
            objects::namespace(NAMESPACE, "restricted"),
            objects::node(0),
            objects::plugin(),
        ];
        objects::create(&client, common).await;
        if crowded {
            crowd::fill(&client).await;
        }
        let (webhook, files) = webhook(&cluster).await;
        let mut review = review::review(NAMESPACE);
        if crowded {
            // The mark of the round in which the policies themselves are asked first.
            let metadata = &mut review["request"]["object"]["metadata"];
            metadata["annotations"] = json!({"kubernetes.io/psp": crowd::policy_name(0)});
        }
        let mut side = Self {
            connection: Connection::open(webhook.address(), &files.authority).unwrap(),
            review: review.to_string().into_bytes(),
            took: Vec::new(),
            cluster,
            _webhook: webhook,
        };
        side.check();
        side
    }

    /// Looks at an answer: a refusal would be fast.
    fn check(&mut self) {
        let answer = self.connection.ask(&self.review).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let said = &answer["response"]["auditAnnotations"]["redirection"];
        assert_eq!(said, "cni", "{answer}");
    }

    fn round(&mut self) {
        for _ in 0..REQUESTS {
            let started = Instant::now();
            self.connection.ask(&self.review).unwrap();
            self.took.push(started.elapsed());
        }
    }
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}
