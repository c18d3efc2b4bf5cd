//! Outrigger injects the Linkerd proxy into pods and decides, pod by pod, how their traffic reaches it.

#[cfg(feature = "webhook")]
pub mod cluster;
pub mod config;
pub mod decide;
pub mod inject;
pub mod pod;
pub mod policy;
#[cfg(feature = "webhook")]
pub mod webhook;
