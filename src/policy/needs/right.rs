//! The right to use a policy, as RBAC objects.

use crate::policy::Usable;
use serde_json::{Value, json};

/// A `Role` and its `RoleBinding`, both called `name`, that let the service accounts `accounts` of `namespace` use `policy`.
pub fn right<'a>(
    usable: Usable,
    policy: &str,
    name: &str,
    namespace: &str,
    accounts: impl IntoIterator<Item = &'a str>,
) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": namespace});
    let rule = json!({
        "apiGroups": usable.groups(),
        "resources": [usable.resource()],
        "resourceNames": [policy],
        "verbs": ["use"],
    });
    let subjects: Vec<_> = accounts
        .into_iter()
        .map(|account| json!({"kind": "ServiceAccount", "name": account, "namespace": namespace}))
        .collect();
    let version = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects,
        }),
    ]
}
