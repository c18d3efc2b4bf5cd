//! The kinds of objects that policies are compiled from.

use serde_json::Value;

use crate::pod;

/// A kind of object that policies are compiled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `PodSecurityPolicy`
    PodSecurityPolicy,
    /// `SecurityContextConstraints`
    Constraint,
    /// `Role`
    Role,
    /// `ClusterRole`
    ClusterRole,
    /// `RoleBinding`
    RoleBinding,
    /// `ClusterRoleBinding`
    ClusterRoleBinding,
    /// `LimitRange`
    LimitRange,
    /// `ResourceQuota`
    ResourceQuota,
}

/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

impl Source {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::PodSecurityPolicy,
        Self::Constraint,
        Self::Role,
        Self::ClusterRole,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
        Self::LimitRange,
        Self::ResourceQuota,
    ];

    /// The API group, empty for the core group.
    pub fn group(self) -> &'static str {
        self.names().0
    }

    /// The version of the group that is read.
    pub fn version(self) -> &'static str {
        self.names().1
    }

    /// The kind.
    pub fn kind(self) -> &'static str {
        self.names().2
    }

    /// The resource, plural.
    pub fn resource(self) -> &'static str {
        self.names().3
    }

    /// Group, version, kind, resource.
    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        const RBAC: &str = "rbac.authorization.k8s.io";
        match self {
            Self::PodSecurityPolicy => ("policy", "v1beta1", "PodSecurityPolicy", "podsecuritypolicies"),
            Self::Constraint => (
                "security.openshift.io",
                "v1",
                "SecurityContextConstraints",
                "securitycontextconstraints",
            ),
            Self::Role => (RBAC, "v1", "Role", "roles"),
            Self::ClusterRole => (RBAC, "v1", "ClusterRole", "clusterroles"),
            Self::RoleBinding => (RBAC, "v1", "RoleBinding", "rolebindings"),
            Self::ClusterRoleBinding => (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
            Self::LimitRange => ("", "v1", "LimitRange", "limitranges"),
            Self::ResourceQuota => ("", "v1", "ResourceQuota", "resourcequotas"),
        }
    }

    /// Group and version as `apiVersion` has them.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Whether its objects have a namespace.
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::Role | Self::RoleBinding | Self::LimitRange | Self::ResourceQuota => true,
            Self::PodSecurityPolicy | Self::Constraint | Self::ClusterRole | Self::ClusterRoleBinding => false,
        }
    }

    /// The kind of `object`, in whatever version of its group; nothing where it is another.
    pub fn of(object: &Value) -> Option<Self> {
        let version = pod::text(object, "apiVersion")?;
        let kind = pod::text(object, "kind")?;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let known = Self::ALL.into_iter().find(|source| source.kind() == kind)?;
        // Where PodSecurityPolicy was before 1.16, and stands in manifests still.
        let is_old = known == Self::PodSecurityPolicy && group == "extensions";
        (known.group() == group || is_old).then_some(known)
    }
}

/// Namespace and name of `object`.
pub(super) fn place(object: &Value) -> (&str, &str) {
    let text = |key| {
        let text = object.get("metadata").and_then(|metadata| pod::text(metadata, key));
        text.filter(|text| !text.is_empty())
    };
    let namespace = text("namespace").unwrap_or(DEFAULT_NAMESPACE);
    (namespace, text("name").unwrap_or_default())
}
