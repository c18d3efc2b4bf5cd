//! What namespace and pod ask of the installation's values: everything that a pod's configuration depends on beside the
//! installation, read from annotations and labels but not applied to anything yet.
//!
//! Pods mostly ask for what their siblings ask for. What they ask for is cheap to read and to compare; what follows from
//! it is not cheap to make, and can be kept for the next pod.

use super::annotation::{INJECT, OPAQUE_PORTS, Origin, PROXY_ADDITIONAL_ENV, inject_mode};
use super::problem::misfits;
use super::{Installation, Variant, opaque_ports, overrides};
use crate::pod::Pod;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The annotations that may override the values.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The namespace, where pods inherit from it: the webhook's case, not the command line's. Nothing is computed from
    /// the pod's ports where they do not.
    pub namespace: Option<NamespaceLayer<'a>>,
    /// The pod.
    pub pod: &'a Pod<'a>,
    /// The annotations of the workload's own metadata, of which `config.linkerd.io/proxy-additional-env` counts before the
    /// pod's.
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

/// What is asked for; equal settings make equal configurations of one installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings<'a> {
    /// Annotations that are known, those of the namespace that the pod inherits before its own.
    pub(super) annotations: Vec<Setting<'a>>,
    /// Where ingress mode is asked for: `annotation` or `label`, and whose.
    pub(super) ingress: Option<(&'static str, Origin)>,
    /// The pod's opaque ports.
    pub(super) opaque_ports: Option<OpaquePorts>,
    /// Further environment variables, of the namespace and of the workload.
    pub(super) additional_env: Vec<Setting<'a>>,
    /// Attributes of the proxy's spans.
    pub(super) spans: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Whether the API server or a node knows no native sidecars.
    pub(super) ordinary_only: bool,
    /// What is done otherwise than the values say.
    pub(super) variant: Variant,
}

/// An annotation that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    pub(super) key: &'static str,
    pub(super) value: Cow<'a, str>,
    pub(super) origin: Origin,
}

/// Ports whose protocol is not detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpaquePorts {
    /// The list as the proxy reads it.
    pub(super) ports: String,
    /// What was no port.
    pub(super) fault: Option<String>,
    /// Whose list; that of the values is narrowed to the pod's own ports.
    pub(super) origin: Origin,
}

/// Prefix of annotations that add an attribute to the proxy's spans.
const RESOURCE_ATTRIBUTE: &str = "resource.opentelemetry.io/";

impl<'a> Settings<'a> {
    /// Reads what `layers` ask of `installation`.
    pub fn read(installation: &Installation, layers: &Layers<'a>) -> Self {
        let mut settings = Self {
            ingress: ingress(layers),
            ..Self::default()
        };
        settings.known_annotations(layers);
        settings.opaque_ports = settings.opaque_ports(installation, layers);
        settings.additional_env(layers);
        if installation.values.proxy.tracing.enabled {
            settings.spans = spans(layers.pod);
        }
        settings
    }

    /// The same for an API server that knows no native sidecars, which would drop the proxy's restart policy, or for nodes
    /// that do not, which would wait for the proxy to end.
    #[must_use]
    pub fn without_native_sidecars(self) -> Self {
        Self {
            ordinary_only: true,
            ..self
        }
    }

    /// Bytes of everything that is asked for.
    pub fn size(&self) -> usize {
        let settings = self.annotations.iter().chain(&self.additional_env);
        let texts = settings.map(|setting| setting.value.len());
        let ports = self.opaque_ports.iter().map(|opaque| opaque.ports.len());
        let spans = self.spans.iter().map(|(key, value)| key.len() + value.len());
        texts.chain(ports).chain(spans).sum()
    }

