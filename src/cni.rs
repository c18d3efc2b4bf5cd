//! The CNI plugin of the node, which sets the redirect rules of pods that have no init container for it.
//!
//! [`conflist`] edits network configurations. Everything here is pure but for `agent`.

#[cfg(feature = "webhook")]
pub mod agent;
pub mod conflist;
pub mod entry;
