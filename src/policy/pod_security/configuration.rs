//! The cluster-wide part of Pod Security: a static file of the API server, which no API shows.
//!
//! Reads a `PodSecurityConfiguration` (`pod-security.admission.config.k8s.io`), alone or inside an
//! `AdmissionConfiguration` (`apiserver.config.k8s.io`).

use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Policy, PolicyError};
use crate::pod;

/// What the API server was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Policies of namespaces that have no labels.
    pub defaults: Defaults,
    /// What is not judged at all.
    pub exemptions: Exemptions,
}

/// The policies of a namespace without labels; upstream's own are privileged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// See [`super::NamespacePolicies::enforce`].
    pub enforce: Policy,
    /// See [`super::NamespacePolicies::audit`].
    pub audit: Policy,
    /// See [`super::NamespacePolicies::warn`].
    pub warn: Policy,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            enforce: Policy::PRIVILEGED,
            audit: Policy::PRIVILEGED,
            warn: Policy::PRIVILEGED,
        }
    }
}

/// What is not judged; every name is compared exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// Users who create the pod itself: of a Deployment's pods that is a controller. Groups never count.
    pub usernames: Vec<String>,
    /// Namespaces of the pod.
    pub namespaces: Vec<String>,
    /// Runtime classes that the pod names.
    pub runtime_classes: Vec<String>,
}

/// A document that is no usable configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It is of another kind.
    #[error(
        "kind {kind:?} of apiVersion {api_version:?} is no Pod Security configuration: expected AdmissionConfiguration \
         of apiserver.config.k8s.io or PodSecurityConfiguration of pod-security.admission.config.k8s.io"
    )]
    Kind {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// The plugin's part lies in another file.
    #[error(
        "AdmissionConfiguration plugins[PodSecurity].path: {path:?} is a file of the API server's machine: expected its \
         content as plugins[PodSecurity].configuration"
    )]
    Elsewhere {
        /// Where it lies.
        path: String,
    },
    /// A key has a value that the API server would not start with.
    #[error("{key}: {value} is invalid: expected {expected}")]
    Invalid {
        /// The key, with those above it.
        key: String,
        /// Its value, as JSON.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A key that does not exist.
    #[error("{parent}: unknown key {key:?}: expected one of {expected}")]
    Unknown {
        /// The object that has it.
        parent: &'static str,
        /// The key.
        key: String,
        /// The keys that exist.
        expected: String,
    },
}

impl Configuration {
    /// Reads `document`; an `AdmissionConfiguration` that does not mention the plugin leaves it to its own defaults.
    pub fn read(document: &Value) -> Result<Self, ConfigurationError> {
        let kind = pod::text(document, "kind").unwrap_or_default();
        let api_version = pod::text(document, "apiVersion").unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            ("apiserver.config.k8s.io" | "apiserver.k8s.io", "AdmissionConfiguration") => Self::of_plugin(document),
            ("pod-security.admission.config.k8s.io", "PodSecurityConfiguration") => Self::of_body(document),
            _ => Err(ConfigurationError::Kind {
                kind: kind.to_owned(),
                api_version: api_version.to_owned(),
            }),
        }
    }

    fn of_plugin(document: &Value) -> Result<Self, ConfigurationError> {
        let named = |plugin: &&Value| pod::text(plugin, "name") == Some("PodSecurity");
        let Some(plugin) = pod::list(document, "plugins").find(named) else {
            return Ok(Self::default());
        };
        match (plugin.get("configuration"), pod::text(plugin, "path")) {
            (None | Some(Value::Null), None | Some("")) => Ok(Self::default()),
            (None | Some(Value::Null), Some(path)) => Err(ConfigurationError::Elsewhere { path: path.to_owned() }),
            (Some(configuration), _) => Self::read(configuration),
        }
    }

    fn of_body(document: &Value) -> Result<Self, ConfigurationError> {
        let top = Section::of(
            document,
            "PodSecurityConfiguration",
            &["apiVersion", "kind", "defaults", "exemptions"],
        )?;
        let levels = [
            "enforce",
            "enforce-version",
            "audit",
            "audit-version",
            "warn",
            "warn-version",
        ];
        let defaults = Section::of(top.value("defaults"), "defaults", &levels)?;
        let exemptions = ["usernames", "namespaces", "runtimeClasses"];
        let exemptions = Section::of(top.value("exemptions"), "exemptions", &exemptions)?;
        Ok(Self {
            defaults: Defaults {
                enforce: defaults.policy("enforce", "enforce-version")?,
                audit: defaults.policy("audit", "audit-version")?,
                warn: defaults.policy("warn", "warn-version")?,
            },
            exemptions: Exemptions {
                usernames: exemptions.names("usernames")?,
                namespaces: exemptions.names("namespaces")?,
                runtime_classes: exemptions.names("runtimeClasses")?,
            },
        })
    }
}

/// An object of the document, and how to call it.
struct Section<'d> {
    name: &'static str,
    values: Option<&'d Map<String, Value>>,
}

