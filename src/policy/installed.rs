//! The admission policies of a cluster, but for Pod Security: compiled once, when its objects change, and shared.
//!
//! Each kind of policy is absent, known, or not to be known; what is known may be out of date.

mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::grants::{Binding, Grants, Role, Usable};
use super::limits::Limits;
use super::{Release, pod_security_policy, scc};

pub use source::Source;
use source::place;

/// The first release without `PodSecurityPolicy`.
pub const WITHOUT_POD_SECURITY_POLICIES: Release = Release(25);

/// Every admission policy of a cluster but Pod Security. A clone shares everything.
#[derive(Clone, Debug)]
pub struct Installed {
    /// `PodSecurityPolicy` objects. That there are some does not prove that the server asks them.
    pub pod_security_policies: Presence<WithGrants<pod_security_policy::Policies>>,
    /// OpenShift's `SecurityContextConstraints`.
    pub constraints: Presence<WithGrants<scc::Constraints>>,
    /// `LimitRange` and `ResourceQuota` objects; never absent.
    pub limits: Presence<LimitsByNamespace>,
}

/// What is known of one kind of policy.
#[derive(Debug)]
pub enum Presence<P> {
    /// The cluster has none, and pods need none.
    Absent,
    /// It is not known whether there are any, nor what they say.
    Unknown {
        /// Why not.
        why: Arc<str>,
    },
    /// They are known.
    Present {
        /// What was compiled.
        policies: Arc<P>,
        /// Why they may be out of date; nothing where they are not.
        stale: Option<Arc<str>>,
    },
}

/// Policies that nobody may use without a grant.
#[derive(Clone, Debug, Default)]
pub struct WithGrants<P> {
    /// The policies.
    pub policies: P,
    /// Who may use which.
    pub grants: Grants,
}

/// What bounds requests and limits, by namespace.
#[derive(Clone, Debug, Default)]
pub struct LimitsByNamespace(BTreeMap<Arc<str>, Limits>);

impl Installed {
    /// Those of a cluster that consists of `objects` and whose server has `release`. Later objects take the place of
    /// earlier ones with the same name. Objects of other kinds are passed over.
    pub fn compile<'o>(objects: impl IntoIterator<Item = &'o Value>, release: Release) -> Self {
        let mut found: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for object in objects {
            if let Some(source) = Source::of(object) {
                found.entry(source).or_default().insert(place(object), object);
            }
        }
        let of = |sources: &[Source]| {
            let objects = sources.iter().filter_map(|source| found.get(source));
            objects
                .flat_map(|objects| objects.values().copied())
                .collect::<Vec<_>>()
        };
        let roles: Vec<_> = of(&[Source::Role, Source::ClusterRole])
            .into_iter()
            .filter_map(Role::read)
            .collect();
        let bindings: Vec<_> = of(&[Source::RoleBinding, Source::ClusterRoleBinding])
            .into_iter()
            .filter_map(Binding::read)
            .collect();
        let limits: Vec<_> = of(&[Source::LimitRange, Source::ResourceQuota])
            .into_iter()
            .map(|object| (place(object).0, Limits::compile([object])))
            .collect();
        let (policies, constraints) = (of(&[Source::PodSecurityPolicy]), of(&[Source::Constraint]));
        let policies_are_absent = policies.is_empty() || release >= WITHOUT_POD_SECURITY_POLICIES;
        Self {
            pod_security_policies: Presence::unless(policies_are_absent, || {
                WithGrants::of_pod_security_policies(policies, &roles, &bindings)
            }),
            constraints: Presence::unless(constraints.is_empty(), || {
                WithGrants::of_constraints(constraints, &roles, &bindings)
            }),
            limits: Presence::unless(false, || {
                LimitsByNamespace::join(limits.iter().map(|(namespace, limits)| (*namespace, limits)))
            }),
        }
    }

    /// What bounds the requests and limits of pods in `namespace`: nothing as long as nothing is known.
    pub fn limits_of(&self, namespace: &str) -> &Limits {
        match &self.limits {
            Presence::Present { policies, .. } => policies.of(namespace),
            Presence::Absent | Presence::Unknown { .. } => Limits::NONE,
        }
    }
}

impl Default for Installed {
    /// Those of a cluster of which nothing was heard.
    fn default() -> Self {
        Self {
            pod_security_policies: Presence::unheard(),
            constraints: Presence::unheard(),
            limits: Presence::unheard(),
        }
    }
}

impl<P> Presence<P> {
    /// Before anything is known.
    pub fn unheard() -> Self {
        Self::Unknown {
            why: "the API server has not told yet".into(),
        }
    }

    fn unless(absent: bool, compile: impl FnOnce() -> P) -> Self {
        match absent {
            true => Self::Absent,
            false => Self::Present {
                policies: Arc::new(compile()),
                stale: None,
            },
        }
    }
}

impl<P> Clone for Presence<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Unknown { why } => Self::Unknown { why: Arc::clone(why) },
            Self::Present { policies, stale } => Self::Present {
                policies: Arc::clone(policies),
                stale: stale.clone(),
            },
        }
    }
}

impl WithGrants<pod_security_policy::Policies> {
    /// Compiles `PodSecurityPolicy` objects with what was read of roles and bindings.
    pub fn of_pod_security_policies<'o>(
        objects: impl IntoIterator<Item = &'o Value>,
        roles: impl IntoIterator<Item = &'o Role>,
        bindings: impl IntoIterator<Item = &'o Binding>,
    ) -> Self {
        Self {
            policies: pod_security_policy::Policies::compile(objects),
            grants: Grants::bind(roles, bindings, Usable::PodSecurityPolicies),
        }
    }
}

impl WithGrants<scc::Constraints> {
    /// Compiles `SecurityContextConstraints` with what was read of roles and bindings. Their names differ.
    pub fn of_constraints<'o>(
        objects: impl IntoIterator<Item = &'o Value>,
        roles: impl IntoIterator<Item = &'o Role>,
        bindings: impl IntoIterator<Item = &'o Binding>,
    ) -> Self {
        Self {
            policies: scc::Constraints::compile(objects),
            grants: Grants::bind(roles, bindings, Usable::SecurityContextConstraints),
        }
    }
}

impl LimitsByNamespace {
    /// Joins what single objects bound, each with its namespace.
    pub fn join<'l>(limits: impl IntoIterator<Item = (&'l str, &'l Limits)>) -> Self {
        let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (namespace, limits) in limits {
            parts.entry(namespace).or_default().push(limits);
        }
        let joined = parts
            .into_iter()
            .map(|(namespace, parts)| (namespace.into(), Limits::join(parts)));
        Self(joined.collect())
    }

    /// Those of `namespace`.
    pub fn of(&self, namespace: &str) -> &Limits {
        self.0.get(namespace).unwrap_or(Limits::NONE)
    }
}

#[cfg(test)]
mod tests;
