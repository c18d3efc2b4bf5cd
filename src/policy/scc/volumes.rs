//! Which volumes a constraint lets a pod have.

use serde_json::Value;

use super::constraint::{Constraint, strings};
use super::wording::invalid;
use crate::pod::{self, Pod};
use crate::policy::quoting::go_quoted;

/// The sources of volumes: the field of a volume, and the word for it in constraints.
const SOURCES: [(&str, &str); 29] = [
    ("hostPath", "hostPath"),
    ("emptyDir", "emptyDir"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("gitRepo", "gitRepo"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("flexVolume", "flexVolume"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("flocker", "flocker"),
    ("downwardAPI", "downwardAPI"),
    ("fc", "fc"),
    ("azureFile", "azureFile"),
    ("configMap", "configMap"),
    ("vsphereVolume", "vsphere"),
    ("quobyte", "quobyte"),
    ("azureDisk", "azureDisk"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("projected", "projected"),
    ("portworxVolume", "portworxVolume"),
    ("scaleIO", "scaleIO"),
    ("storageos", "storageOS"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
];

/// Types that say nothing of a constraint's restrictiveness.
const TRIVIAL: [&str; 6] = ["secret", "configMap", "emptyDir", "downwardAPI", "projected", "none"];

/// The types of volumes that a constraint allows.
#[derive(Clone, Debug)]
pub(super) struct VolumeTypes {
    all: bool,
    names: Vec<String>,
}

impl VolumeTypes {
    /// Reads `volumes` and `allowHostDirVolumePlugin`, of which the latter alone decides on `hostPath`. An absent list
    /// allows every type, an empty one none.
    pub(super) fn read(object: &Value) -> Self {
        let mut names = strings(object, "volumes");
        let all = !object.get("volumes").is_some_and(Value::is_array) || names.iter().any(|name| name == "*");
        let host_paths = pod::boolean(object, "allowHostDirVolumePlugin") == Some(true);
        names.retain(|name| !matches!(name.as_str(), "*" | "hostPath"));
        if all && !host_paths {
            let sources = SOURCES.iter().map(|&(_, word)| word);
            names.extend(sources.filter(|word| *word != "hostPath").map(str::to_owned));
        }
        if host_paths {
            names.push("hostPath".to_owned());
        }
        Self {
            all: all && host_paths,
            names,
        }
    }

    /// Whether there is any type beyond those that every pod needs.
    pub(super) fn are_trivial(&self) -> bool {
        !self.all && self.names.iter().all(|name| TRIVIAL.contains(&name.as_str()))
    }

    /// Whether `hostPath` is one.
    pub(super) fn allow_host_paths(&self) -> bool {
        self.has("hostPath")
    }

    fn has(&self, word: &str) -> bool {
        self.all || self.names.iter().any(|name| name == word)
    }
}

/// What is wrong with the volumes of `pod`; `spec` is the path of its specification.
pub(super) fn check(constraint: &Constraint, pod: &Pod<'_>, spec: &str, errors: &mut Vec<String>) {
    let types = &constraint.volumes;
    for (index, volume) in pod.volumes().iter().enumerate() {
        if types.all {
            break;
        }
        let path = format_args!("{spec}.volumes[{index}]");
        match word(volume) {
            None => errors.push(invalid(
                path,
                "\"\"",
                format_args!("unknown volume type for volume: {}", pod::container_name(volume)),
            )),
            Some(word) if types.has(word) || (types.has("secret") && is_token(volume)) => {}
            Some(word) => errors.push(invalid(
                path,
                go_quoted(word),
                format_args!("{word} volumes are not allowed to be used"),
            )),
        }
    }
    if !constraint.flex_drivers.is_empty() && types.has("flexVolume") {
        check_flex(constraint, pod, spec, errors);
    }
}

fn check_flex(constraint: &Constraint, pod: &Pod<'_>, spec: &str, errors: &mut Vec<String>) {
    for (index, volume) in pod.volumes().iter().enumerate() {
        let Some(flex) = pod::object(volume, "flexVolume") else {
            continue;
        };
        let driver = pod::text(flex, "driver").unwrap_or_default();
        if !constraint.flex_drivers.iter().any(|allowed| allowed == driver) {
            errors.push(invalid(
                format_args!("{spec}.volumes[{index}].driver"),
                go_quoted(driver),
                "Flexvolume driver is not allowed to be used",
            ));
        }
    }
}

/// The word for the volumes whose source is the field `field`; nothing where it is not known.
pub(super) fn type_of_field(field: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == field).map(|&(_, word)| word)
}

/// The word for the source of `volume`; nothing where it is not known. One without a source is an `emptyDir`.
fn word(volume: &Value) -> Option<&'static str> {
    let known = SOURCES.iter().find(|(field, _)| pod::object(volume, field).is_some());
    let bare = || {
        let fields = volume.as_object().into_iter().flatten();
        fields
            .filter(|(_, value)| !value.is_null())
            .all(|(key, _)| key == "name")
            .then_some("emptyDir")
    };
    known.map(|&(_, word)| word).or_else(bare)
}

/// Whether `volume` is what the API server mounts for a service account, which passes for a secret.
fn is_token(volume: &Value) -> bool {
    let Some(projected) = pod::object(volume, "projected") else {
        return false;
    };
    pod::list(projected, "sources").all(is_token_source)
}

fn is_token_source(source: &Value) -> bool {
    let part = |key| pod::object(source, key);
    let (token, map, downward) = (part("serviceAccountToken"), part("configMap"), part("downwardAPI"));
    let token_fits = token.is_none_or(|token| {
        pod::text(token, "path") == Some("token") && pod::text(token, "audience").unwrap_or_default().is_empty()
    });
    let map_fits = map.is_none_or(|map| match pod::text(map, "name") {
        Some("kube-root-ca.crt") => holds_only(map, "ca.crt"),
        Some("openshift-service-ca.crt") => holds_only(map, "service-ca.crt"),
        _ => false,
    });
    let is_namespace = |item: &Value| {
        let reference = pod::object(item, "fieldRef");
        let field = |key| reference.and_then(|reference| pod::text(reference, key));
        pod::text(item, "path") == Some("namespace")
            && field("apiVersion").is_none_or(|version| version == "v1")
            && field("fieldPath") == Some("metadata.namespace")
    };
    let downward_fits = downward.is_none_or(|downward| pod::list(downward, "items").all(is_namespace));
    (token.is_some() || map.is_some() || downward.is_some()) && token_fits && map_fits && downward_fits
}

/// Whether `map` projects one item, `key` under its own name.
fn holds_only(map: &Value, key: &str) -> bool {
    let is_key = |item: &Value| pod::text(item, "key") == Some(key) && pod::text(item, "path") == Some(key);
    pod::list(map, "items").count() == 1 && pod::list(map, "items").all(is_key)
}
