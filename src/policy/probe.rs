//! What a probe found out by dry runs: the only way to see a cluster default or an exemption of Pod Security, a
//! `ValidatingAdmissionPolicy`, or the policy behind another's webhook.
//!
//! A probe asks the API server, without creating anything, for a plain pod and for the same pod in each shape that
//! injection gives it. Only "the plain pod is admitted, the shape is refused" is a denial; whatever else happens says
//! nothing. Here are the answers as data ([`classify`]), what they amount to ([`Finding`]), and the document in which they
//! reach the webhook ([`Report`]), which anybody may have damaged: what cannot be believed is unknown.

mod answer;
mod finding;
mod reading;
mod report;

pub use answer::{Answer, Cause, Doubt, Refusal, Refuser};
pub use finding::{Finding, Found, Shape, ago, digest};
pub use reading::classify;
pub use report::{CONFIG_MAP, MAX_AGE, Report, Standing, Word};

#[cfg(test)]
mod tests;
