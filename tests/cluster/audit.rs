//! What the API server writes down: every request of the accounts of the webhook, the probe and the egress controller, and every
//! pod that somebody creates.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{account, repository};

/// A request that was answered, as the audit log has it (`audit.k8s.io/v1`, level `Metadata`).
#[derive(Clone, Debug)]
pub(crate) struct AuditEvent(Value);

impl AuditEvent {
    /// Whether the webhook's account asked.
    pub(crate) fn is_of_the_webhook(&self) -> bool {
        self.text("/user/username") == account::USER
    }

    /// Whether the probe's account asked.
    pub(crate) fn is_of_the_probe(&self) -> bool {
        self.text("/user/username") == account::PROBE
    }

    /// Whether the egress controller's account asked.
    pub(crate) fn is_of_the_controller(&self) -> bool {
        self.text("/user/username") == account::CONTROLLER
    }

    /// The right that the request needs, `get apps/replicasets`; nothing where it is about no resource.
    pub(crate) fn right(&self) -> Option<String> {
        let resource = self.0.pointer("/objectRef/resource")?.as_str()?;
        let resource = match self.text("/objectRef/subresource") {
            "" => resource.to_owned(),
            subresource => format!("{resource}/{subresource}"),
        };
        Some(right(self.text("/verb"), self.text("/objectRef/apiGroup"), &resource))
    }

    /// The name of the object that the request is about.
    pub(crate) fn name(&self) -> &str {
        self.text("/objectRef/name")
    }

    /// The namespace of the object that the request is about.
    pub(crate) fn namespace(&self) -> &str {
        self.text("/objectRef/namespace")
    }

    pub(crate) fn code(&self) -> u64 {
        self.0
            .pointer("/responseStatus/code")
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }

    /// An annotation that an admission plugin or a webhook left.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.0.get("annotations")?.get(key)?.as_str()
    }

    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// A right in words: `get apps/replicasets`, `list nodes`.
fn right(verb: &str, group: &str, resource: &str) -> String {
    match group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {group}/{resource}"),
    }
}

/// The rights that the roles in a file of the repository give.
pub(crate) fn granted(file: &str) -> BTreeSet<String> {
    granted_by(&fs::read_to_string(repository().join(file)).expect("the manifest is there"))
}

/// The rights that the roles of manifests give.
pub(crate) fn granted_by(text: &str) -> BTreeSet<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("the manifest is YAML");
    let is_role = |object: &&Value| object["kind"] == "ClusterRole" || object["kind"] == "Role";
    let rules = documents
        .iter()
        .filter(is_role)
        .flat_map(|role| role["rules"].as_array().expect("a role has rules"));
    let strings = |rule: &Value, key: &str| -> Vec<String> {
        serde_json::from_value(rule[key].clone()).expect("a rule has lists of texts")
    };
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                rights.extend(strings(rule, "verbs").iter().map(|verb| right(verb, &group, &resource)));
            }
        }
    }
    rights
}

/// What the API server is told to write down. A watch is written down when it begins, not when it ends.
pub(super) fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "users": [account::USER, account::PROBE, account::CONTROLLER]},
            {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
            {"level": "None"},
        ],
    })
}

/// Where it writes.
pub(super) fn log(scratch: &Path) -> PathBuf {
    scratch.join("audit.log")
}

/// What it has written so far.
pub(super) fn read(scratch: &Path) -> Vec<AuditEvent> {
    let text = fs::read_to_string(log(scratch)).unwrap_or_default();
    // The last line may be under way.
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.map(AuditEvent).collect()
}
