//! PodSecurityPolicy admission (servers before 1.25): which policy takes a pod, what it changes in it, and what the
//! API server says where none does.
//!
//! [`Policies`] and [`Grants`] are compiled once, when the cluster's objects change. [`Question::admission`] picks what
//! one requester may use in one namespace; the [`Admission`] is then asked about the pod as it came and about each
//! candidate. A pod goes through the plugin twice: [`Admission::admit`] chooses a policy and applies its defaults,
//! [`Admission::validate`] judges what is left at the end and changes nothing. [`Admission::review`] is both.
//!
//! Nothing here writes to a pod but [`Admitted::apply`]: a policy's defaults are laid over the few fields that policies
//! read, not over a copy of the pod.
//!
//! Spec: the plugin `PodSecurityPolicy` of Kubernetes 1.19 to 1.24, and `policy/v1beta1`.
//!
//! [`Grants`]: crate::policy::Grants

mod admission;
mod capabilities;
mod contexts;
mod defaulting;
mod digest;
mod identity;
mod object;
mod patching;
mod policies;
mod profiles;
pub mod question;
mod se_linux;
mod storing;
mod sysctls;
mod tailoring;
mod validation;
mod volumes;
mod wording;

#[cfg(test)]
mod tests;

pub use admission::{Admission, Admitted, Objection, Phase, Question, Refusal};
pub use policies::{Policies, UnusablePolicy};
pub use tailoring::tailored;

/// The annotation that names the policy which took a pod.
pub const POLICY_ANNOTATION: &str = "kubernetes.io/psp";

/// What the API server says where [`Policies::is_empty`].
const NO_POLICIES: &str = "no providers available to validate pod request";
