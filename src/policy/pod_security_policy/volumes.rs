//! What a policy says of volumes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::contexts::places;
use super::object::{HostPath, Spec};
use super::wording::{Errors, Text};
use crate::pod::{self, Pod};

/// What allows every type.
const ANY: &str = "*";

/// The type of a volume without a source that these servers know: they drop what they do not know, and a volume without
/// a source is an `emptyDir`.
const NO_SOURCE: &str = "emptyDir";

/// The sources that these servers know, in the order in which one is looked for.
const SOURCES: [&str; 29] = [
    "hostPath",
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "storageos",
    "projected",
    "portworxVolume",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// What a policy says.
#[derive(Clone, Debug)]
pub(super) struct VolumeRule {
    types: BTreeSet<String>,
    host_paths: Vec<HostPath>,
    flex_drivers: Vec<String>,
    csi_drivers: Vec<String>,
}

/// What a policy says of one path on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathVerdict {
    Allowed,
    AllowedReadOnly,
    Refused,
}

impl VolumeRule {
    /// Takes what concerns volumes out of `spec`.
    pub(super) fn take(spec: &mut Spec) -> Self {
        let drivers = std::mem::take(&mut spec.allowed_flex_volumes);
        let csi_drivers = std::mem::take(&mut spec.allowed_csi_drivers);
        Self {
            types: std::mem::take(&mut spec.volumes).into_iter().collect(),
            host_paths: std::mem::take(&mut spec.allowed_host_paths),
            flex_drivers: drivers.into_iter().map(|volume| volume.driver).collect(),
            csi_drivers: csi_drivers.into_iter().map(|driver| driver.name).collect(),
        }
    }

    /// Judges the volumes of `pod`.
    pub(super) fn check(&self, pod: &Pod<'_>, errors: &mut Errors) {
        for (index, volume) in pod.volumes().iter().enumerate() {
            let (kind, source) = source(volume);
            if !self.allows(kind, source) {
                let path = format_args!("spec.volumes[{index}]");
                let why = format!("{kind} volumes are not allowed to be used");
                errors.invalid(&path, Text(kind), &why);
                continue;
            }
            match kind {
                "hostPath" => self.check_host_path(pod, index, volume, errors),
                "flexVolume" if !allows_driver(&self.flex_drivers, source) => {
                    let path = format_args!("spec.volumes[{index}].driver");
                    errors.invalid(
                        &path,
                        Text(driver(source)),
                        "Flexvolume driver is not allowed to be used",
                    );
                }
                "csi" if !allows_driver(&self.csi_drivers, source) => {
                    let path = format_args!("spec.volumes[{index}].csi.driver");
                    errors.invalid(
                        &path,
                        Text(driver(source)),
                        "Inline CSI driver is not allowed to be used",
                    );
                }
                _ => {}
            }
        }
    }

    fn allows(&self, kind: &str, source: &Value) -> bool {
        let types = &self.types;
        types.contains(ANY)
            || types.contains(kind)
            // What a service account's token brings is allowed as the secret was that held it once.
            || kind == "projected" && types.contains("secret") && is_account_token(source)
    }

    fn check_host_path(&self, pod: &Pod<'_>, index: usize, volume: &Value, errors: &mut Errors) {
        let path = volume
            .get("hostPath")
            .and_then(|source| pod::text(source, "path"))
            .unwrap_or_default();
        match self.host_path(path) {
            PathVerdict::Allowed => {}
            PathVerdict::Refused => {
                let place = format_args!("spec.volumes[{index}].hostPath.pathPrefix");
                errors.invalid(&place, Text(path), "is not allowed to be used");
            }
            PathVerdict::AllowedReadOnly => {
                let name = pod::container_name(volume);
                for (place, container) in places(pod).zip(pod.all_containers()) {
                    for (index, mount) in pod::list(container, "volumeMounts").enumerate() {
                        if pod::container_name(mount) == name && pod::boolean(mount, "readOnly") != Some(true) {
                            let path = format_args!("{place}.volumeMounts[{index}].readOnly");
                            errors.invalid(&path, false, "must be read-only");
                        }
                    }
                }
            }
        }
    }

    fn host_path(&self, path: &str) -> PathVerdict {
        if self.host_paths.is_empty() {
            return PathVerdict::Allowed;
        }
        let mut matching = self
            .host_paths
            .iter()
            .filter(|allowed| lies_below(path, &allowed.path_prefix));
        let Some(first) = matching.next() else {
            return PathVerdict::Refused;
        };
        if first.read_only && matching.all(|allowed| allowed.read_only) {
            PathVerdict::AllowedReadOnly
        } else {
            PathVerdict::Allowed
        }
    }
}

/// The type of a volume by a policy's words, and its source.
fn source(volume: &Value) -> (&'static str, &Value) {
    let found = SOURCES
        .into_iter()
        .find_map(|key| pod::object(volume, key).map(|source| (key, source)));
    match found {
        Some((field, source)) => (word(field), source),
        None => (NO_SOURCE, &Value::Null),
    }
}

/// A policy's word for the volumes whose source is the field `field`; nothing where these servers do not know it.
pub(super) fn type_of_field(field: &str) -> Option<&'static str> {
    SOURCES.into_iter().find(|known| *known == field).map(word)
}

/// The type of a source; one has another name than its field.
fn word(field: &'static str) -> &'static str {
    match field {
        "cephfs" => "cephFS",
        field => field,
    }
}

fn driver(source: &Value) -> &str {
    pod::text(source, "driver").unwrap_or_default()
}

/// No drivers listed means any.
fn allows_driver(drivers: &[String], source: &Value) -> bool {
    drivers.is_empty() || drivers.iter().any(|allowed| allowed == driver(source))
}

/// Whether `path` is `prefix` or lies below it; one slash at either end does not count.
fn lies_below(path: &str, prefix: &str) -> bool {
    let trimmed = |text| str::strip_suffix(text, '/').unwrap_or(text);
    trimmed(path)
        .strip_prefix(trimmed(prefix))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a projected volume holds nothing but what the volume of a service account's token does.
fn is_account_token(source: &Value) -> bool {
    pod::list(source, "sources").all(|source| {
        let text = |object, key| pod::text(object, key).unwrap_or_default();
        let token = pod::object(source, "serviceAccountToken");
        let config_map = pod::object(source, "configMap");
        let downward_api = pod::object(source, "downwardAPI");
        (token.is_some() || config_map.is_some() || downward_api.is_some())
            && token.is_none_or(|token| text(token, "path") == "token" && text(token, "audience").is_empty())
            && config_map.is_none_or(|map| text(map, "name") == "kube-root-ca.crt")
            && downward_api.is_none_or(|api| pod::list(api, "items").all(is_namespace_file))
    })
}

fn is_namespace_file(item: &Value) -> bool {
    let namespace_field = |field: &Value| {
        // The API's default for a version that is not there is v1.
        let version = pod::text(field, "apiVersion").unwrap_or_default();
        matches!(version, "" | "v1") && pod::text(field, "fieldPath") == Some("metadata.namespace")
    };
    pod::text(item, "path") == Some("namespace") && pod::object(item, "fieldRef").is_some_and(namespace_field)
}
