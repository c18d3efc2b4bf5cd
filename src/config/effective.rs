//! The configuration of one pod: the installation's, overridden by the annotations of its namespace and its own.

use super::annotation::{ENABLE_DEBUG_SIDECAR, INJECT, OPAQUE_PORTS, Origin, PROXY_ADDITIONAL_ENV, inject_mode};
use super::overrides::{self, Setter};
use super::problem::{Consequence, Problem, misfit, misfits, quote};
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
    /// Every field that is not what the installation says, in the order in which they were set.
    pub overridden: Vec<Overridden>,
    /// Values that are not what they should be: at most one a key and layer.
    pub problems: Vec<Problem>,
}

/// A field that is not what the installation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The key of the values document, dotted.
    pub values_key: &'static str,
    /// The key of the annotation or label that set it.
    pub key: String,
    /// `annotation` or `label`.
    pub place: &'static str,
    /// Whose; where it is the installation, the field was narrowed to what concerns the pod.
    pub origin: Origin,
    /// The value in quotes, cut where it is long; nothing where it may be secret.
    pub value: Option<String>,
}

impl fmt::Display for Overridden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            values_key,
            key,
            place,
            origin,
            value,
        } = self;
        match origin {
            Origin::Namespace | Origin::Pod => write!(f, "{values_key} is set by the {origin} {place} {key}")?,
            Origin::Values | Origin::Default => write!(f, "{values_key} is narrowed to the pod's own ports")?,
        }
        value.iter().try_for_each(|value| write!(f, ": {value}"))
    }
}

/// The annotations that may override the values.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The namespace, where pods inherit from it: the webhook's case, not the command line's. Nothing is computed from
    /// the pod's ports where they do not.
    pub namespace: Option<NamespaceLayer<'a>>,
    /// The pod.
    pub pod: &'a Pod<'a>,
    /// The annotations of the workload's own metadata; those of the pod where it has no other.
    pub workload: Option<&'a Map<String, Value>>,
}

/// What a namespace says about its pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceLayer<'a> {
    /// Its `metadata.annotations`.
    pub annotations: Option<&'a Map<String, Value>>,
    /// Its `metadata.labels`.
    pub labels: Option<&'a Map<String, Value>>,
}

