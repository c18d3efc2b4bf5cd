//! Requests and limits: what `LimitRange`, `ResourceQuota` and the API's own validation will say to a pod's.
//!
//! [`Limits`] is compiled once from the objects of a namespace, when they change. [`Limits::review`] takes a pod the way
//! through the server: the API's defaulting, then the defaults of each `LimitRange`, validation, the bounds of each
//! `LimitRange`, each `ResourceQuota`; the first refusal is the only one that anybody sees.
//!
//! What is not judged: quotas of what a pod does not request in figures (objects, claims), and a server's own
//! `limitedResources`, which cannot be read. A quota without a status counts as unused, as a new one is.
//!
//! Spec: the plugins `LimitRanger` and `ResourceQuota`, and `ValidatePodSpec`, of Kubernetes 1.21 to 1.36.

mod figures;
mod quota;
mod range;
mod scope;
mod subject;
mod validation;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use self::quota::Quota;
use self::range::Range;
use self::subject::Subject;
use super::Release;
use crate::pod::{self, Pod};

/// What bounds the requests and limits of a namespace's pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// By name.
    ranges: Vec<Arc<Range>>,
    /// By name.
    quotas: Vec<Arc<Quota>>,
}

/// Who refuses a pod for its requests and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// The API's validation, which looks at the pod alone.
    Validation,
    /// The `LimitRange` of that name.
    LimitRange(String),
    /// The `ResourceQuota` of that name.
    ResourceQuota(String),
}

/// Why a pod is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// By whom.
    pub by: Refuser,
    /// The containers that it is for, by name; none where it is the pod as a whole.
    pub containers: Vec<String>,
    /// The API server's words, without the name of the pod.
    pub message: String,
}

impl Limits {
    /// Those of a namespace without any.
    pub const NONE: &'static Self = &Self {
        ranges: Vec::new(),
        quotas: Vec::new(),
    };

    /// Compiles the `LimitRange`s and `ResourceQuota`s of one namespace; other objects are passed over.
    pub fn compile<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Self {
        let mut limits = Self::default();
        for object in objects {
            match pod::text(object, "kind") {
                Some("LimitRange") => limits.ranges.push(Arc::new(Range::read(object))),
                Some("ResourceQuota") => limits.quotas.push(Arc::new(Quota::read(object))),
                _ => {}
            }
        }
        limits.in_order()
    }

    /// What several of the same namespace bound together. Nothing is copied.
    pub fn join<'l>(parts: impl IntoIterator<Item = &'l Self>) -> Self {
        let mut limits = Self::default();
        for part in parts {
            limits.ranges.extend(part.ranges.iter().cloned());
            limits.quotas.extend(part.quotas.iter().cloned());
        }
        limits.in_order()
    }

    fn in_order(mut self) -> Self {
        self.ranges.sort_by(|one, other| one.name.cmp(&other.name));
        self.quotas.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// Whether nothing bounds anything. Validation does so all the same.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.quotas.is_empty()
    }

    /// What the server will say to the creation of `pod`: the first refusal.
    pub fn review(&self, pod: &Pod<'_>, server: Release) -> Result<(), Refusal> {
        // Most pods of most namespaces: reading their figures would cost more than all else that is asked of them.
        if self.is_empty() && !validation::compares(pod) {
            return Ok(());
        }
        let subject = self.subject(pod, server);
        validation::check(&subject)?;
        self.ranges.iter().try_for_each(|range| range.check(&subject))?;
        // What every quota demands comes before what any has left.
        self.quotas.iter().try_for_each(|quota| quota.check_figures(&subject))?;
        self.quotas.iter().try_for_each(|quota| quota.check_usage(&subject))
    }

    /// The figures that every container of `pod` must have, `limits.cpu` and the like, because quotas count them.
    pub fn demanded(&self, pod: &Pod<'_>, server: Release) -> BTreeSet<&str> {
        let subject = self.subject(pod, server);
        let counting = self.quotas.iter().filter(|quota| quota.counts(&subject));
        counting.flat_map(|quota| quota.demanded(&subject)).collect()
    }

    /// `pod` with every default.
    fn subject<'p>(&'p self, pod: &Pod<'p>, server: Release) -> Subject<'p> {
        let mut subject = Subject::new(pod, server);
        for range in &self.ranges {
            range.fill_in(&mut subject);
        }
        subject
    }
}

impl fmt::Display for Refuser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Validation => f.write_str("validation"),
            Self::LimitRange(name) => write!(f, "LimitRange {name}"),
            Self::ResourceQuota(name) => write!(f, "ResourceQuota {name}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.message)?;
        match self.containers.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.containers.join(", ")),
        }
    }
}
