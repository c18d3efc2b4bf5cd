//! What the plugin answers when it cannot do what it was asked: the specification's error object.

use super::version::{Version, VersionError};
use crate::redirect::apply::ApplyError;
use serde_json::{Value, json};

/// Why a call failed, in one sentence that names the key or variable at fault. Each has a code of the specification or,
/// from 100 on, of this plugin: see [`Failure::code`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The version of the configuration is not spoken here.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The verb is newer than the version of the configuration.
    #[error("{verb} needs cniVersion {needed} or later, and the network configuration says {given}")]
    TooOld {
        /// The verb.
        verb: &'static str,
        /// The first version that has it.
        needed: Version,
        /// The version of the configuration.
        given: Version,
    },
    /// A variable of the environment is missing or wrong.
    #[error("{variable}{}: {why}", shown(value))]
    Environment {
        /// Its name.
        variable: &'static str,
        /// Its value, empty where it has none.
        value: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Standard input could not be read.
    #[error("standard input cannot be read: {0}")]
    Input(String),
    /// Standard input is no network configuration.
    #[error("the network configuration cannot be decoded: {0}")]
    Decode(String),
    /// A value of the network configuration cannot be used.
    #[error("network configuration: {key}: {why}")]
    Config {
        /// The key.
        key: &'static str,
        /// What is wrong with its value, and what would be right.
        why: String,
    },
    /// Nothing is known about the pod at the moment.
    #[error("try again later: nothing could be learnt about pod {pod}: {why}")]
    TryAgain {
        /// Namespace and name.
        pod: String,
        /// Whom was asked, and what came of it.
        why: String,
    },
    /// Calls of ADD would not succeed at the moment.
    #[error("pods cannot be set up at the moment: {0}")]
    NotReady(String),
    /// The rules could not be written, removed or looked at; they are what they were.
    #[error("{0}")]
    Rules(String),
    /// CHECK found the pod without its rules.
    #[error("the rules of pod {pod} are not in force: {why}")]
    NotInForce {
        /// Namespace and name.
        pod: String,
        /// Where was looked.
        why: String,
    },
    /// The pod asks for what would leave it without network.
    #[error("pod {pod}: {key}: {why}")]
    Pod {
        /// Namespace and name.
        pod: String,
        /// The annotation or field.
        key: &'static str,
        /// What is wrong with its value, and what would be right.
        why: String,
    },
}

// 1 to 99 are the specification's, those from 100 on this plugin's: `docs/cni.md` explains all.
coded! { Failure, self: &Self => u32 {
    Self::Version(_) | Self::TooOld { .. } => 1,
    Self::Environment { .. } => 4,
    Self::Input(_) => 5,
    Self::Decode(_) => 6,
    Self::Config { .. } => 7,
    Self::TryAgain { .. } => 11,
    Self::NotReady(_) => 50,
    Self::Rules(_) => 100,
    Self::NotInForce { .. } => 101,
    Self::Pod { .. } => 102,
} }

impl Failure {
    /// The error object, for a call in `version`.
    pub fn answer(&self, version: Version) -> Value {
        json!({"cniVersion": version.text(), "code": self.code(), "msg": self.to_string()})
    }

    /// Of an error in the namespace at `path`.
    pub fn of_rules(error: &ApplyError) -> Self {
        let ApplyError::Namespace { path, why } = error else {
            return Self::Rules(error.to_string());
        };
        Self::Environment {
            variable: "CNI_NETNS",
            value: path.display().to_string(),
            why: format!("no network namespace that can be entered: {why}"),
        }
    }
}

fn shown(value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!(" {value:?}")
    }
}
