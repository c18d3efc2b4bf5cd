//! The API object, `policy/v1beta1` `PodSecurityPolicy`, as far as the plugin reads it.
//!
//! A field that is absent or null has its type's empty value, as for the API server. What is unknown is not read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

/// A policy as stored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Object {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) annotations: BTreeMap<String, Option<String>>,
}

#[expect(clippy::struct_excessive_bools, reason = "the fields are the API's")]
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object", rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(deserialize_with = "or_empty")]
    pub(super) privileged: bool,
    #[serde(deserialize_with = "items")]
    pub(super) default_add_capabilities: Vec<String>,
    #[serde(deserialize_with = "items")]
    pub(super) required_drop_capabilities: Vec<String>,
    #[serde(deserialize_with = "items")]
    pub(super) allowed_capabilities: Vec<String>,
    #[serde(deserialize_with = "items")]
    pub(super) volumes: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) host_network: bool,
    #[serde(deserialize_with = "items")]
    pub(super) host_ports: Vec<PortRange>,
    #[serde(rename = "hostPID", deserialize_with = "or_empty")]
    pub(super) host_pid: bool,
    #[serde(rename = "hostIPC", deserialize_with = "or_empty")]
    pub(super) host_ipc: bool,
    #[serde(deserialize_with = "or_empty")]
    pub(super) se_linux: SeLinux,
    #[serde(deserialize_with = "or_empty")]
    pub(super) run_as_user: Identities,
    pub(super) run_as_group: Option<Identities>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) supplemental_groups: Identities,
    #[serde(deserialize_with = "or_empty")]
    pub(super) fs_group: Identities,
    #[serde(deserialize_with = "or_empty")]
    pub(super) read_only_root_filesystem: bool,
    pub(super) default_allow_privilege_escalation: Option<bool>,
    pub(super) allow_privilege_escalation: Option<bool>,
    #[serde(deserialize_with = "items")]
    pub(super) allowed_host_paths: Vec<HostPath>,
    #[serde(deserialize_with = "items")]
    pub(super) allowed_flex_volumes: Vec<FlexVolume>,
    #[serde(rename = "allowedCSIDrivers", deserialize_with = "items")]
    pub(super) allowed_csi_drivers: Vec<CsiDriver>,
    #[serde(deserialize_with = "items")]
    pub(super) allowed_unsafe_sysctls: Vec<String>,
    #[serde(deserialize_with = "items")]
    pub(super) forbidden_sysctls: Vec<String>,
    #[serde(deserialize_with = "items")]
    pub(super) allowed_proc_mount_types: Vec<String>,
    pub(super) runtime_class: Option<RuntimeClass>,
}

/// `rule` and `ranges` of users or groups.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Identities {
    #[serde(deserialize_with = "or_empty")]
    pub(super) rule: String,
    #[serde(deserialize_with = "items")]
    pub(super) ranges: Vec<Range>,
}

/// UIDs or GIDs, both ends included. One whose ends are the wrong way round holds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Range {
    #[serde(deserialize_with = "or_empty")]
    pub(super) min: i64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) max: i64,
}

/// Host ports, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct PortRange {
    #[serde(deserialize_with = "or_empty")]
    pub(super) min: i32,
    #[serde(deserialize_with = "or_empty")]
    pub(super) max: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object", rename_all = "camelCase")]
pub(super) struct SeLinux {
    #[serde(deserialize_with = "or_empty")]
    pub(super) rule: String,
    pub(super) se_linux_options: Option<SeLinuxOptions>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct SeLinuxOptions {
    #[serde(deserialize_with = "or_empty")]
    pub(super) user: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) role: String,
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub(super) kind: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) level: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object", rename_all = "camelCase")]
pub(super) struct HostPath {
    #[serde(deserialize_with = "or_empty")]
    pub(super) path_prefix: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) read_only: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct FlexVolume {
    #[serde(deserialize_with = "or_empty")]
    pub(super) driver: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct CsiDriver {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object", rename_all = "camelCase")]
pub(super) struct RuntimeClass {
    #[serde(rename = "allowedRuntimeClassNames", deserialize_with = "items")]
    pub(super) allowed: Vec<String>,
    #[serde(rename = "defaultRuntimeClassName")]
    pub(super) default: Option<String>,
}

impl Metadata {
    /// The value of an annotation; a null one is empty.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations
            .get(key)
            .map(|value| value.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Range {
    /// `{1 2}`, as in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {}}}", self.min, self.max)
    }
}

impl fmt::Display for PortRange {
    /// `80` or `400-9000`, as in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}

/// Null is empty.
pub(super) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Null is an empty list, and so is a null item an empty one.
pub(super) fn items<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let items: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(items.into_iter().flatten().map(Option::unwrap_or_default).collect())
}
