//! The objects that policies are compiled from.

use super::{Collection, Freshness, Kept, Status, read};
use crate::policy::installed::Source;
use crate::policy::limits::Limits;
use crate::policy::{Binding, Role};
use kube::api::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// The objects that policies are compiled from. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `PodSecurityPolicy` objects by name.
    pub pod_security_policies: Collection<Value>,
    /// `SecurityContextConstraints` by name.
    pub constraints: Collection<Value>,
    /// Each `Role` that lets somebody use a policy, by `NAMESPACE/NAME`; so are those below.
    pub roles: Collection<Role>,
    /// Each such `ClusterRole`.
    pub cluster_roles: Collection<Role>,
    /// Each `RoleBinding` that binds something to somebody.
    pub role_bindings: Collection<Binding>,
    /// Each such `ClusterRoleBinding`.
    pub cluster_role_bindings: Collection<Binding>,
    /// What each `LimitRange` bounds.
    pub limit_ranges: Collection<Limits>,
    /// What each `ResourceQuota` bounds.
    pub quotas: Collection<Limits>,
    /// Which policies the server has at all.
    pub served: Served,
}

/// Whether the server has the resources that not every server has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// `podsecuritypolicies`; nothing as long as it has not told.
    pub pod_security_policies: Option<bool>,
    /// `securitycontextconstraints`.
    pub constraints: Option<bool>,
    /// Why it did not tell when it was asked last.
    pub trouble: Option<Arc<str>>,
}

/// How far one resource is known.
#[derive(Clone, Debug)]
pub(super) struct Hearing {
    pub(super) source: Source,
    pub(super) freshness: Freshness,
    pub(super) trouble: Option<Arc<str>>,
    pub(super) generation: u64,
    status: Status,
}

impl Served {
    /// Whether it has policies that are used by a grant.
    pub fn grants(&self) -> bool {
        self.pod_security_policies == Some(true) || self.constraints == Some(true)
    }

    /// Whether the resource of `source` is there to be watched.
    fn has(&self, source: Source) -> bool {
        match source {
            Source::PodSecurityPolicy => self.pod_security_policies == Some(true),
            Source::Constraint => self.constraints == Some(true),
            Source::Role | Source::ClusterRole | Source::RoleBinding | Source::ClusterRoleBinding => self.grants(),
            Source::LimitRange | Source::ResourceQuota => true,
        }
    }

    fn is_heard(&self) -> bool {
        self.trouble.is_some() || (self.pod_security_policies.is_some() && self.constraints.is_some())
    }
}

impl Hearing {
    /// How many objects are known.
    pub(super) fn objects(&self) -> usize {
        self.status.objects
    }
}

impl Sources {
    /// Adds an object of a manifest.
    pub(super) fn take(&mut self, source: Source, object: DynamicObject) {
        fn keep<T: PartialEq>(collection: &mut Collection<T>, (name, item): Kept<T>) {
            match item {
                Some(item) => collection.apply(name, item),
                // It may have taken the place of one that was of interest.
                None => collection.delete(&name),
            }
        }
        match source {
            Source::PodSecurityPolicy => keep(&mut self.pod_security_policies, read::policy(source, object)),
            Source::Constraint => keep(&mut self.constraints, read::policy(source, object)),
            Source::Role => keep(&mut self.roles, read::role(source, object)),
            Source::ClusterRole => keep(&mut self.cluster_roles, read::role(source, object)),
            Source::RoleBinding => keep(&mut self.role_bindings, read::binding(source, object)),
            Source::ClusterRoleBinding => keep(&mut self.cluster_role_bindings, read::binding(source, object)),
            Source::LimitRange => keep(&mut self.limit_ranges, read::limits(source, object)),
            Source::ResourceQuota => keep(&mut self.quotas, read::limits(source, object)),
        }
    }

    /// Notes that there are no more objects than these.
    pub(super) fn complete(&mut self) {
        self.pod_security_policies.seal();
        self.constraints.seal();
        self.roles.seal();
        self.cluster_roles.seal();
        self.role_bindings.seal();
        self.cluster_role_bindings.seal();
        self.limit_ranges.seal();
        self.quotas.seal();
        self.served = Served {
            pod_security_policies: Some(self.pod_security_policies.iter().next().is_some()),
            constraints: Some(self.constraints.iter().next().is_some()),
            trouble: None,
        };
    }

    /// Notes that the objects of `source` cannot be told.
    pub(super) fn withhold(&mut self, source: Source, why: Arc<str>) {
        match source {
            Source::PodSecurityPolicy => {
                self.served.pod_security_policies = Some(true);
                self.pod_security_policies.withhold(why);
            }
            Source::Constraint => {
                self.served.constraints = Some(true);
                self.constraints.withhold(why);
            }
            Source::Role => self.roles.withhold(why),
            Source::ClusterRole => self.cluster_roles.withhold(why),
            Source::RoleBinding => self.role_bindings.withhold(why),
            Source::ClusterRoleBinding => self.cluster_role_bindings.withhold(why),
            Source::LimitRange => self.limit_ranges.withhold(why),
            Source::ResourceQuota => self.quotas.withhold(why),
        }
    }

    /// Forgets who may use what, where no policy needs to know.
    pub fn forget_grants(&mut self) {
        self.roles.forget();
        self.cluster_roles.forget();
        self.role_bindings.forget();
        self.cluster_role_bindings.forget();
    }

    /// Whether everything was listed, or could not be.
    pub fn are_heard(&self) -> bool {
        let mut watched = self.watched();
        self.served.is_heard() && watched.all(|it| it.freshness != Freshness::Pending)
    }

    /// The state of each watch that there is.
    pub(super) fn status(&self) -> impl Iterator<Item = Status> {
        self.watched().map(|hearing| hearing.status)
    }

    fn watched(&self) -> impl Iterator<Item = Hearing> {
        let all = Source::ALL.into_iter();
        all.filter(|source| self.served.has(*source))
            .map(|source| self.hearing(source))
    }

    /// How far the resource of `source` is known.
    pub(super) fn hearing(&self, source: Source) -> Hearing {
        fn of<T: PartialEq>(source: Source, collection: &Collection<T>) -> Hearing {
            Hearing {
                source,
                freshness: collection.freshness(),
                trouble: collection.trouble(),
                generation: collection.generation(),
                status: collection.status(source.resource()),
            }
        }
        match source {
            Source::PodSecurityPolicy => of(source, &self.pod_security_policies),
            Source::Constraint => of(source, &self.constraints),
            Source::Role => of(source, &self.roles),
            Source::ClusterRole => of(source, &self.cluster_roles),
            Source::RoleBinding => of(source, &self.role_bindings),
            Source::ClusterRoleBinding => of(source, &self.cluster_role_bindings),
            Source::LimitRange => of(source, &self.limit_ranges),
            Source::ResourceQuota => of(source, &self.quotas),
        }
    }
}