impl<'d> Section<'d> {
    fn of(value: &'d Value, name: &'static str, keys: &[&str]) -> Result<Self, ConfigurationError> {
        let values = match value {
            Value::Null => None,
            Value::Object(values) => Some(values),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(invalid(name.to_owned(), value, "an object"));
            }
        };
        match values
            .into_iter()
            .flatten()
            .find(|(key, _)| !keys.contains(&key.as_str()))
        {
            None => Ok(Self { name, values }),
            Some((key, _)) => Err(ConfigurationError::Unknown {
                parent: name,
                key: key.clone(),
                expected: keys.join(", "),
            }),
        }
    }

    /// The value of `key`, null where there is none.
    fn value(&self, key: &str) -> &'d Value {
        self.values.and_then(|values| values.get(key)).unwrap_or(&Value::Null)
    }

    fn policy(&self, level: &str, version: &str) -> Result<Policy, ConfigurationError> {
        let Policy {
            level: unset,
            version: unset_version,
        } = Policy::PRIVILEGED;
        Ok(Policy {
            level: self.parsed(level, "privileged, baseline or restricted", unset)?,
            version: self.parsed(version, "latest or v1.N", unset_version)?,
        })
    }

    fn parsed<T: FromStr<Err = PolicyError>>(
        &self,
        key: &str,
        expected: &'static str,
        unset: T,
    ) -> Result<T, ConfigurationError> {
        let value = self.value(key);
        if value.is_null() || value.as_str() == Some("") {
            return Ok(unset);
        }
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| invalid(format!("{}.{key}", self.name), value, expected))
    }

    fn names(&self, key: &str) -> Result<Vec<String>, ConfigurationError> {
        let value = self.value(key);
        let name = |item: &Value| item.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        if value.is_null() {
            return Ok(Vec::new());
        }
        let names: Option<Vec<_>> = value.as_array().and_then(|items| items.iter().map(name).collect());
        names.ok_or_else(|| {
            invalid(
                format!("{}.{key}", self.name),
                value,
                "a list of names, none of them empty",
            )
        })
    }
}

fn invalid(key: String, value: &Value, expected: &'static str) -> ConfigurationError {
    ConfigurationError::Invalid {
        key,
        value: value.to_string(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body() -> Value {
        json!({
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "audit": "", "warn": null},
            "exemptions": {"usernames": ["system:serviceaccount:ci:runner"], "namespaces": ["kube-system"]},
        })
    }

    fn wrapped(plugin: &Value) -> Value {
        let plugins = [json!({"name": "EventRateLimit", "path": "x.yaml"}), plugin.clone()];
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
    }

    #[test]
    fn reads_the_plugins_part_alone_and_wrapped() {
        let configuration = Configuration::read(&body()).unwrap();
        assert_eq!(configuration.defaults.enforce.to_string(), "baseline:v1.30");
        assert_eq!(configuration.defaults.audit, Policy::PRIVILEGED);
        assert_eq!(configuration.exemptions.namespaces, ["kube-system"]);
        assert!(configuration.exemptions.runtime_classes.is_empty());
        let plugin = json!({"name": "PodSecurity", "configuration": body()});
        assert_eq!(Configuration::read(&wrapped(&plugin)), Ok(configuration));
    }

    #[test]
    fn a_plugin_that_is_not_mentioned_keeps_its_defaults() {
        for plugin in [json!({"name": "Other"}), json!({"name": "PodSecurity"}), json!(null)] {
            assert_eq!(Configuration::read(&wrapped(&plugin)), Ok(Configuration::default()));
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let with = |pointer: &str, value: Value| {
            let mut document = body();
            *document.pointer_mut(pointer).unwrap() = value;
            Configuration::read(&document).unwrap_err().to_string()
        };
        assert_eq!(
            with("/defaults/enforce", json!("Baseline")),
            r#"defaults.enforce: "Baseline" is invalid: expected privileged, baseline or restricted"#
        );
        assert_eq!(
            with("/defaults/enforce-version", json!(1.3)),
            "defaults.enforce-version: 1.3 is invalid: expected latest or v1.N"
        );
        assert_eq!(
            with("/exemptions/usernames", json!([""])),
            r#"exemptions.usernames: [""] is invalid: expected a list of names, none of them empty"#
        );
        assert_eq!(
            with("/defaults", json!([])),
            "defaults: [] is invalid: expected an object"
        );
        assert_eq!(
            with("/exemptions", json!({"users": []})),
            r#"exemptions: unknown key "users": expected one of usernames, namespaces, runtimeClasses"#
        );
        assert!(with("/kind", json!("Pod")).starts_with(r#"kind "Pod" of apiVersion "pod-security"#));
        let elsewhere = Configuration::read(&wrapped(&json!({"name": "PodSecurity", "path": "/etc/psa.yaml"})));
        assert_eq!(
            elsewhere,
            Err(ConfigurationError::Elsewhere {
                path: "/etc/psa.yaml".to_owned()
            })
        );
    }
}
