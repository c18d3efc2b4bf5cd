//! `PodSecurityPolicy` for real: kube-apiserver 1.24 with that plugin on, pods as controllers make them, and the webhook.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::float_cmp,
    reason = "a failed expectation is how a test fails; the control plane is real processes and their files; metrics count"
)]

#[expect(dead_code, unused_imports, reason = "the other test targets use the rest")]
#[path = "../cluster/cluster.rs"]
mod cluster;
#[expect(dead_code, reason = "the suite api_server uses the rest")]
#[path = "../api_server/mesh.rs"]
mod mesh;
#[path = "../policy/printed.rs"]
mod printed;
#[expect(dead_code, reason = "the suite api_server uses the rest")]
#[path = "../api_server/scene.rs"]
mod scene;

mod bad_input;
mod emojivoto;
mod forbidden;
mod made;
mod site;
