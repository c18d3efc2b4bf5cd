//! Outrigger injects the Linkerd proxy into pods and decides, pod by pod, how their traffic reaches it: by the
//! privileged init container `linkerd-init`, or by the CNI plugin on the node. It decides from what the cluster's
//! admission policy will accept, so that no policy refuses a pod for what injection added to it.
//!
//! The way of a pod through the rooms:
//!
//! 1. [`webhook`] reads an AdmissionReview, or [`cli`] a manifest. The pod stays raw JSON; [`pod`] is a view over it.
//! 2. [`config`] lays the annotations of pod and namespace over the installation's values: one configuration for the
//!    pod, each field with its origin.
//! 3. [`cluster`] hands over what it knows without asking: the namespace, the nodes that have the CNI plugin, the
//!    admission policies, compiled, and the server's release.
//! 4. [`decide`] asks whether the pod may be injected, what was asked for, and which redirections are possible. For each
//!    it has [`inject`] build the shape (containers, volumes, metadata), and [`policy`] judge the pod with that shape.
//!    The best shape that is admitted wins; a decision comes with its trace.
//! 5. [`inject`] turns the shape into a JSON patch, [`webhook`] answers with it, and [`cli`] prints it.
//!
//! On the node, [`redirect`] holds the traffic rules that `outrigger proxy-init` and the CNI plugin set, and [`cni`] is
//! that plugin. [`egress`] is apart from that way: which hosts outside of the cluster a workload may reach.
//!
//! `pod`, `config`, `policy`, `decide`, `inject`, `redirect`, `cni` and `egress` are pure but for the parts that act: they
//! never touch files, clock, environment, network or processes. `tests/architecture.rs` keeps it so.

#[macro_use]
mod coded;

#[cfg(feature = "webhook")]
pub mod cli;
#[cfg(feature = "webhook")]
pub mod cluster;
pub mod cni;
pub mod config;
pub mod decide;
#[cfg(feature = "webhook")]
pub mod egress;
pub mod inject;
pub mod pod;
pub mod policy;
pub mod redirect;
#[cfg(feature = "webhook")]
pub mod webhook;
