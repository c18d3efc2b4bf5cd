//! What templates have made, taken apart into objects, and put into the order in which they are created.

use super::only_document;
use anyhow::{Context as _, Result};
use regex::Regex;
use serde_json::Value;
use std::fmt;
use std::sync::LazyLock;

/// One object.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Manifest {
    /// The template that it is from, with the chart's name: `outrigger/templates/service.yaml`.
    pub(in crate::cli) source: String,
    /// The object as it was written, comments and all.
    pub(in crate::cli) text: String,
    /// The same, read.
    pub(in crate::cli) object: Value,
}

impl fmt::Display for Manifest {
    /// As `helm template` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "---\n# Source: {}\n{}\n", self.source, self.text)
    }
}

/// In which order kinds are created (`InstallOrder` of Helm, as far as our charts have them). Others come after them, by
/// name: registrations of webhooks, policies, monitors.
const ORDER: [&str; 17] = [
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
];

/// What separates objects, for Helm.
static SEPARATOR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?:^|\s*\n)---\s*").ok());

impl Manifest {
    /// The kind of the object.
    pub(in crate::cli) fn kind(&self) -> &str {
        self.object.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Where its kind comes among all kinds.
    pub(in crate::cli) fn rank(&self) -> (usize, &str) {
        let kind = self.kind();
        match ORDER.iter().position(|known| *known == kind) {
            Some(place) => (place, ""),
            None => (ORDER.len(), kind),
        }
    }

    /// Whether Helm creates it for a test and the like, and not as a part of what is installed.
    fn is_hook(&self) -> bool {
        self.object.pointer("/metadata/annotations/helm.sh~1hook").is_some()
    }
}

/// The objects in `files` (path, text), those of a kind in the order of the files.
///
/// # Errors
/// Where a template has made what is no YAML.
pub(super) fn sorted(chart: &str, files: &[(&str, String)]) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for (path, text) in files {
        let text = text.trim();
        let parts: Vec<_> = match &*SEPARATOR {
            Some(separator) => separator.split(text).collect(),
            None => vec![text],
        };
        for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
            manifests.push(Manifest {
                source: format!("{chart}/{path}"),
                text: part.to_owned(),
                object: only_document(part).with_context(|| format!("{path} of the chart {chart}"))?,
            });
        }
    }
    manifests.retain(|manifest| !manifest.is_hook());
    manifests.sort_by(|one, other| one.rank().cmp(&other.rank()));
    Ok(manifests)
}
