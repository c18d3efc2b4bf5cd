//! What a policy says of `SELinux` labels.

use std::fmt::Display;

use super::object::SeLinuxOptions;
use super::wording::{Errors, Text};

/// `seLinuxOptions` of a pod or container; what is not set is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) user: &'a str,
    pub(super) role: &'a str,
    pub(super) kind: &'a str,
    pub(super) level: &'a str,
}

/// What a policy says.
#[derive(Clone, Debug)]
pub(super) enum SeLinuxRule {
    RunAsAny,
    /// There is a label, and it is this one.
    MustRunAs(SeLinuxOptions),
}

impl SeLinuxRule {
    /// The label that a pod gets which has none.
    pub(super) fn default(&self) -> Option<Label<'_>> {
        match self {
            Self::RunAsAny => None,
            Self::MustRunAs(SeLinuxOptions {
                user,
                role,
                kind,
                level,
            }) => Some(Label {
                user,
                role,
                kind,
                level,
            }),
        }
    }

    /// Judges the `label` at `path`, the pod's default where it is one.
    pub(super) fn check(&self, path: &dyn Display, label: Option<Label<'_>>, errors: &mut Errors) {
        let (Some(expected), Some(label)) = (self.default(), label) else {
            return;
        };
        let mut equal = |name: &str, actual: &str, expected: &str, equal: bool| {
            if !equal {
                let path = format_args!("{path}.{name}");
                errors.invalid(&path, Text(actual), &format!("must be {expected}"));
            }
        };
        equal(
            "level",
            label.level,
            expected.level,
            equal_levels(label.level, expected.level),
        );
        equal("role", label.role, expected.role, label.role == expected.role);
        equal("type", label.kind, expected.kind, label.kind == expected.kind);
        equal("user", label.user, expected.user, label.user == expected.user);
    }
}

/// Whether two levels are one, in whichever order they list their categories: `s0:c1,c2` is `s0:c2,c1`.
fn equal_levels(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let parts = |level| str::split_once(level, ':');
    let (Some((sensitivity, categories)), Some((other_sensitivity, other_categories))) = (parts(one), parts(other))
    else {
        return false;
    };
    let sorted = |categories: &str| {
        let mut names: Vec<_> = categories.split(',').map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    sensitivity == other_sensitivity && sorted(categories) == sorted(other_categories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_have_no_order() {
        for (one, other, equal) in [
            ("s0:c1,c2", "s0:c2,c1", true),
            ("s0", "s0", true),
            ("", "", true),
            ("s0:c1", "s1:c1", false),
            ("s0:c1,c1", "s0:c1", false),
            ("s0", "s0:", false),
            ("c2,c1", "c1,c2", false),
        ] {
            assert_eq!(equal_levels(one, other), equal, "{one} {other}");
        }
    }
}
