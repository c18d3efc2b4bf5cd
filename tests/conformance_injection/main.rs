//! Injection against the cases of `conformance/injection`: Linkerd's golden files, and admission requests that Linkerd's
//! handler answered.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is how a test fails"
)]
#![expect(clippy::disallowed_methods, reason = "the cases are files")]

#[path = "../conformance/folder.rs"]
mod folder;

mod effects;
mod goldens;
mod layers;
mod normal_form;
mod reports;
mod requests;
mod values_keys;

use std::path::PathBuf;

/// Where the cases of injection are, if anywhere.
fn cases() -> Option<PathBuf> {
    folder::conformance().map(|folder| folder.join("injection"))
}
