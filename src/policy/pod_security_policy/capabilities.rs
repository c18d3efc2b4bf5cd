//! What a policy says of Linux capabilities. Names are compared as they are written: `ALL` implies no other.

use std::collections::BTreeSet;

use super::object::Spec;
use super::wording::{CapabilityNames, Errors, Place, Text};

/// The name that allows every capability.
const ANY: &str = "*";

/// `capabilities` of a container; a list that is not there differs from an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capabilities<'a> {
    pub(super) add: Option<Vec<&'a str>>,
    pub(super) drop: Option<Vec<&'a str>>,
}

/// What a policy says.
#[derive(Clone, Debug)]
pub(super) struct CapabilityRule {
    default_add: Vec<String>,
    required_drop: Vec<String>,
    allowed: Vec<String>,
}

impl CapabilityRule {
    /// Takes what concerns capabilities out of `spec`.
    pub(super) fn take(spec: &mut Spec) -> Self {
        Self {
            default_add: std::mem::take(&mut spec.default_add_capabilities),
            required_drop: std::mem::take(&mut spec.required_drop_capabilities),
            allowed: std::mem::take(&mut spec.allowed_capabilities),
        }
    }

    /// The capabilities of a container that gets the policy's own too, where that makes a difference: every list is
    /// then sorted and without repeats.
    pub(super) fn defaulted<'a>(&'a self, given: Option<&Capabilities<'a>>) -> Option<Capabilities<'a>> {
        if self.default_add.is_empty() && self.required_drop.is_empty() {
            return None;
        }
        let set = |list: Option<&Vec<&'a str>>| list.into_iter().flatten().copied().collect::<BTreeSet<_>>();
        let mut add = set(given.and_then(|given| given.add.as_ref()));
        let mut drop = set(given.and_then(|given| given.drop.as_ref()));
        let before = (add.len(), drop.len());
        // A default that the container drops is not added.
        add.extend(
            self.default_add
                .iter()
                .map(String::as_str)
                .filter(|name| !drop.contains(name)),
        );
        drop.extend(self.required_drop.iter().map(String::as_str));
        if before == (add.len(), drop.len()) {
            return None;
        }
        let list = |set: BTreeSet<&'a str>| (!set.is_empty()).then(|| set.into_iter().collect());
        Some(Capabilities {
            add: list(add),
            drop: list(drop),
        })
    }

    /// Judges the capabilities of the container at `place`, the policy's own among them.
    pub(super) fn check(&self, place: Place, capabilities: &Capabilities<'_>, errors: &mut Errors) {
        let Capabilities { add, drop } = capabilities;
        let listed = |list: &[String], name: &str| list.iter().any(|listed| listed == name);
        // Then not even the required drops are asked for.
        if listed(&self.allowed, ANY) {
            return;
        }
        for name in add.iter().flatten() {
            if !listed(&self.default_add, name) && !listed(&self.allowed, name) {
                let path = format_args!("{place}.securityContext.capabilities.add");
                errors.invalid(&path, Text(name), "capability may not be added");
            }
        }
        for name in &self.required_drop {
            if !drop.iter().flatten().any(|dropped| dropped == name) {
                let path = format_args!("{place}.securityContext.capabilities.drop");
                let why = format!("{name} is required to be dropped but was not found");
                errors.invalid(&path, CapabilityNames(drop.as_deref()), &why);
            }
        }
    }
}
