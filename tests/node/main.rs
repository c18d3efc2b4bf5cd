//! A real node: kubelet, containerd and runc start pods from our own image, deployed with the manifests of
//! `webhook-config` and `cni-config`, and a stand-in for the proxy shows that traffic really passes it.
//!
//! The tests share one node and use it one after the other, for each does something to it; after a test that failed the
//! next one starts another. Needs root, util-linux, iproute2, nftables, containerd and runc.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a failed expectation is how a test fails; a node is about files and processes"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;

#[path = "../charts/guide.rs"]
mod guide;

#[expect(dead_code, reason = "the other test target uses the rest")]
#[path = "../charts/helm.rs"]
mod helm;

mod agent;
mod attachments;
mod broken;
mod charts;
mod confinement;
mod dockerfile;
mod egress;
mod image;
mod install;
mod layout;
mod life;
mod mesh;
mod node;
mod outage;
mod pods;
mod process;
mod programs;
mod rights;
mod sandbox;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use node::Node;
use sandbox::enter;

/// Nothing that a node does takes this long on a busy machine, image pulls and back-offs included.
const LIMIT: Duration = Duration::from_secs(120);

/// The pause between two looks: a node does little in less.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `test` on the node, in its network.
fn on_node(test: impl AsyncFnOnce(&mut Node) + Send) {
    static NODE: Mutex<Option<Node>> = Mutex::new(None);
    let mut guard = NODE.lock().unwrap_or_else(|failed: PoisonError<_>| {
        NODE.clear_poison();
        let mut guard = failed.into_inner();
        *guard = None;
        guard
    });
    let node = guard.get_or_insert_with(Node::start);
    let network = node.sandbox.network();
    let run = || enter(&network, || block_on(test(node)));
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        if let Some(node) = guard.as_ref() {
            println!("{}", node.logs());
        }
        resume_unwind(panic);
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(work)
}

/// Looks until `condition` is met; the error says what is missing.
async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match condition().await {
            Ok(met) => {
                println!("after {:?}: {what}", begun.elapsed());
                return met;
            }
            Err(why) if begun.elapsed() >= LIMIT => panic!("{what}: not after {LIMIT:?}: {why}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
