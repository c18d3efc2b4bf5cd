//! OpenShift's `SecurityContextConstraints`: what the API server's plugin of that name will say to a pod.
//!
//! [`Constraints`] and [`Grants`] are read once, when the cluster's objects change. [`Question::admission`] fills in what
//! a namespace has been allotted, for one requester; it is then asked about the pod as it came and about each candidate.
//! The answer names the constraint that takes the pod, the users that this one admits, and every field that it writes
//! ([`Admitted::apply`]): the pod that a webhook sees has been through this once already, and goes through it again after
//! injection, with what was filled in counting as its own.
//!
//! Constraints are tried by priority, then restrictiveness, then name, and the first that fits is taken, whether it
//! changes the pod or not. Texts are those of OpenShift 4.11 and later. `runAsGroup`, new and off by default, is not
//! judged.
//!
//! Spec: `pkg/securitycontextconstraints` of github.com/openshift/apiserver-library-go.
//!
//! [`Grants`]: crate::policy::Grants

mod constraint;
mod container_rules;
mod judge;
mod namespace;
mod order;
mod pod_rules;
mod provider;
mod review;
mod seccomp;
mod setting;
mod sysctls;
mod tailoring;
mod volumes;
mod wording;

#[cfg(test)]
mod tests;

pub use review::{Admission, Admitted, Constraints, Question, Review};
pub use setting::Setting;
pub use tailoring::tailored;

use super::Release;

/// The kind of the objects.
pub const KIND: &str = "SecurityContextConstraints";

/// The annotation by which a pod asks for one constraint and no other.
pub const REQUIRED: &str = "openshift.io/required-scc";

/// The annotation that says which constraint took a pod.
pub const TAKEN_BY: &str = "openshift.io/scc";

/// The annotation that says by whose right.
const SUBJECT: &str = "security.openshift.io/validated-scc-subject-type";
