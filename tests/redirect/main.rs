//! `outrigger proxy-init` and `outrigger network-validator` in real network namespaces.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod bad_input;
mod fence;
mod interrupted;
mod library;
mod netns;
mod new_connections;
mod repeated;
mod rules;
#[expect(dead_code, reason = "the other test target uses the rest")]
mod traffic;
mod undo;
mod user_namespace;
mod validator;
