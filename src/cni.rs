//! The CNI plugin of the node, which sets the redirect rules of pods that have no init container for it.
//!
//! [`conflist`] edits network configurations. Everything here is pure but for `agent`.

pub mod conflist;
