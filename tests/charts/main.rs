//! The Helm charts, by the real helm and by `outrigger install`, and what real API servers say to what they render.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed expectation is how a test fails; helm and the control plane are real processes and their files"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;

#[path = "../conformance/folder.rs"]
mod conformance_folder;

mod accepted;
mod bad_values;
mod deadlock;
mod equality;
mod evictions;
mod guide;
mod helm;
mod lint;
mod live;
mod manifests;
mod monitoring;
mod options;
mod policies;
mod program;
mod values;
mod written;