impl<'a> Layers<'a> {
    fn inherited(&self) -> Option<&'a Map<String, Value>> {
        self.namespace.and_then(|namespace| namespace.annotations)
    }
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
    /// A value that cannot be read leaves the field alone and becomes a [`Problem`]; so does one that the pod cannot run
    /// with, wherever it comes from.
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
        config.ingress(layers);
        config.native_sidecar(layers);
        config.opaque_ports(layers);
        config.additional_env(layers);
        config.tracing_labels(layers.pod);
        config.validate(installation);
        config.sift_skip_lists(installation);
        config.confine_contexts(installation);
        config
    }

    /// The annotation or label that set a field, by the field's dotted key in the values document.
    pub fn set_by(&self, values_key: &str) -> Option<&Overridden> {
        let of_pod = |field: &&Overridden| matches!(field.origin, Origin::Namespace | Origin::Pod);
        let mut fields = self.overridden.iter().rev().filter(of_pod);
        fields.find(|field| field.values_key == values_key)
    }

    /// Where a field comes from, by its dotted key in the values document; `installation` is the one that the
    /// configuration was made from.
    pub fn origin(&self, installation: &Installation, values_key: &str) -> Origin {
        self.set_by(values_key)
            .map_or_else(|| installation.origin(values_key), |field| field.origin)
    }

    /// Whether a problem keeps the pod from being injected.
    pub fn fatal_problem(&self) -> Option<&Problem> {
        self.problems
            .iter()
            .find(|problem| problem.consequence == Consequence::Fatal)
    }

    /// Takes over the namespace's annotations that the pod does not have itself, whatever its own value.
    fn inherit(&mut self, layers: &Layers<'_>) {
        for (key, value) in strings(layers.inherited()) {
            let inherited = key == INJECT || overrides::row(key).is_some_and(|row| row.inherited);
            if inherited && layers.pod.annotation(key).is_none() && !(key == INJECT && says_inject(layers.pod)) {
                self.apply(key, value, Origin::Namespace);
                self.inherited.push((key.to_owned(), value.to_owned()));
            }
        }
    }

    fn apply(&mut self, key: &str, value: &str, origin: Origin) {
        match key {
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
            Ok(()) => self.note(row.values_key, (key, value), origin),
            Err(unreadable) => self.problems.push(Problem {
                key: key.to_owned(),
                fault: misfit(value, &unreadable.expected),
                origin,
                consequence: match unreadable.fatal {
                    true => Consequence::Fatal,
                    false => Consequence::Ignored,
                },
            }),
        }
    }

    /// Ingress mode, as `linkerd.io/inject` of the pod says; the namespace's counts where the pod has no such key at all.
    fn ingress(&mut self, layers: &Layers<'_>) {
        let pod = layers.pod;
        let inherited = layers.namespace.filter(|_| !says_inject(pod));
        let own = inject_mode(pod.annotations(), pod.labels()).map(|found| (found, Origin::Pod));
        let found = own.or_else(|| {
            let namespace = inherited?;
            inject_mode(namespace.annotations, namespace.labels).map(|found| (found, Origin::Namespace))
        });
        if let Some((("ingress", place), origin)) = found {
            self.changed().proxy.is_ingress = true;
            self.overridden.push(Overridden {
                values_key: "proxy.isIngress",
                key: INJECT.to_owned(),
                place,
                origin,
                value: Some(quote("ingress")),
            });
        }
    }

    fn enable_debug(&mut self, value: &str, origin: Origin) {
        match grammar::boolean(value) {
            Some(debug) => self.debug = debug,
            None if value.is_empty() => {}
            None => self.ignore(ENABLE_DEBUG_SIDECAR, origin, misfit(value, "true or false")),
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
                self.note("proxy.nativeSidecar", (key, &value), origin);
            }
            None => self.ignore(key, origin, misfit(&value, "true or false")),
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
        self.note("proxy.opaquePorts", (OPAQUE_PORTS, &ports), origin);
        self.changed().proxy.opaque_ports = ports;
        if !junk.is_empty() {
            let expected = "a port, a range of ports or the name of a container port";
            self.ignore(OPAQUE_PORTS, origin, misfits(&junk, expected));
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
        for (text, origin) in [(of(layers.inherited()), Origin::Namespace), (workload, Origin::Pod)] {
            let Some(text) = text else { continue };
            match additional_env::parse(&text) {
                Ok(layer) => {
                    additional_env::merge(&mut self.changed().proxy.additional_env, layer);
                    self.note("proxy.additionalEnv", (PROXY_ADDITIONAL_ENV, &text), origin);
                }
                Err(fault) => self.ignore(PROXY_ADDITIONAL_ENV, origin, fault),
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

    fn note(&mut self, values_key: &'static str, (annotation, value): (&str, &str), origin: Origin) {
        self.overridden.push(Overridden {
            values_key,
            key: annotation.to_owned(),
            place: "annotation",
            origin,
            value: (annotation != PROXY_ADDITIONAL_ENV).then(|| quote(value)),
        });
    }

    fn ignore(&mut self, key: &str, origin: Origin, fault: String) {
        self.problems.push(Problem {
            key: key.to_owned(),
            fault,
            origin,
            consequence: Consequence::Ignored,
        });
    }
}

/// Whether the pod has `linkerd.io/inject`, as annotation or as label, whatever its value.
fn says_inject(pod: &Pod<'_>) -> bool {
    pod.annotation(INJECT).or_else(|| pod.label(INJECT)).is_some()
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
