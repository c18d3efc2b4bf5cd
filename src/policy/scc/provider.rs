//! A constraint in a namespace: what it leaves open is filled in from what the namespace has been allotted.

use std::ops::RangeInclusive;

use super::constraint::{Constraint, GroupStrategy, SeLinux, SeLinuxStrategy, UserStrategy};
use super::namespace::Allotment;
use crate::policy::UserIds;

/// A constraint, ready to judge the pods of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Provider<'c> {
    pub(super) constraint: &'c Constraint,
    pub(super) users: Users,
    /// Options that a pod must have; nothing where any will do.
    pub(super) se_linux: Option<SeLinux>,
    /// Groups; nothing where any will do.
    pub(super) fs_group: Option<Vec<RangeInclusive<i64>>>,
    pub(super) supplemental_groups: Option<Vec<RangeInclusive<i64>>>,
}

/// Which users a constraint admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Any,
    NotRoot,
    One(i64),
    Range(RangeInclusive<i64>),
}

impl Users {
    pub(super) fn ids(&self) -> UserIds {
        match self {
            Self::Any => UserIds::Any,
            Self::NotRoot => UserIds::NotRoot,
            Self::One(user) => UserIds::Within(vec![*user..=*user]),
            Self::Range(range) => UserIds::Within(vec![range.clone()]),
        }
    }

    /// What a container gets that has none.
    pub(super) fn given(&self) -> Option<i64> {
        match self {
            Self::Any | Self::NotRoot => None,
            Self::One(user) => Some(*user),
            Self::Range(range) => Some(*range.start()),
        }
    }
}

impl<'c> Provider<'c> {
    /// Fails with OpenShift's words, which then refuse every pod of the namespace.
    pub(super) fn new(constraint: &'c Constraint, namespace: &str, allotment: &Allotment<'_>) -> Result<Self, String> {
        let resolution = Resolution {
            name: &constraint.name,
            namespace,
            allotment,
        };
        Ok(Self {
            constraint,
            users: resolution.users(&constraint.run_as_user)?,
            se_linux: resolution.se_linux(&constraint.se_linux)?,
            fs_group: resolution.groups(&constraint.fs_group, "FSGroup", || Ok(vec![allotment.first_group()?]))?,
            supplemental_groups: resolution.groups(&constraint.supplemental_groups, "SupplementalGroups", || {
                allotment.groups()
            })?,
        })
    }
}

/// A constraint meeting a namespace.
struct Resolution<'r> {
    name: &'r str,
    namespace: &'r str,
    allotment: &'r Allotment<'r>,
}

impl Resolution<'_> {
    fn users(&self, strategy: &UserStrategy) -> Result<Users, String> {
        let unusable = |fault: &str| Err(self.unusable(fault));
        match strategy {
            UserStrategy::Any => Ok(Users::Any),
            UserStrategy::NotRoot => Ok(Users::NotRoot),
            UserStrategy::One(Some(user)) => Ok(Users::One(*user)),
            UserStrategy::One(None) => unusable("MustRunAs requires a UID"),
            UserStrategy::Range(Some(min), Some(max)) => Ok(Users::Range(*min..=*max)),
            UserStrategy::Range(None, None) => self.allotted("uid", self.allotment.users()).map(Users::Range),
            UserStrategy::Range(None, _) => unusable("MustRunAsRange requires a UIDRangeMin"),
            UserStrategy::Range(_, None) => unusable("MustRunAsRange requires a UIDRangeMax"),
            UserStrategy::Unknown(kind) => Err(self.unrecognized("RunAsUser", kind)),
        }
    }

    fn se_linux(&self, strategy: &SeLinuxStrategy) -> Result<Option<SeLinux>, String> {
        match strategy {
            SeLinuxStrategy::Any => Ok(None),
            SeLinuxStrategy::One(options) if options.level.is_empty() => Ok(Some(SeLinux {
                level: self.allotted("mcs", self.allotment.level())?.to_owned(),
                ..options.clone()
            })),
            SeLinuxStrategy::One(options) => Ok(Some(options.clone())),
            SeLinuxStrategy::Unknown(kind) => Err(self.unrecognized("SELinuxContext", kind)),
        }
    }

    /// The ranges of `strategy`, which OpenShift calls `what`; `allotted` are the namespace's.
    fn groups(
        &self,
        strategy: &GroupStrategy,
        what: &str,
        allotted: impl FnOnce() -> Result<Vec<RangeInclusive<i64>>, String>,
    ) -> Result<Option<Vec<RangeInclusive<i64>>>, String> {
        match strategy {
            GroupStrategy::Any => Ok(None),
            GroupStrategy::Within(ranges) if ranges.is_empty() => self.allotted("group", allotted()).map(Some),
            GroupStrategy::Within(ranges) => Ok(Some(ranges.clone())),
            GroupStrategy::Unknown(kind) => Err(self.unrecognized(what, kind)),
        }
    }

    fn allotted<T>(&self, what: &str, allotted: Result<T, String>) -> Result<T, String> {
        allotted.map_err(|fault| {
            let Self { name, namespace, .. } = self;
            format!(
                "unable to find pre-allocated {what} annotation for namespace {namespace} while trying to configure SCC \
                 {name}: {fault}"
            )
        })
    }

    fn unrecognized(&self, what: &str, kind: &str) -> String {
        self.unusable(&format!("Unrecognized {what} strategy type {kind}"))
    }

    fn unusable(&self, fault: &str) -> String {
        let Self { name, namespace, .. } = self;
        format!("error creating provider for SCC {name} in namespace {namespace}: {fault}")
    }
}
