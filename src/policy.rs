//! What the cluster's admission policies will say to a pod: candidate pod in, verdict out.
//!
//! One module a policy. Each knows the rules of its policy exactly, for every release that may be met, and nothing of
//! injection: the same pod gets the same verdict whoever asks. This room is pure.

mod aggregate;
mod grants;
pub mod installed;
pub mod limits;
pub mod needs;
pub mod pod_security;
pub mod pod_security_policy;
pub mod probe;
mod quoting;
mod release;
pub mod scc;
mod users;

pub use grants::{Binding, Grants, Requester, Role, Usable};
pub use installed::Installed;
pub use release::{Release, ReleaseError};
pub use users::UserIds;

/// One policy's answer on one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The policy admits the pod.
    Allowed,
    /// The policy refuses the pod; `message` is what the API server will say.
    Denied {
        /// The policy's own words.
        message: String,
    },
    /// The policy could not be asked.
    Unknown {
        /// Why not.
        why: String,
    },
}
