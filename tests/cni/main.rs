//! `outrigger-cni` as a container runtime runs it: real network namespaces, the real `cnitool` and the plugins of the
//! CNI project before it in the chain; a stand-in for the agent and one for the API server, with real TLS.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../cluster/authority.rs"]
mod authority;
#[path = "../conformance/folder.rs"]
mod folder;
#[path = "../redirect/netns.rs"]
mod netns;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../redirect/rules.rs"]
mod rules;
#[expect(dead_code, reason = "the other test targets use the rest")]
#[path = "../redirect/traffic.rs"]
mod traffic;

mod agent;
mod api;
mod bad_input;
mod chain;
mod fence;
mod locks;
mod many;
mod parity;
mod pods;
mod runtime;
mod situation;
mod sources;
mod user_namespace;
mod verbs;
