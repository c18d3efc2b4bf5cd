//! The pages of `docs/`: what they name is in the product, and what the product says is in them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed expectation is how a test fails; pages and sources are files of the repository"
)]

mod codes;
mod links;
mod pages;
mod reference;
mod security;
mod sources;
mod troubleshooting;

#[path = "../charts/written.rs"]
mod written;
