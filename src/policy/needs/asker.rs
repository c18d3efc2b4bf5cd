//! Who needs something.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How many workloads are named before the rest is counted.
const NAMED: usize = 5;

/// Workloads, and those of their containers that are meant; none where it is the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Askers<'p> {
    containers: BTreeMap<&'p str, BTreeSet<&'p str>>,
}

impl<'p> Askers<'p> {
    pub(super) fn add(&mut self, workload: &'p str, container: Option<&'p str>) {
        self.containers.entry(workload).or_default().extend(container);
    }
}

impl fmt::Display for Askers<'_> {
    /// `Deployment/web (app, logger), StatefulSet/db and 3 more`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (workload, containers)) in self.containers.iter().take(NAMED).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{workload}")?;
            if !containers.is_empty() {
                let containers: Vec<_> = containers.iter().copied().collect();
                write!(f, " ({})", containers.join(", "))?;
            }
        }
        match self.containers.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
