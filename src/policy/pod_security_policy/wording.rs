//! The words of refusals, to the byte: `path: Invalid value: value: why`, with values as Go prints them.

use std::fmt::{self, Display};

use crate::policy::quoting::go_quoted;

/// What a policy holds against a pod, in the order of its checks.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<String>);

/// Where a container stands: `spec.initContainers[0]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The list in the pod's `spec`.
    pub(super) list: &'static str,
    /// The position in that list.
    pub(super) index: usize,
}

/// A text as a value.
#[derive(Debug)]
pub(super) struct Text<'t>(pub(super) &'t str);

/// Numbers as a value.
#[derive(Debug)]
pub(super) struct Numbers<'n>(pub(super) &'n [i64]);

/// Capabilities as a value; a list that is not there differs from an empty one.
#[derive(Debug)]
pub(super) struct CapabilityNames<'n>(pub(super) Option<&'n [&'n str]>);

impl Errors {
    pub(super) fn into_inner(self) -> Vec<String> {
        self.0
    }

    /// The value at `path` is refused; an empty `why` is left out.
    pub(super) fn invalid(&mut self, path: &dyn Display, value: impl Display, why: &str) {
        self.push(&format_args!("{path}: Invalid value: {value}"), why);
    }

    /// What is at `path` is refused, and its value not shown.
    pub(super) fn forbidden(&mut self, path: &dyn Display, why: &str) {
        self.push(&format_args!("{path}: Forbidden"), why);
    }

    fn push(&mut self, what: &dyn Display, why: &str) {
        self.0.push(match why {
            "" => what.to_string(),
            _ => format!("{what}: {why}"),
        });
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.{}[{}]", self.list, self.index)
    }
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_quoted(self.0))
    }
}

impl Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[]int64{{{}}}", numbers.join(", "))
    }
}

impl Display for CapabilityNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[]core.Capability")?;
        let Some(names) = self.0 else {
            return f.write_str("(nil)");
        };
        let names: Vec<_> = names.iter().map(|name| go_quoted(name)).collect();
        write!(f, "{{{}}}", names.join(", "))
    }
}
