//! Rules for the numbers that processes run as: user, group, file system group, supplemental groups.

use std::fmt;

use super::object::Range;
use super::wording::{Errors, Numbers, Place};

/// Ranges, at least one.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    first: Range,
    others: Vec<Range>,
}

/// What a policy says of groups.
#[derive(Clone, Debug)]
pub(super) enum GroupRule {
    RunAsAny,
    /// Those that are set lie in a range.
    MayRunAs(Ranges),
    /// At least one is set, and all lie in a range.
    MustRunAs(Ranges),
}

/// What a policy says of a container's user.
#[derive(Clone, Debug)]
pub(super) enum UserRule {
    RunAsAny,
    MustRunAsNonRoot,
    /// The user is set, and lies in a range.
    MustRunAs(Ranges),
}

impl Ranges {
    /// `None` for no ranges.
    pub(super) fn new(ranges: Vec<Range>) -> Option<Self> {
        let mut ranges = ranges.into_iter();
        let first = ranges.next()?;
        Some(Self {
            first,
            others: ranges.collect(),
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Range> {
        [&self.first].into_iter().chain(&self.others)
    }

    fn contain(&self, id: i64) -> bool {
        self.iter().any(|range| (range.min..=range.max).contains(&id))
    }
}

impl fmt::Display for Ranges {
    /// `[{1 2} {3 4}]`, as in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.first)?;
        for range in &self.others {
            write!(f, " {range}")?;
        }
        f.write_str("]")
    }
}

impl GroupRule {
    /// The group that a pod gets which sets none.
    pub(super) fn default(&self) -> Option<i64> {
        match self {
            Self::MustRunAs(ranges) => Some(ranges.first.min),
            Self::RunAsAny | Self::MayRunAs(_) => None,
        }
    }

    /// Judges the `groups` at `path`, defaults among them.
    pub(super) fn check(&self, path: &dyn fmt::Display, groups: &[i64], errors: &mut Errors) {
        let ranges = match self {
            Self::RunAsAny => return,
            Self::MayRunAs(ranges) => ranges,
            Self::MustRunAs(ranges) => {
                if groups.is_empty() {
                    let why = "unable to validate empty groups against required ranges";
                    errors.invalid(path, Numbers(groups), why);
                }
                ranges
            }
        };
        for group in groups.iter().filter(|&&group| !ranges.contain(group)) {
            let why = format!("group {group} must be in the ranges: {ranges}");
            errors.invalid(path, Numbers(groups), &why);
        }
    }
}

impl UserRule {
    /// The user that a container gets which has none.
    pub(super) fn default(&self) -> Option<i64> {
        match self {
            Self::MustRunAs(ranges) => Some(ranges.first.min),
            Self::RunAsAny | Self::MustRunAsNonRoot => None,
        }
    }

    /// Judges the user of the container at `place`: its own or the default, else the pod's.
    pub(super) fn check(&self, place: Place, non_root: Option<bool>, user: Option<i64>, errors: &mut Errors) {
        let path = format_args!("{place}.securityContext");
        match (self, non_root, user) {
            (Self::MustRunAs(ranges), _, Some(user)) if !ranges.contain(user) => {
                let why = format!("must be in the ranges: {ranges}");
                errors.invalid(&format_args!("{path}.runAsUser"), user, &why);
            }
            (Self::MustRunAsNonRoot, Some(false), _) => {
                errors.invalid(&format_args!("{path}.runAsNonRoot"), false, "must be true");
            }
            (Self::MustRunAsNonRoot, _, Some(0)) => {
                let why = "running with the root UID is forbidden";
                errors.invalid(&format_args!("{path}.runAsUser"), 0, why);
            }
            (Self::RunAsAny | Self::MustRunAs(_) | Self::MustRunAsNonRoot, ..) => {}
        }
    }
}
