//! What is the same for every pod: the values document and the trust anchors.

use super::opaque_ports::Ranges;
use super::values::Values;
use super::{Origin, additional_env, document, quote};
use crate::pod::manifest;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A Linkerd installation's configuration, read and prepared once.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The values document.
    pub values: Arc<Values>,
    /// Namespace of the control plane.
    pub control_plane_namespace: String,
    /// The trust anchors (PEM) as the proxy reads them: without white space around them, one final newline.
    pub trust_anchors: String,
    /// Lower-case hex SHA-256 of the trust anchors as they were given.
    pub trust_root_sha256: String,
    /// The ports that are opaque where nobody lists any: `proxy.opaquePorts` of the values.
    pub opaque_ports: Ranges,
    /// The document as it was merged, for the origin of a field.
    document: Arc<Value>,
    changes: Arc<[String]>,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is no YAML.
    #[error("values document: {0}")]
    Syntax(String),
    /// The document is no mapping.
    #[error("values document: expected a mapping of keys, found {0}")]
    NoMapping(&'static str),
    /// A key has a value of the wrong type.
    #[error("values document: {key}: {message}")]
    Type {
        /// The key, dotted.
        key: String,
        /// What was expected and what was found.
        message: String,
    },
    /// Nothing says which version to run.
    #[error(
        "values document: linkerdVersion and proxy.image.version are both missing: one of them must name the proxy's version"
    )]
    NoVersion,
    /// There are no trust anchors.
    #[error(
        "Please provide the identity trust anchors: neither the file of trust anchors nor identityTrustAnchorsPEM holds any"
    )]
    NoTrustAnchors,
    /// A CIDR cannot be read.
    #[error(
        "cannot parse destination get networks: invalid CIDR address: {0} (in clusterNetworks of the values document)"
    )]
    Network(String),
}

impl Installation {
    /// Reads values documents, YAML or JSON, later ones over earlier ones, and trust anchors in PEM.
    ///
    /// Missing keys and nulls take the chart's defaults. Trust anchors of their own win over those of the document, as
    /// the mounted ConfigMap `linkerd-identity-trust-roots` does in Linkerd.
    pub fn parse(documents: &[&str], trust_anchors: Option<&str>, namespace: &str) -> Result<Self, ConfigError> {
        let mut merged = Value::Object(Map::new());
        for document in documents {
            document::merge(&mut merged, read(document)?);
        }
        Self::from_document(merged, trust_anchors, namespace)
    }

    /// As [`Installation::parse`], for a document that is read already.
    pub fn from_document(mut document: Value, anchors: Option<&str>, namespace: &str) -> Result<Self, ConfigError> {
        document::normalise(&mut document);
        let values = typed(&document)?;
        let mut installation = Self {
            control_plane_namespace: namespace.to_owned(),
            trust_anchors: String::new(),
            trust_root_sha256: String::new(),
            changes: changes(&values),
            opaque_ports: Ranges::parse(&values.proxy.opaque_ports),
            document: Arc::new(document),
            values: Arc::new(values),
        };
        let values = Arc::clone(&installation.values);
        installation.set_trust_anchors(anchors.unwrap_or(&values.identity_trust_anchors_pem));
        Ok(installation)
    }

    /// Sets trust anchors (PEM) in the place of those of the document.
    pub fn set_trust_anchors(&mut self, anchors: &str) {
        self.trust_anchors = format!("{}\n", anchors.trim());
        self.trust_root_sha256 = format!("{:x}", Sha256::digest(anchors.as_bytes()));
    }

    /// What stands for a version and for trust anchors that nobody names.
    pub const PLACEHOLDER: &str = "unknown";

    /// The installation with [`Self::PLACEHOLDER`] for a version and for trust anchors that it lacks: they decide nothing, so that
    /// decisions can be shown where nobody says what is installed.
    #[must_use]
    pub fn with_placeholders(mut self) -> Self {
        if self.values.proxy_version().is_empty() {
            Self::PLACEHOLDER.clone_into(&mut Arc::make_mut(&mut self.values).linkerd_version);
        }
        if self.trust_anchors.trim().is_empty() {
            self.trust_anchors = format!("{}\n", Self::PLACEHOLDER);
        }
        self
    }

