//! What injection adds to a pod: containers, volumes, labels and annotations, and the JSON patch that adds them.
//!
//! A [`Shape`] is everything that injection adds with one redirection. It is made from the configuration and the pod
//! alone; whether it may be used is for `decide` to say. Containers are built from structures, never from text, so no
//! value can change the structure around it. Names, order and paths are those of Linkerd's injector, which its
//! controllers, its command line and other injectors rely on. This room is pure.

pub mod opaque_ports;
pub mod patch;
pub mod uninject;

mod container;
mod debug;
mod env;
mod labels;
mod metadata;
mod parameters;
mod prepared;
mod proxy;
mod proxy_init;
mod shape;
mod validator;
mod volumes;

pub use labels::Owner;
pub use metadata::{CREATED_BY, Metadata};
pub use prepared::{Made, Prepared};
pub(crate) use proxy::SERVICE_ACCOUNT;
pub use proxy::user as proxy_user;
pub use shape::{Shape, ShapeError, check, metadata_patch};
pub use validator::user as validator_user;

use std::fmt;

/// Name of the proxy's container.
pub const PROXY: &str = "linkerd-proxy";
/// Name of the init container that sets the rules.
pub const PROXY_INIT: &str = "linkerd-init";
/// Name of the init container that proves that the CNI plugin has set the rules.
pub const NETWORK_VALIDATOR: &str = "linkerd-network-validator";
/// Name of the debug container.
pub const DEBUG: &str = "linkerd-debug";

/// How traffic reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Redirection {
    /// `linkerd-init` sets the rules, with `NET_ADMIN` and `NET_RAW`.
    InitContainer,
    /// The CNI plugin of the node sets the rules; `linkerd-network-validator` proves it.
    Cni,
    /// Nobody sets rules: the application speaks to the proxy itself, or not at all.
    None,
}

impl Redirection {
    /// The word for it, as in answers, metrics and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::InitContainer => "init-container",
            Self::Cni => "cni",
            Self::None => "none",
        }
    }

    /// What `linkerd.io/setup-iptables` says where it was chosen.
    pub fn annotation(self) -> &'static str {
        match self {
            Self::InitContainer => "init-container",
            Self::Cni => "cni",
            Self::None => "false",
        }
    }
}

impl fmt::Display for Redirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
