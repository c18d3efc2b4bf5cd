//! The configuration of one pod: the installation's, overridden by the annotations of its namespace and its own.

use super::annotation::{ENABLE_DEBUG_SIDECAR, INJECT, OPAQUE_PORTS, Origin, PROXY_ADDITIONAL_ENV};
use super::overrides::{self, Setter};
use super::problem::{Consequence, Problem, misfit, quote};
use super::settings::{OpaquePorts, Setting};
use super::values::Values;
use super::{Installation, Layers, Settings, Variant, additional_env, grammar};
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
    /// Whether the proxy would be a native sidecar if the API server knew such.
    pub lost_native_sidecar: bool,
    /// What is done otherwise than the values say.
    pub variant: Variant,
    /// Whether a quota's demands gave the injected containers figures that nobody had named.
    pub filled: bool,
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

/// The spelling of the native-sidecar annotation, by stability; the first that is present counts.
const NATIVE_SIDECAR: [&str; 3] = [
    "config.linkerd.io/proxy-enable-native-sidecar",
    "config.beta.linkerd.io/proxy-enable-native-sidecar",
    "config.alpha.linkerd.io/proxy-enable-native-sidecar",
];

impl Config {
    /// Overrides the installation's values with `layers`: see [`Config::new`].
    pub fn effective(installation: &Installation, layers: &Layers<'_>) -> Self {
        Self::new(installation, &Settings::read(installation, layers))
    }

    /// Overrides the installation's values with `settings`, which were read for the same installation.
    ///
    /// A value that cannot be read leaves the field alone and becomes a [`Problem`]; so does one that the pod cannot run
    /// with, wherever it comes from.
    pub fn new(installation: &Installation, settings: &Settings<'_>) -> Self {
        let mut config = Self {
            values: Arc::clone(&installation.values),
            debug: false,
            inherited: inherited(settings),
            overridden: Vec::new(),
            problems: Vec::new(),
            lost_native_sidecar: false,
            variant: Variant::default(),
            filled: false,
        };
        for setting in &settings.annotations {
            config.apply(setting);
        }
        config.ingress(settings);
        config.native_sidecar(settings);
        config.opaque_ports(settings);
        config.additional_env(settings);
        config.spans(settings);
        config.vary(settings.variant);
        config.fence();
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

    fn apply(&mut self, setting: &Setting<'_>) {
        let Setting { key, value, origin } = setting;
        match (*key, overrides::row(key)) {
            (ENABLE_DEBUG_SIDECAR, _) => self.enable_debug(setting),
            (_, None) => {}
            (_, Some(row)) if matches!(row.setter, Setter::Ports | Setter::Elsewhere(_)) => {}
            (_, Some(row)) => match row.setter.set(self.changed(), value) {
                Ok(()) => self.note(row.values_key, setting),
                Err(unreadable) => self.problems.push(Problem {
                    key: (*key).to_owned(),
                    fault: misfit(value, &unreadable.expected),
                    origin: *origin,
                    consequence: match unreadable.fatal {
                        true => Consequence::Fatal,
                        false => Consequence::Ignored,
                    },
                }),
            },
        }
    }

    fn ingress(&mut self, settings: &Settings<'_>) {
        if let Some((place, origin)) = settings.ingress {
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

    fn enable_debug(&mut self, setting: &Setting<'_>) {
        match grammar::boolean(&setting.value) {
            Some(debug) => self.debug = debug,
            None if setting.value.is_empty() => {}
            None => self.ignore(setting, misfit(&setting.value, overrides::BOOLEAN)),
        }
    }

    /// Reads the first spelling that is present; one that cannot be read still hides the others.
    fn native_sidecar(&mut self, settings: &Settings<'_>) {
        if let Some(setting) = NATIVE_SIDECAR.into_iter().find_map(|key| settings.annotation(key)) {
            match grammar::boolean(&setting.value) {
                Some(native) => {
                    self.changed().proxy.native_sidecar = native;
                    self.note("proxy.nativeSidecar", setting);
                }
                None => self.ignore(setting, misfit(&setting.value, overrides::BOOLEAN)),
            }
        }
        if settings.ordinary_only && self.values.proxy.native_sidecar {
            self.changed().proxy.native_sidecar = false;
            self.lost_native_sidecar = true;
        }
    }

    fn opaque_ports(&mut self, settings: &Settings<'_>) {
        let Some(OpaquePorts { ports, fault, origin }) = &settings.opaque_ports else {
            return;
        };
        let setting = Setting {
            key: OPAQUE_PORTS,
            value: ports.into(),
            origin: *origin,
        };
        self.note("proxy.opaquePorts", &setting);
        self.changed().proxy.opaque_ports.clone_from(ports);
        if let Some(fault) = fault {
            self.ignore(&setting, fault.clone());
        }
    }

    fn additional_env(&mut self, settings: &Settings<'_>) {
        for setting in &settings.additional_env {
            match additional_env::parse(&setting.value) {
                Ok(layer) => {
                    additional_env::merge(&mut self.changed().proxy.additional_env, layer);
                    self.note("proxy.additionalEnv", setting);
                }
                Err(fault) => self.ignore(setting, fault),
            }
        }
    }

    fn spans(&mut self, settings: &Settings<'_>) {
        if !settings.spans.is_empty() {
            let spans = settings.spans.iter();
            let labels = &mut self.changed().proxy.tracing.labels;
            labels.extend(spans.map(|(key, value)| (key.to_string(), value.to_string())));
        }
    }

    /// The values, for a change: a copy of their own from now on.
    pub(crate) fn changed(&mut self) -> &mut Values {
        Arc::make_mut(&mut self.values)
    }

    fn note(&mut self, values_key: &'static str, setting: &Setting<'_>) {
        self.overridden.push(Overridden {
            values_key,
            key: setting.key.to_owned(),
            place: "annotation",
            origin: setting.origin,
            value: (setting.key != PROXY_ADDITIONAL_ENV).then(|| quote(&setting.value)),
        });
    }

    fn ignore(&mut self, setting: &Setting<'_>, fault: String) {
        self.problems.push(Problem {
            key: setting.key.to_owned(),
            fault,
            origin: setting.origin,
            consequence: Consequence::Ignored,
        });
    }
}

/// The annotations that the pod takes over from its namespace, and the ports that were computed for it.
fn inherited(settings: &Settings<'_>) -> Vec<(String, String)> {
    let annotations = settings.annotations.iter();
    let of_namespace = annotations.filter(|setting| setting.origin == Origin::Namespace);
    let of_namespace = of_namespace.map(|setting| (setting.key, &*setting.value));
    let computed = settings.opaque_ports.iter().filter(|it| it.origin == Origin::Values);
    let computed = computed.map(|computed| (OPAQUE_PORTS, computed.ports.as_str()));
    let all = of_namespace.chain(computed);
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests;