    /// The same, independent of namespace and pod.
    pub fn into_owned(self) -> Settings<'static> {
        let owned = |settings: Vec<Setting<'_>>| settings.into_iter().map(Setting::into_owned).collect();
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Settings {
            annotations: owned(self.annotations),
            ingress: self.ingress,
            opaque_ports: self.opaque_ports,
            additional_env: owned(self.additional_env),
            spans: self
                .spans
                .into_iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
            ordinary_only: self.ordinary_only,
            variant: self.variant,
        }
    }

    /// The annotations that have a row, and `linkerd.io/inject` of the namespace. A pod inherits what it does not have
    /// itself, whatever its own value.
    fn known_annotations(&mut self, layers: &Layers<'a>) {
        for (key, value) in strings(layers.inherited()) {
            let known = match overrides::row(key).filter(|row| row.inherited) {
                Some(row) => Some(row.annotation),
                None => (key == INJECT && !says_inject(layers.pod)).then_some(INJECT),
            };
            if let Some(key) = known.filter(|key| layers.pod.annotation(key).is_none()) {
                self.annotations.push(Setting::new(key, value, Origin::Namespace));
            }
        }
        for (key, value) in strings(layers.pod.annotations()) {
            if let Some(row) = overrides::row(key) {
                self.annotations.push(Setting::new(row.annotation, value, Origin::Pod));
            }
        }
    }

    /// The annotation `key`, whoever's counts.
    pub(super) fn annotation(&self, key: &str) -> Option<&Setting<'a>> {
        self.annotations.iter().find(|setting| setting.key == key)
    }

    fn opaque_ports(&self, installation: &Installation, layers: &Layers<'a>) -> Option<OpaquePorts> {
        let annotated = self
            .annotation(OPAQUE_PORTS)
            .map(|found| (found.value.as_ref().into(), found.origin));
        // Nothing is computed where pods inherit nothing.
        let computed = || {
            layers.namespace?;
            let ports = installation.opaque_ports.of_pod(layers.pod);
            (!ports.is_empty()).then_some((Cow::Owned(ports), Origin::Values))
        };
        let (list, origin): (Cow<'_, str>, _) = annotated.or_else(computed)?;
        let (ports, junk) = opaque_ports::parse(&list, layers.pod);
        let fault = (!junk.is_empty()).then(|| misfits(&junk, overrides::PORTS));
        Some(OpaquePorts { ports, fault, origin })
    }

    fn additional_env(&mut self, layers: &Layers<'a>) {
        let of = |annotations: Option<&'a Map<String, Value>>| annotations?.get(PROXY_ADDITIONAL_ENV)?.as_str();
        let workload = of(layers.workload).or_else(|| of(layers.pod.annotations()));
        let found = [(of(layers.inherited()), Origin::Namespace), (workload, Origin::Pod)];
        let found = found.into_iter().filter_map(|(value, origin)| Some((value?, origin)));
        self.additional_env
            .extend(found.map(|(value, origin)| Setting::new(PROXY_ADDITIONAL_ENV, value, origin)));
    }
}

impl<'a> Setting<'a> {
    fn new(key: &'static str, value: &'a str, origin: Origin) -> Self {
        Self {
            key,
            value: value.into(),
            origin,
        }
    }

    fn into_owned(self) -> Setting<'static> {
        Setting {
            value: self.value.into_owned().into(),
            ..self
        }
    }
}

/// Ingress mode, as `linkerd.io/inject` of the pod says; the namespace's counts where the pod has no such key at all.
fn ingress(layers: &Layers<'_>) -> Option<(&'static str, Origin)> {
    let pod = layers.pod;
    let own = inject_mode(pod.annotations(), pod.labels()).map(|found| (found, Origin::Pod));
    let ((mode, place), origin) = own.or_else(|| {
        let namespace = layers.namespace.filter(|_| !says_inject(pod))?;
        inject_mode(namespace.annotations, namespace.labels).map(|found| (found, Origin::Namespace))
    })?;
    (mode == "ingress").then_some((place, origin))
}

/// Labels and annotations that become attributes of the proxy's spans.
fn spans<'a>(pod: &Pod<'a>) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let service = pod
        .label("app.kubernetes.io/instance")
        .or_else(|| pod.label("app.kubernetes.io/name"));
    let named = service.map(|service| ("service.name", service));
    let attributes =
        strings(pod.annotations()).filter_map(|(key, value)| Some((key.strip_prefix(RESOURCE_ATTRIBUTE)?, value)));
    let all = named.into_iter().chain(attributes);
    all.map(|(key, value)| (key.into(), value.into())).collect()
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
