//! A namespace's labels, read over the cluster's defaults.
//!
//! An invalid label never stops the server: it uses the strictest level where it enforces, the mildest where it only
//! speaks, and the latest version.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Defaults, Level, Policy, PolicyError, Server, Version};
use crate::policy::quoting::go_quoted;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The policies that a namespace's pods are judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePolicies {
    /// A pod that breaks it is refused.
    pub enforce: Policy,
    /// A pod that breaks it leaves an audit annotation.
    pub audit: Policy,
    /// A pod that breaks it earns its creator a warning.
    pub warn: Policy,
    /// Labels that say nothing valid, in the server's order.
    pub errors: Vec<LabelError>,
}

/// A label whose value is neither a level nor a version; displayed in the API server's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LabelError {
    /// The label's key.
    pub label: String,
    /// Its value.
    pub value: String,
    expected: &'static str,
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, value, expected } = self;
        write!(
            f,
            "metadata.labels[{label}]: Invalid value: {}: {expected}",
            go_quoted(value)
        )
    }
}

impl NamespacePolicies {
    /// Reads `labels`, a namespace's `metadata.labels`, over `defaults`, as `server` does.
    pub fn read(labels: Option<&Map<String, Value>>, defaults: &Defaults, server: Server) -> Self {
        let mut labels = Labels {
            labels,
            errors: Vec::new(),
        };
        let Defaults {
            mut enforce,
            mut audit,
            mut warn,
        } = *defaults;
        let enforced: Option<Level> = labels.apply("enforce", Level::Restricted, &mut enforce.level);
        labels.apply("enforce-version", Version::Latest, &mut enforce.version);
        labels.apply("audit", Level::Privileged, &mut audit.level);
        labels.apply("audit-version", Version::Latest, &mut audit.version);
        labels.apply("warn", Level::Privileged, &mut warn.level);
        labels.apply("warn-version", Version::Latest, &mut warn.version);

        // From 1.26 on a namespace that enforces more than it warns of warns of as much.
        if server.since(26) && labels.value("warn").is_none() && enforced.is_some_and(|level| level > warn.level) {
            warn.level = enforce.level;
            if labels.value("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        Self {
            enforce,
            audit,
            warn,
            errors: labels.errors,
        }
    }

    /// Whether no pod can break any of them, so that the server looks at none.
    pub(super) fn are_privileged(&self) -> bool {
        self.errors.is_empty()
            && [self.enforce, self.audit, self.warn]
                .iter()
                .all(|p| p.level == Level::Privileged)
    }
}

struct Labels<'l> {
    labels: Option<&'l Map<String, Value>>,
    errors: Vec<LabelError>,
}

impl<'l> Labels<'l> {
    /// The value of a label; one of the wrong type is as invalid as an empty one.
    fn value(&self, name: &str) -> Option<&'l str> {
        let mut labels = self.labels.into_iter().flatten();
        let value = labels
            .find(|(key, _)| key.strip_prefix(PREFIX) == Some(name))
            .map(|(_, value)| value)?;
        Some(value.as_str().unwrap_or_default())
    }

    /// Puts what the label says in `place`, or `fallback` where it is invalid; returns what it validly says.
    fn apply<T>(&mut self, name: &str, fallback: T, place: &mut T) -> Option<T>
    where
        T: Copy + FromStr<Err = PolicyError>,
    {
        let value = self.value(name)?;
        match value.parse() {
            Ok(valid) => {
                *place = valid;
                Some(valid)
            }
            Err(PolicyError { value, expected }) => {
                *place = fallback;
                self.errors.push(LabelError {
                    label: format!("{PREFIX}{name}"),
                    value,
                    expected,
                });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Release;
    use serde_json::json;

    /// `enforce audit warn` and the errors, on a server of release 1.`release`.
    fn read(release: u32, labels: &[(&str, &str)]) -> (String, Vec<String>) {
        let labels: Map<_, _> = labels
            .iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), json!(value)))
            .collect();
        let policies = NamespacePolicies::read(Some(&labels), &Defaults::default(), Release(release).into());
        let text = format!("{} {} {}", policies.enforce, policies.audit, policies.warn);
        (text, policies.errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn valid_labels_replace_the_defaults() {
        let labels = [
            ("enforce", "baseline"),
            ("enforce-version", "v1.25"),
            ("audit", "restricted"),
            ("x", "y"),
        ];
        let (policies, errors) = read(25, &labels);
        assert_eq!(policies, "baseline:v1.25 restricted:latest privileged:latest");
        assert!(errors.is_empty());
        assert_eq!(read(36, &[]).0, "privileged:latest privileged:latest privileged:latest");
    }

    #[test]
    fn warnings_follow_enforcement_from_1_26() {
        for (labels, warn) in [
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.25")][..],
                "baseline:v1.25",
            ),
            (
                &[
                    ("enforce", "baseline"),
                    ("enforce-version", "v1.25"),
                    ("warn-version", "v1.30"),
                ],
                "baseline:v1.30",
            ),
            (&[("enforce", "baseline"), ("warn", "privileged")], "privileged:latest"),
            (&[("enforce", "baseline"), ("warn", "nonsense")], "privileged:latest"),
            (&[("enforce", "nonsense")], "privileged:latest"),
        ] {
            let (policies, _) = read(26, labels);
            assert!(policies.ends_with(warn), "{labels:?}: {policies}");
        }
    }

    #[test]
    fn a_stricter_default_warning_stays() {
        let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
        let restricted = Policy {
            level: Level::Restricted,
            version: Version::Minor(30),
        };
        let defaults = Defaults {
            warn: restricted,
            ..Defaults::default()
        };
        let policies = NamespacePolicies::read(labels.as_object(), &defaults, Release(36).into());
        assert_eq!(policies.warn, restricted);
    }

    #[test]
    fn invalid_labels_fail_safe_and_are_named() {
        let labels = [
            ("enforce", "Baseline"),
            ("audit", ""),
            ("warn", "all"),
            ("enforce-version", "1.25"),
        ];
        let (policies, errors) = read(36, &labels);
        assert_eq!(policies, "restricted:latest privileged:latest privileged:latest");
        let level = "must be one of privileged, baseline, restricted";
        let invalid = |name, value, expected| {
            format!("metadata.labels[pod-security.kubernetes.io/{name}]: Invalid value: \"{value}\": {expected}")
        };
        assert_eq!(
            errors,
            [
                invalid("enforce", "Baseline", level),
                invalid("enforce-version", "1.25", r#"must be "latest" or "v1.x""#),
                invalid("audit", "", level),
                invalid("warn", "all", level),
            ]
        );
    }
}
