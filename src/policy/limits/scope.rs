//! Which pods a quota counts.

use serde_json::Value;

use super::subject::Subject;
use crate::pod;

/// One condition of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Pods with a deadline, or those without.
    Terminating(bool),
    /// Pods that request and limit nothing, or those that do.
    BestEffort(bool),
    PriorityClass(Classes),
    /// Pods with affinity to pods of other namespaces.
    CrossNamespaceAffinity,
    /// One that no pod meets.
    Other,
}

/// Priority classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Classes {
    Any,
    None,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Scope {
    /// Reads a quota's `spec`, both ways of writing scopes.
    pub(super) fn all(spec: &Value) -> Vec<Self> {
        let plain = pod::list(spec, "scopes")
            .filter_map(Value::as_str)
            .map(|name| Self::read(name, Classes::Any));
        let selector = pod::object(spec, "scopeSelector");
        let expressions = selector
            .into_iter()
            .flat_map(|selector| pod::list(selector, "matchExpressions"));
        let selected = expressions.map(|expression| {
            let name = pod::text(expression, "scopeName").unwrap_or_default();
            let values = pod::list(expression, "values")
                .filter_map(Value::as_str)
                .map(str::to_owned);
            match pod::text(expression, "operator") {
                Some("Exists") => Self::read(name, Classes::Any),
                Some("DoesNotExist") => Self::read(name, Classes::None),
                Some("In") => Self::read(name, Classes::In(values.collect())),
                Some("NotIn") => Self::read(name, Classes::NotIn(values.collect())),
                _ => Self::Other,
            }
        });
        plain.chain(selected).collect()
    }

    fn read(name: &str, classes: Classes) -> Self {
        match name {
            "Terminating" => Self::Terminating(true),
            "NotTerminating" => Self::Terminating(false),
            "BestEffort" => Self::BestEffort(true),
            "NotBestEffort" => Self::BestEffort(false),
            "PriorityClass" => Self::PriorityClass(classes),
            "CrossNamespacePodAffinity" => Self::CrossNamespaceAffinity,
            _ => Self::Other,
        }
    }

    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        let spec = subject.spec;
        match self {
            Self::Terminating(terminating) => {
                let deadline = pod::integer(spec, "activeDeadlineSeconds");
                deadline.is_some_and(|seconds| seconds >= 0) == *terminating
            }
            Self::BestEffort(best_effort) => subject.is_best_effort() == *best_effort,
            Self::PriorityClass(classes) => classes.include(pod::text(spec, "priorityClassName").unwrap_or_default()),
            Self::CrossNamespaceAffinity => crosses_namespaces(spec),
            Self::Other => false,
        }
    }
}

impl Classes {
    /// Whether a pod of `class`, empty for none, is one.
    fn include(&self, class: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|name| name == class);
        match self {
            Self::Any => !class.is_empty(),
            Self::None => class.is_empty(),
            Self::In(names) => !class.is_empty() && listed(names),
            Self::NotIn(names) => class.is_empty() || !listed(names),
        }
    }
}

/// Whether a pod has affinity or anti-affinity to pods of other namespaces.
fn crosses_namespaces(spec: &Value) -> bool {
    let Some(affinity) = pod::object(spec, "affinity") else {
        return false;
    };
    let crosses = |term: &Value| {
        pod::list(term, "namespaces").next().is_some() || pod::object(term, "namespaceSelector").is_some()
    };
    let kinds = ["podAffinity", "podAntiAffinity"]
        .into_iter()
        .filter_map(|key| pod::object(affinity, key));
    kinds.into_iter().any(|kind| {
        pod::list(kind, "requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || pod::list(kind, "preferredDuringSchedulingIgnoredDuringExecution")
                .filter_map(|weighted| pod::object(weighted, "podAffinityTerm"))
                .any(crosses)
    })
}
