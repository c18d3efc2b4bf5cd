//! The network configuration on standard input: the keys of Linkerd's plugin, and a few of our own under `outrigger`.
//!
//! Keys that are not ours are passed over; they are other plugins' and the runtime's.

use super::call::is_identifier;
use super::failure::Failure;
use super::version::Version;
use crate::redirect::apply::{Mode, ModeError};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Where the agent listens unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/outrigger/cni.sock";

/// Namespaces whose pods never get rules: the node's own pods, and those of Linkerd's plugin or ours.
const DEFAULT_EXCLUDED: [&str; 2] = ["kube-system", "linkerd-cni"];

/// A network configuration that was decoded and is sound as such.
#[derive(Debug)]
pub struct NetworkConfig<'a> {
    /// Its version, that of all answers.
    pub version: Version,
    document: Document<'a>,
}

#[derive(Debug, Deserialize)]
struct Document<'a> {
    name: Option<String>,
    #[serde(rename = "prevResult", borrow)]
    prev_result: Option<&'a RawValue>,
    log_level: Option<String>,
    kubernetes: Option<Kubernetes>,
    linkerd: Option<Linkerd>,
    outrigger: Option<Outrigger>,
}

#[derive(Debug, Deserialize)]
struct Kubernetes {
    kubeconfig: Option<String>,
}

/// The rules' arguments where the pod itself does not say them; those of Linkerd's plugin, absent or null alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Linkerd {
    /// The proxy's port for incoming connections.
    pub incoming_proxy_port: Option<i64>,
    /// The proxy's port for outgoing connections.
    pub outgoing_proxy_port: Option<i64>,
    /// The proxy's user.
    pub proxy_uid: Option<i64>,
    /// The proxy's group.
    pub proxy_gid: Option<i64>,
    /// The only ports whose incoming connections are redirected.
    pub ports_to_redirect: Option<Vec<i64>>,
    /// Ports of the pod that are reached directly.
    pub inbound_ports_to_ignore: Option<Vec<String>>,
    /// Ports elsewhere that are reached directly.
    pub outbound_ports_to_ignore: Option<Vec<String>>,
    /// Sources that reach the pod directly.
    pub subnets_to_ignore: Option<Vec<String>>,
    /// Says what would be done and does nothing.
    pub simulate: Option<bool>,
    /// Rules for IPv6 too.
    pub ipv6: Option<bool>,
    iptables_mode: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Outrigger {
    socket: Option<String>,
    exclude_namespaces: Option<Vec<String>>,
    own_pods: Option<OwnPods>,
}

/// The pods that install the plugin and so must start without it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OwnPods {
    namespace: String,
    name_prefix: String,
}

/// As much of a configuration as is needed to answer in its version.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "cniVersion")]
    version: Option<String>,
}

/// The version that a configuration names; the latest where it names none that is known.
pub fn version_of(text: &str) -> Version {
    let head: Option<Head> = serde_json::from_str(text).ok();
    let version = head.and_then(|head| head.version?.parse().ok());
    version.unwrap_or(Version::LATEST)
}

impl<'a> NetworkConfig<'a> {
    /// Decodes `text`.
    ///
    /// # Errors
    /// Where it is no JSON, has a wrong type, a version that is not spoken here, or no name.
    pub fn parse(text: &'a str) -> Result<Self, Failure> {
        let version = version(text)?;
        let document: Document<'a> = decode(text)?;
        let name = document.name.as_deref().unwrap_or_default();
        if !is_identifier(name) {
            return Err(Failure::Config {
                key: "name",
                why: format!("{name:?} is no name of a network; expected letters, digits and any of _ . -"),
            });
        }
        let previous = document.prev_result.map_or("{}", RawValue::get);
        if !previous.starts_with('{') {
            return Err(Failure::Config {
                key: "prevResult",
                why: "expected the result of the plugin before, an object".to_owned(),
            });
        }
        Ok(Self { version, document })
    }

    /// The result of the plugin before, as it was written; `None` where there is none.
    pub fn previous(&self) -> Option<&'a str> {
        self.document.prev_result.map(RawValue::get)
    }

    /// The least severe messages that are logged.
    pub fn log_level(&self) -> LogLevel {
        match self
            .document
            .log_level
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase()
            .as_str()
        {
            "debug" | "trace" => LogLevel::Debug,
            "info" => LogLevel::Info,
            _ => LogLevel::Warn,
        }
    }

    /// Path of the file with credentials for the API server.
    pub fn kubeconfig(&self) -> Option<&str> {
        let path = self.document.kubernetes.as_ref()?.kubeconfig.as_deref();
        path.filter(|path| !path.is_empty())
    }

    /// Path of the agent's socket.
    pub fn socket(&self) -> &str {
        let path = self.document.outrigger.as_ref().and_then(|own| own.socket.as_deref());
        path.unwrap_or(DEFAULT_SOCKET)
    }

    /// The rules' arguments for pods that do not say them.
    pub fn linkerd(&self) -> Linkerd {
        self.document.linkerd.clone().unwrap_or_default()
    }

    /// By which means rules are written: the first that works, unless the configuration says otherwise.
    ///
    /// # Errors
    /// Where it says what is none.
    pub fn mode(&self) -> Result<Mode, Failure> {
        let mode = self
            .document
            .linkerd
            .as_ref()
            .and_then(|linkerd| linkerd.iptables_mode.as_deref());
        match mode.unwrap_or_default() {
            "" => Ok(Mode::Auto),
            text => text.parse().map_err(|error: ModeError| Failure::Config {
                key: "linkerd.iptables-mode",
                why: error.to_string(),
            }),
        }
    }

    /// Whether no pod of `namespace` ever gets rules.
    pub fn excludes(&self, namespace: &str) -> bool {
        let own = self
            .document
            .outrigger
            .as_ref()
            .and_then(|own| own.exclude_namespaces.as_ref());
        namespace == DEFAULT_EXCLUDED[0]
            || match own {
                Some(list) => list.iter().any(|name| name == namespace),
                None => DEFAULT_EXCLUDED.contains(&namespace),
            }
    }

    /// Whether a pod is one of those that install the plugin.
    pub fn is_own_pod(&self, namespace: &str, name: &str) -> bool {
        let own = self.document.outrigger.as_ref().and_then(|own| own.own_pods.as_ref());
        own.is_some_and(|own| {
            own.namespace == namespace && !own.name_prefix.is_empty() && name.starts_with(&own.name_prefix)
        })
    }
}

/// Which messages are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What should be looked at.
    Warn,
    /// What was done, a line a pod.
    Info,
    /// Everything.
    Debug,
}

/// An absent version means 0.1.0, says the specification; that has no chains and is not spoken here.
fn version(text: &str) -> Result<Version, Failure> {
    let head: Head = decode(text)?;
    let version = head.version.filter(|version| !version.is_empty());
    Ok(version.as_deref().unwrap_or("0.1.0").parse::<Version>()?)
}

fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| Failure::Decode(error.to_string()))?;
    deserializer.end().map_err(|error| Failure::Decode(error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests;