    /// Checks what an injected pod cannot do without. Annotations cannot mend any of it but the version.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.values.proxy_version().is_empty() {
            return Err(ConfigError::NoVersion);
        }
        let networks = self.values.cluster_networks.as_str();
        // No network at all is no mistake.
        let mut networks = networks.trim_matches(',').split(',').filter(|_| !networks.is_empty());
        if let Some(network) = networks.find(|network| network.parse::<ipnet::IpNet>().is_err()) {
            return Err(ConfigError::Network(network.to_owned()));
        }
        match self.trust_anchors.trim() {
            "" => Err(ConfigError::NoTrustAnchors),
            _ => Ok(()),
        }
    }

    /// Whether a field, by its dotted key, is the document's or the chart's default.
    pub fn origin(&self, key: &str) -> Origin {
        let found = key.split('.').try_fold(&*self.document, |node, part| node.get(part));
        match found {
            Some(_) => Origin::Values,
            None => Origin::Default,
        }
    }

    /// What the document says otherwise than the chart: a sentence a field, in ascending order of key.
    pub fn changes(&self) -> &[String] {
        &self.changes
    }
}

/// Values that are not repeated: those that may be secret, and one that is long.
const WITHHELD: [&str; 3] = [
    "proxy.additionalEnv",
    "proxy.experimentalEnv",
    "identityTrustAnchorsPEM",
];

/// A sentence for each of `values` that is not the chart's default.
fn changes(values: &Values) -> Arc<[String]> {
    fn visit(key: &str, value: &Value, default: Option<&Value>, found: &mut Vec<String>) {
        match value {
            _ if default == Some(value) => {}
            Value::Object(map) if !map.is_empty() => {
                for (part, value) in map {
                    let key = if key.is_empty() {
                        part.clone()
                    } else {
                        format!("{key}.{part}")
                    };
                    visit(&key, value, default.and_then(|default| default.get(part)), found);
                }
            }
            _ if WITHHELD.contains(&key) => found.push(format!("{key} is set by the values")),
            Value::String(text) => found.push(format!("{key} is set by the values: {}", quote(text))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                found.push(format!("{key} is set by the values: {value}"));
            }
        }
    }
    let mut found = Vec::new();
    visit(
        "",
        &serde_json::to_value(values).unwrap_or_default(),
        Some(&document::DEFAULTS),
        &mut found,
    );
    found.sort_unstable();
    found.into()
}

/// Reads a document as `kubectl` reads manifests; one of nothing but comments is empty.
fn read(document: &str) -> Result<Value, ConfigError> {
    let documents = manifest::read(document).map_err(|error| ConfigError::Syntax(error.to_string()))?;
    let mut values = documents
        .into_iter()
        .map(|document| document.value)
        .filter(|value| !value.is_null());
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(ConfigError::NoMapping("several documents"));
    }
    match first {
        None => Ok(Value::Object(Map::new())),
        Some(Value::Object(map)) => Ok(Value::Object(map)),
        Some(Value::Array(_)) => Err(ConfigError::NoMapping("a list")),
        Some(_) => Err(ConfigError::NoMapping("a scalar")),
    }
}

