//! Resident memory of the webhook while it watches a real API server with 1,000 namespaces and 100 nodes, at the start and
//! after 10,000 reviews from all of them.
//!
//! Before that, how long it takes on an empty cluster from its start until it is ready. That is printed and no more, for a
//! time is no ratio: promised are 100 ms on an idle machine.
//!
//! Budget: 20 MB. The webhook runs in every cluster, twice or more, and Linkerd's injector takes several times as much to
//! watch the same. A process that keeps growing, or that lets its allocator keep what one burst took, shows here. The exit
//! status is 1 above the budget.
//!
//! The API server and etcd are those of the tests (`tests/assets/build`).
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

use kube::Client;
use serde_json::Value;
use std::process::ExitCode;
use watching::client::Connection;
use watching::cluster::{Cluster, Options};
use watching::process::{cpu_seconds, memory};
use watching::review::review;
use watching::server::Server;
use watching::{cluster, objects, verdict, webhook};

/// The budget, in bytes.
const BUDGET: u64 = 20_000_000;

/// Namespaces of the API server: a large cluster.
const NAMESPACES: usize = 1000;

/// Its nodes.
const NODES: usize = 100;

/// Starts on the empty cluster.
const STARTS: usize = 9;

/// Reviews between the two readings.
const REVIEWS: usize = 10_000;

/// Connections that the reviews come by, in turns: one of each API server of a large control plane.
const CONNECTIONS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    start(&cluster).await;
    fill(&client).await;
    let (webhook, files) = webhook(&cluster).await;

    println!("resident memory in MB, with {NAMESPACES} namespaces and {NODES} nodes");
    println!("{:<22} {:>6} {:>10}", "", "all", "anonymous");
    read(webhook.id(), "at the start");
    ask(&webhook, &files.authority);
    let resident = read(webhook.id(), &format!("after {REVIEWS} reviews"));
    verdict(&format!("{} MB", BUDGET / 1_000_000), resident <= BUDGET)
}

/// Prints how long webhooks take until they are ready, and how much of that they compute.
async fn start(cluster: &Cluster) {
    let (mut times, mut computed) = (Vec::new(), 0.0);
    for _ in 0..STARTS {
        let (webhook, _files) = webhook(cluster).await;
        computed += cpu_seconds(webhook.id()).unwrap();
        times.extend(webhook.ready_after);
    }
    times.sort_unstable();
    let (least, median) = (times[0].as_millis(), times[STARTS / 2].as_millis());
    let computed = computed * 1000.0 / f64::from(u8::try_from(STARTS).unwrap());
    println!("from start to ready, in ms: median {median}, least {least}; of CPU time {computed:.0}");
}

/// Creates the namespaces, the nodes, and the CNI plugin on all of them.
async fn fill(client: &Client) {
    let namespaces = (0..NAMESPACES).map(|index| objects::namespace(&format!("scale-{index}"), "baseline"));
    let nodes = (0..NODES).map(objects::node);
    objects::create(client, namespaces.chain(nodes).chain([objects::plugin()])).await;
}

/// Has a pod of each namespace reviewed, again and again.
fn ask(webhook: &Server, authority: &str) {
    let open = || Connection::open(webhook.address(), authority).unwrap();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| open()).collect();
    for index in 0..REVIEWS {
        let review = review(&format!("scale-{}", index % NAMESPACES)).to_string();
        let answer = connections[index % CONNECTIONS].ask(review.as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["response"]["patch"].is_string(), "{answer}");
    }
}

/// Prints what the process has in memory, and returns it: all of it, in bytes.
fn read(process: u32, when: &str) -> u64 {
    let figure = |key| memory(process, key).unwrap();
    let (all, anonymous) = (figure("VmRSS"), figure("RssAnon"));
    let megabytes = |bytes: u64| format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
    println!("{when:<22} {:>6} {:>10}", megabytes(all), megabytes(anonymous));
    all
}
