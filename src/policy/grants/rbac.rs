//! Roles and their bindings, as far as they are about the use of policies.

use serde_json::Value;

use super::{Names, Usable};
use crate::pod;

/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// A `Role` or `ClusterRole` that lets somebody `use` a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Nothing for a `ClusterRole`.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pod_security_policies: Names,
    constraints: Names,
}

/// A `RoleBinding` or `ClusterRoleBinding` that binds a role to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Where it holds: everywhere for a `ClusterRoleBinding`.
    pub(super) namespace: Option<String>,
    role: String,
    /// Whether that is the name of a `ClusterRole`.
    of_cluster: bool,
    pub(super) subjects: Vec<Subject>,
}

/// Whom a role is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(String),
    Group(String),
}

impl Role {
    /// Reads an object; nothing where it is no role, or lets nobody use any policy.
    pub fn read(object: &Value) -> Option<Self> {
        let namespace = match kind(object)? {
            "Role" => Some(namespace(object).to_owned()),
            "ClusterRole" => None,
            _ => return None,
        };
        let role = Self {
            namespace,
            name: name(object).to_owned(),
            pod_security_policies: Names::of_rules(object, Usable::PodSecurityPolicies),
            constraints: Names::of_rules(object, Usable::SecurityContextConstraints),
        };
        let none = Names::default();
        (role.pod_security_policies != none || role.constraints != none).then_some(role)
    }

    pub(super) fn names(&self, usable: Usable) -> &Names {
        match usable {
            Usable::PodSecurityPolicies => &self.pod_security_policies,
            Usable::SecurityContextConstraints => &self.constraints,
        }
    }
}

impl Binding {
    /// Reads an object; nothing where it is no binding, or binds nothing to anybody.
    pub fn read(object: &Value) -> Option<Self> {
        let namespace = match kind(object)? {
            "RoleBinding" => Some(namespace(object)),
            "ClusterRoleBinding" => None,
            _ => return None,
        };
        let role = object.get("roleRef")?;
        let of_cluster = match (pod::text(role, "kind")?, namespace) {
            ("ClusterRole", _) => true,
            ("Role", Some(_)) => false,
            // Nothing else can be bound.
            _ => return None,
        };
        let subjects = pod::list(object, "subjects").filter_map(|subject| Subject::read(subject, namespace));
        let binding = Self {
            role: pod::text(role, "name")?.to_owned(),
            of_cluster,
            subjects: subjects.collect(),
            namespace: namespace.map(str::to_owned),
        };
        (!binding.subjects.is_empty()).then_some(binding)
    }

    /// Namespace and name of the role; no namespace for a `ClusterRole`.
    pub(super) fn role(&self) -> (Option<&str>, &str) {
        let namespace = self.namespace.as_deref().filter(|_| !self.of_cluster);
        (namespace, &self.role)
    }
}

impl Subject {
    fn read(subject: &Value, namespace: Option<&str>) -> Option<Self> {
        let name = pod::text(subject, "name").unwrap_or_default();
        match pod::text(subject, "kind")? {
            "User" => Some(Self::User(name.to_owned())),
            "Group" => Some(Self::Group(name.to_owned())),
            "ServiceAccount" => {
                let own = pod::text(subject, "namespace").filter(|namespace| !namespace.is_empty());
                let namespace = own.or(namespace)?;
                Some(Self::User(super::user_of_account(namespace, name)))
            }
            _ => None,
        }
    }
}

/// The kind of an RBAC object.
fn kind(object: &Value) -> Option<&str> {
    let version = pod::text(object, "apiVersion")?;
    let kind = pod::text(object, "kind")?;
    version.starts_with("rbac.authorization.k8s.io/").then_some(kind)
}

fn name(object: &Value) -> &str {
    let metadata = object.get("metadata");
    metadata
        .and_then(|metadata| pod::text(metadata, "name"))
        .unwrap_or_default()
}

fn namespace(object: &Value) -> &str {
    let metadata = object.get("metadata");
    metadata
        .and_then(|metadata| pod::text(metadata, "namespace"))
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or(DEFAULT_NAMESPACE)
}