/// Decodes the document key by key, so that an error can name its key.
fn typed(document: &Value) -> Result<Values, ConfigError> {
    let wrong = |key: String, message: String| Err(ConfigError::Type { key, message });
    if let Some(key) = document::misplaced_list(document) {
        return wrong(key, "expected a mapping of keys, found a list".to_owned());
    }
    let values: Values = serde_path_to_error::deserialize(document::completed(document)).map_err(|error| {
        let key = error.path().to_string();
        let message = match WITHHELD.contains(&key.as_str()) {
            true => "a value of another type belongs there".to_owned(),
            false => error.inner().to_string(),
        };
        ConfigError::Type { key, message }
    })?;
    for (key, variables) in [
        ("proxy.additionalEnv", &values.proxy.additional_env),
        ("proxy.experimentalEnv", &values.proxy.experimental_env),
    ] {
        if let Some(fault) = additional_env::fault(variables) {
            return wrong(key.to_owned(), fault);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(document: &str) -> Result<Installation, ConfigError> {
        Installation::parse(&[document], Some("anchors"), "linkerd")
    }

    #[test]
    fn missing_keys_and_nulls_take_the_defaults_of_the_chart() {
        let installation = parse("linkerdVersion: v1\nproxy: {resources: null, ports: {admin: 1234}}\n").unwrap();
        let mut expected = Values {
            linkerd_version: "v1".to_owned(),
            ..Values::default()
        };
        expected.proxy.ports.admin = 1234;
        assert_eq!(*installation.values, expected);
    }

    #[test]
    fn a_null_clears_the_timeouts_of_control_streams() {
        let streams = |document| parse(document).unwrap().values.proxy.control.streams.clone();
        assert_eq!(streams("proxy: {control: null}").lifetime, "");
        assert_eq!(streams("proxy: {control: {streams: {lifetime: null}}}").lifetime, "1h");
        assert_eq!(streams("").lifetime, "1h");
    }

    #[test]
    fn scalars_are_read_as_the_key_needs_them() {
        let installation = parse("linkerdVersion: 2.14\nproxy: {uid: '2103',  await: 'false'}").unwrap();
        assert_eq!(installation.values.linkerd_version, "2.14");
        assert_eq!(installation.values.proxy.uid, 2103);
        assert!(!installation.values.proxy.r#await);
    }

    #[test]
    fn documents_are_read_as_kubectl_reads_manifests() {
        let installation = parse("---\n# values\nproxy: {uid: 1e3, gid: 0644, logLevel: y}\n---\n").unwrap();
        let proxy = &installation.values.proxy;
        assert_eq!((proxy.uid, proxy.gid, proxy.log_level.as_str()), (1000, 420, "true"));
        assert_eq!(
            parse("a: 1\n---\nb: 2\n").unwrap_err(),
            ConfigError::NoMapping("several documents")
        );
        let error = parse("a: 1\nb: {").unwrap_err().to_string();
        assert!(
            error.starts_with("values document: ") && error.contains("line"),
            "{error}"
        );
        assert!(matches!(parse("a: 1\na: 2").unwrap_err(), ConfigError::Syntax(_)));
    }

    #[test]
    fn a_wrong_type_names_its_key() {
        let message = parse("proxy: {uid: [1]}").unwrap_err().to_string();
        assert!(message.contains("proxy.uid"), "{message}");
        let message = parse("proxy: {additionalEnv: s3cret}").unwrap_err().to_string();
        assert!(
            message.contains("proxy.additionalEnv") && !message.contains("s3cret"),
            "{message}"
        );
        let message = parse("proxy: {additionalEnv: [{name: A, value: [s3cret]}]}")
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "values document: proxy.additionalEnv: item 1: value is no text"
        );
        let message = parse("proxy: {ports: []}").unwrap_err().to_string();
        assert_eq!(
            message,
            "values document: proxy.ports: expected a mapping of keys, found a list"
        );
        assert_eq!(parse("- 1").unwrap_err(), ConfigError::NoMapping("a list"));
        assert!(matches!(parse("a: {").unwrap_err(), ConfigError::Syntax(_)));
        assert!(matches!(
            parse("outrigger: {onRefusd: skip}").unwrap_err(),
            ConfigError::Type { .. }
        ));
    }

    #[test]
    fn later_documents_lie_over_earlier_ones() {
        let documents = ["proxy: {uid: 1, gid: 2}", "proxy: {uid: 3}"];
        let proxy = &Installation::parse(&documents, None, "linkerd").unwrap().values.proxy;
        assert_eq!((proxy.uid, proxy.gid), (3, 2));
    }

    #[test]
    fn what_cannot_be_defaulted_is_asked_for() {
        assert_eq!(parse("").unwrap().check(), Err(ConfigError::NoVersion));
        let without_anchors = Installation::parse(&["linkerdVersion: v1"], Some("\n"), "linkerd").unwrap();
        assert_eq!(without_anchors.check(), Err(ConfigError::NoTrustAnchors));
        let networks = |list: &str| {
            parse(&format!("linkerdVersion: v1\nclusterNetworks: '{list}'"))
                .unwrap()
                .check()
        };
        for list in ["", "10.0.0.0/8", ",10.0.0.0/8,fd00::/8,"] {
            assert_eq!(networks(list), Ok(()), "{list:?}");
        }
        for (list, bad) in [
            ("10.0.0.0/8,bad", "bad"),
            ("10.0.0.0/8, fd00::/8", " fd00::/8"),
            ("10.0.0.1", "10.0.0.1"),
            (",", ""),
        ] {
            assert_eq!(networks(list), Err(ConfigError::Network(bad.to_owned())), "{list:?}");
        }
    }
}
