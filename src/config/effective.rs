//! The configuration of one pod: the installation's, overridden by the annotations of its namespace and its own.

use super::annotation::{ENABLE_DEBUG_SIDECAR, INJECT, OPAQUE_PORTS, Origin, PROXY_ADDITIONAL_ENV};
use super::overrides::{self, Setter};
use super::values::Values;
use super::{Installation, additional_env, grammar, opaque_ports};
use crate::pod::Pod;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// What applies to one pod.
#[derive(Clone, Debug)]
pub struct Config {
    /// The values, overridden: those of the installation themselves as long as nothing is.
    pub values: Arc<Values>,
    /// Whether the debug container was asked for.
    pub debug: bool,
    /// Annotations that the pod takes over from its namespace or that were computed for it.
    pub inherited: Vec<(String, String)>,
    /// Every field that an annotation set.
    pub overridden: Vec<Overridden>,
    /// Values that were not taken.
    pub problems: Vec<Problem>,
}

/// A field that an annotation set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The key of the values document, dotted.
    pub values_key: &'static str,
    /// The annotation.
    pub annotation: String,
    /// Whose annotation.
    pub origin: Origin,
}

/// A value that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The annotation, or the key of the values document.
    pub key: String,
    /// The value as it was written.
    pub value: String,
    /// What would be right.
    pub expected: String,
    /// Whose value.
    pub origin: Origin,
    /// Whether the pod must not run with the default instead.
    pub fatal: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            expected,
            origin,
            fatal: _,
        } = self;
        match value.char_indices().nth(QUOTED) {
            None => write!(f, "{origin} {key}: {value:?} is not {expected}"),
            Some((end, _)) => {
                let start = value.get(..end).unwrap_or_default();
                write!(f, "{origin} {key}: {start:?}… is not {expected}")
            }
        }
    }
}

/// How much of a value is repeated, in characters: what is wrong with a longer one shows in its first line.
const QUOTED: usize = 60;

/// The annotations that may override the values.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The namespace's annotations, where pods inherit them: the webhook's case, not the command line's.
    pub namespace: Option<&'a Map<String, Value>>,
    /// The pod.
    pub pod: &'a Pod<'a>,
    /// The annotations of the workload's own metadata; those of the pod where it has no other.
    pub workload: Option<&'a Map<String, Value>>,
}

/// Prefix of annotations that add an attribute to the proxy's spans.
const RESOURCE_ATTRIBUTE: &str = "resource.opentelemetry.io/";

/// The spelling of the native-sidecar annotation, by stability; the first that is present counts.
const NATIVE_SIDECAR: [&str; 3] = [
    "config.linkerd.io/proxy-enable-native-sidecar",
    "config.beta.linkerd.io/proxy-enable-native-sidecar",
    "config.alpha.linkerd.io/proxy-enable-native-sidecar",
];

impl Config {
    /// Overrides the installation's values with `layers`.
    ///
    /// A value that cannot be read leaves the field alone and becomes a [`Problem`].
    pub fn effective(installation: &Installation, layers: &Layers<'_>) -> Self {
        let mut config = Self {
            values: Arc::clone(&installation.values),
            debug: false,
            inherited: Vec::new(),
            overridden: Vec::new(),
            problems: Vec::new(),
        };
        config.inherit(layers);
        for (key, value) in strings(layers.pod.annotations()) {
            config.apply(key, value, Origin::Pod);
        }
        config.native_sidecar(layers);
        config.opaque_ports(layers);
        config.additional_env(layers);
        config.tracing_labels(layers.pod);
        config
    }

