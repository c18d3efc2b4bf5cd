//! Label selectors (`meta/v1` `LabelSelector`), as the API server matches them.

use crate::pod::{list, text};
use serde_json::Value;
use std::fmt;

/// A selector: all of its requirements must hold. One without requirements matches everything.
#[derive(Clone, Debug)]
pub(in crate::cli::check) struct Selector<'a>(&'a Value);

/// One thing that a selector asks of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Requirement<'a> {
    pub(super) key: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Selector<'a> {
    /// Reads a selector; a missing one has no requirements.
    pub(in crate::cli::check) fn new(selector: &'a Value) -> Self {
        Self(selector)
    }

    /// Whether it matches `labels`, an object or nothing.
    pub(in crate::cli::check) fn matches(&self, labels: &Value) -> bool {
        self.unmet(labels).is_none()
    }

    /// The first requirement that `labels` do not meet.
    pub(in crate::cli::check) fn unmet(&self, labels: &Value) -> Option<Requirement<'a>> {
        self.requirements().find(|requirement| !requirement.holds(labels))
    }

    /// Whether no namespace has labels that it matches: the API server gives each of them its name as one
    /// (`NamespaceDefaultLabelName`, Kubernetes 1.21).
    pub(super) fn matches_no_namespace(&self) -> bool {
        let nameless = |it: Requirement<'_>| it.key == "kubernetes.io/metadata.name" && it.operator == "DoesNotExist";
        self.requirements().any(nameless)
    }

    /// Everything that it asks.
    pub(in crate::cli::check) fn requirements(&self) -> impl Iterator<Item = Requirement<'a>> + use<'a> {
        let labels = self.0.get("matchLabels").and_then(Value::as_object);
        let equal = labels.into_iter().flatten().map(|(key, value)| Requirement {
            key,
            operator: "In",
            values: vec![value.as_str().unwrap_or_default()],
        });
        let expressions = list(self.0, "matchExpressions").map(|expression| Requirement {
            key: text(expression, "key").unwrap_or_default(),
            operator: text(expression, "operator").unwrap_or_default(),
            values: list(expression, "values").filter_map(Value::as_str).collect(),
        });
        equal.chain(expressions)
    }
}

impl Requirement<'_> {
    fn holds(&self, labels: &Value) -> bool {
        let value = text(labels, self.key);
        let listed = |value: &str| self.values.contains(&value);
        match self.operator {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // The API server takes no other.
            _ => false,
        }
    }

    /// Whether a label must be there for it to hold.
    pub(in crate::cli::check) fn wants_label(&self) -> bool {
        ["In", "Exists"].contains(&self.operator)
    }
}

impl fmt::Display for Requirement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        match values.is_empty() {
            true => write!(f, "{key} {operator}"),
            false => write!(f, "{key} {operator} [{}]", values.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_match_as_the_api_server_does() {
        let labels = json!({"a": "1", "b": ""});
        for (selector, unmet) in [
            (Value::Null, None),
            (json!({}), None),
            (json!({"matchLabels": {"a": "1"}}), None),
            (json!({"matchLabels": {"a": "2"}}), Some("a In [2]")),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["x"]}]}),
                None,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1", "x"]}]}),
                Some("a NotIn [1, x]"),
            ),
            (
                json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}),
                Some("b DoesNotExist"),
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}),
                Some("c Exists"),
            ),
        ] {
            let found = Selector::new(&selector)
                .unmet(&labels)
                .map(|requirement| requirement.to_string());
            assert_eq!(found.as_deref(), unmet, "{selector}");
        }
        assert!(!Selector::new(&json!({"matchLabels": {"a": "1"}})).matches(&Value::Null));
    }
}
