//! Outrigger injects the Linkerd proxy into pods and decides, pod by pod, how their traffic reaches it.

#[cfg(feature = "webhook")]
pub mod cli;
pub mod config;
pub mod decide;
pub mod inject;
pub mod pod;
pub mod policy;
pub mod redirect;
