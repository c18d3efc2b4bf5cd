//! Containers as structures.

use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The fields of a container that injection sets, in the API's spelling; the environment apart.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    pub(super) name: &'static str,
    pub(super) image: String,
    pub(super) image_pull_policy: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) args: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<ContainerPort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lifecycle: Option<Lifecycle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) liveness_probe: Option<Probe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readiness_probe: Option<Probe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) startup_probe: Option<Probe>,
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub(super) resources: Resources<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) security_context: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) termination_message_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume_mounts: Vec<VolumeMount<'a>>,
}

impl Container<'_> {
    /// The container as JSON.
    pub(super) fn into_value(self) -> Value {
        // Every field is a string, a number, a boolean or a container of those, with strings as keys: none can fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// `EnvVar`, or one that the configuration gave as it is.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum EnvVar<'a> {
    Value {
        name: Cow<'a, str>,
        value: Cow<'a, str>,
    },
    Field {
        name: &'static str,
        #[serde(rename = "valueFrom")]
        value_from: FieldSource,
    },
    Given(&'a Value),
}

/// `EnvVarSource` with a `fieldRef`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldSource {
    pub(super) field_ref: FieldRef,
}

/// `ObjectFieldSelector`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldRef {
    pub(super) field_path: &'static str,
}

/// `ContainerPort`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerPort {
    pub(super) container_port: i32,
    pub(super) name: &'static str,
}

/// `VolumeMount`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeMount<'a> {
    pub(super) mount_path: &'a str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) read_only: bool,
}

/// `Lifecycle`
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lifecycle {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) post_start: Option<Exec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pre_stop: Option<Exec>,
}

/// A handler or probe that runs a command.
#[derive(Debug, Serialize)]
pub(super) struct Exec {
    pub(super) exec: Command,
}

impl Exec {
    pub(super) fn new(command: impl IntoIterator<Item = String>) -> Self {
        Self {
            exec: Command {
                command: command.into_iter().collect(),
            },
        }
    }
}

/// `ExecAction`
#[derive(Debug, Serialize)]
pub(super) struct Command {
    command: Vec<String>,
}

/// `Probe`
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http_get: Option<HttpGet>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) exec: Option<Exec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initial_delay_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_threshold: Option<i64>,
}

/// `HTTPGetAction`
#[derive(Debug, Serialize)]
pub(super) struct HttpGet {
    pub(super) path: &'static str,
    pub(super) port: i32,
}

/// `ResourceRequirements`
#[derive(Debug, Default, Serialize)]
pub(super) struct Resources<'a> {
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub(super) limits: Amounts<'a>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub(super) requests: Amounts<'a>,
}

impl Resources<'_> {
    fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.requests.is_empty()
    }
}

/// One quantity a resource; an empty text is none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Amounts<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) cpu: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) ephemeral_storage: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) memory: &'a str,
}

impl Amounts<'_> {
    fn is_empty(&self) -> bool {
        [self.cpu, self.ephemeral_storage, self.memory]
            .into_iter()
            .all(str::is_empty)
    }
}
