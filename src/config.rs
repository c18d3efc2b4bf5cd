//! Configuration: the installation's values document and trust anchors, overridden by the annotations of a namespace
//! and of a pod.
//!
//! [`Installation`] is what changes seldom, read and prepared once; [`Settings`] are what namespace and pod ask for, and
//! [`Config`] is what applies to the pod for that, each field with its origin. This room is pure: the bytes of the
//! documents are handed in.

pub mod annotation;
pub mod difference;
pub mod values;

mod additional_env;
mod document;
mod effective;
mod fence;
mod grammar;
mod installation;
pub(crate) mod opaque_ports;
mod overrides;
mod problem;
mod security_contexts;
mod settings;
mod skip_lists;
mod validation;
mod variant;

pub use annotation::Origin;
pub use effective::{Config, Overridden};
pub use installation::{ConfigError, Installation};
pub use opaque_ports::Ranges;
pub use overrides::{Described, Unreadable, described as annotations};
pub(crate) use problem::quote;
pub use problem::{Consequence, Problem};
pub use settings::{Layers, NamespaceLayer, Settings};
pub use variant::{Demand, Figures, Users, Variant};