    /// Whether a problem keeps the pod from being injected.
    pub fn fatal_problem(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.fatal)
    }

    /// Takes over the namespace's annotations that the pod does not have itself, whatever its own value.
    fn inherit(&mut self, layers: &Layers<'_>) {
        for (key, value) in strings(layers.namespace) {
            let inherited = key == INJECT || overrides::row(key).is_some_and(|row| row.inherited);
            if inherited && layers.pod.annotation(key).is_none() && own_label(layers.pod, key).is_none() {
                self.apply(key, value, Origin::Namespace);
                self.inherited.push((key.to_owned(), value.to_owned()));
            }
        }
    }

    fn apply(&mut self, key: &str, value: &str, origin: Origin) {
        match key {
            INJECT => {
                if value == "ingress" {
                    self.changed().proxy.is_ingress = true;
                    self.note("proxy.isIngress", key, origin);
                }
            }
            ENABLE_DEBUG_SIDECAR => self.enable_debug(value, origin),
            _ => self.apply_row(key, value, origin),
        }
    }

    fn apply_row(&mut self, key: &str, value: &str, origin: Origin) {
        let Some(row) = overrides::row(key) else { return };
        if matches!(row.setter, Setter::Ports | Setter::Elsewhere) {
            return;
        }
        match row.setter.set(self.changed(), value) {
            Ok(()) => self.note(row.values_key, key, origin),
            Err(unreadable) => self.problems.push(Problem {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: unreadable.expected,
                origin,
                fatal: unreadable.fatal,
            }),
        }
    }

    fn enable_debug(&mut self, value: &str, origin: Origin) {
        match grammar::boolean(value) {
            Some(debug) => self.debug = debug,
            None if value.is_empty() => {}
            None => self.ignore(ENABLE_DEBUG_SIDECAR, value, origin, "true or false"),
        }
    }

    /// Reads the first spelling that is present; one that cannot be read still hides the others.
    fn native_sidecar(&mut self, layers: &Layers<'_>) {
        let found = NATIVE_SIDECAR.into_iter().find_map(|key| {
            let own = layers
                .pod
                .annotation(key)
                .map(|value| (key, value.to_owned(), Origin::Pod));
            own.or_else(|| {
                self.inherited(key)
                    .map(|value| (key, value.to_owned(), Origin::Namespace))
            })
        });
        let Some((key, value, origin)) = found else { return };
        match grammar::boolean(&value) {
            Some(native) => {
                self.changed().proxy.native_sidecar = native;
                self.note("proxy.nativeSidecar", key, origin);
            }
            None => self.ignore(key, &value, origin, "true or false"),
        }
    }

    fn opaque_ports(&mut self, layers: &Layers<'_>) {
        let own = layers
            .pod
            .annotation(OPAQUE_PORTS)
            .map(|value| (value.to_owned(), Origin::Pod));
        let found = own.or_else(|| {
            self.inherited(OPAQUE_PORTS)
                .map(|value| (value.to_owned(), Origin::Namespace))
        });
        let (value, origin) = match found {
            Some(found) => found,
            None if layers.namespace.is_none() => return,
            None => {
                let matching = opaque_ports::of_pod(&self.values.proxy.opaque_ports, layers.pod);
                if matching.is_empty() {
                    return;
                }
                self.inherited.push((OPAQUE_PORTS.to_owned(), matching.clone()));
                (matching, Origin::Values)
            }
        };
        let (ports, junk) = opaque_ports::parse(&value, layers.pod);
        self.changed().proxy.opaque_ports = ports;
        self.note("proxy.opaquePorts", OPAQUE_PORTS, origin);
        for item in junk {
            self.ignore(
                OPAQUE_PORTS,
                &item,
                origin,
                "a port, a range of ports or the name of a container port",
            );
        }
    }

    fn additional_env(&mut self, layers: &Layers<'_>) {
        let of = |annotations: Option<&Map<String, Value>>| {
            annotations
                .and_then(|annotations| annotations.get(PROXY_ADDITIONAL_ENV))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let workload = of(layers.workload.or_else(|| layers.pod.annotations()));
        for (text, origin) in [(of(layers.namespace), Origin::Namespace), (workload, Origin::Pod)] {
            let Some(text) = text else { continue };
            match additional_env::parse(&text) {
                Ok(layer) => {
                    additional_env::merge(&mut self.changed().proxy.additional_env, layer);
                    self.note("proxy.additionalEnv", PROXY_ADDITIONAL_ENV, origin);
                }
                Err(expected) => self.ignore(PROXY_ADDITIONAL_ENV, &text, origin, &expected),
            }
        }
    }

    /// Labels and annotations that become attributes of the proxy's spans.
    fn tracing_labels(&mut self, pod: &Pod<'_>) {
        if !self.values.proxy.tracing.enabled {
            return;
        }
        let labels = &mut self.changed().proxy.tracing.labels;
        let service = pod
            .label("app.kubernetes.io/instance")
            .or_else(|| pod.label("app.kubernetes.io/name"));
        if let Some(service) = service {
            labels.insert("service.name".to_owned(), service.to_owned());
        }
        for (key, value) in strings(pod.annotations()) {
            if let Some(label) = key.strip_prefix(RESOURCE_ATTRIBUTE) {
                labels.insert(label.to_owned(), value.to_owned());
            }
        }
    }

    /// The values, for a change: a copy of their own from now on.
    pub(crate) fn changed(&mut self) -> &mut Values {
        Arc::make_mut(&mut self.values)
    }

    fn inherited(&self, key: &str) -> Option<&str> {
        self.inherited
            .iter()
            .find(|(inherited, _)| inherited == key)
            .map(|(_, value)| value.as_str())
    }

    fn note(&mut self, values_key: &'static str, annotation: &str, origin: Origin) {
        self.overridden.push(Overridden {
            values_key,
            annotation: annotation.to_owned(),
            origin,
        });
    }

    fn ignore(&mut self, key: &str, value: &str, origin: Origin, expected: &str) {
        let (key, value, expected) = (key.to_owned(), value.to_owned(), expected.to_owned());
        self.problems.push(Problem {
            key,
            value,
            expected,
            origin,
            fatal: false,
        });
    }
}

/// `linkerd.io/inject` may be a label: then the pod has it as much as with an annotation.
fn own_label<'a>(pod: &Pod<'a>, key: &str) -> Option<&'a str> {
    if key == INJECT { pod.label(key) } else { None }
}

/// The entries whose value is a string, as every valid one is.
fn strings(annotations: Option<&Map<String, Value>>) -> impl Iterator<Item = (&str, &str)> {
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests;
