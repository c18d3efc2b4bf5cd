//! `outrigger egress-gateway` between a pod and a stand-in for the internet, each in a network namespace of its own: real
//! clients, real servers, real packets. Needs root, iproute2, iptables, curl and Python 3.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod authority;
mod github;
mod hostile;
mod http2;
mod internet;
mod knobs;
mod life;
mod names;
#[path = "../redirect/netns.rs"]
#[expect(dead_code, reason = "another suite uses the rest")]
mod netns;
mod opaque;
mod traces;
mod world;
