//! The CNI plugin of the node, which sets the redirect rules of pods that have no init container for it.
//!
//! A container runtime runs the plugin once a pod and verb: [`call`] reads the environment, [`config`] the network
//! configuration on standard input, [`decision`] says whether the pod gets rules, from its name alone where that is
//! enough, and [`rules`] which, from the injected pod itself. What is known about a pod comes over the interfaces of
//! [`facts`] and [`credentials`]. Source: the CNI specification 1.1.0.
//!
//! It never sets a rule for a pod of `kube-system`, for the pods that install it, or in the node's own network
//! namespace, and it never lets a meshed pod start without its rules. Everything here is pure but for `plugin` and
//! `agent`, which installs the plugin on the node and tells it about pods; [`conflist`] and [`entry`] are what it installs.

#[cfg(feature = "webhook")]
pub mod agent;
pub mod call;
pub mod config;
pub mod conflist;
pub mod credentials;
pub mod decision;
pub mod entry;
pub mod facts;
pub mod failure;
pub mod rules;
pub mod version;

mod fence;
#[cfg(feature = "node-api")]
mod http;
#[cfg(feature = "node")]
pub mod plugin;
