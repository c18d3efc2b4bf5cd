//! Injecting one resource of a manifest, without a cluster.
//!
//! By default only annotations are written, for the webhook to act on; with `manual` the proxy itself is. What the
//! webhook would leave alone is left alone here too, and what it would leave alone against its author's wish is an
//! error, because nobody reads the trace of a command.

use crate::cli::resources::{Change, Changed, Outcome};
use crate::config::annotation::{
    CLOSE_WAIT_TIMEOUT, CONTROL_PLANE_COMPONENT, CREATED_BY, ENABLE_DEBUG_SIDECAR, INJECT, OPAQUE_PORTS,
    SETUP_IPTABLES, inject_mode,
};
use crate::config::values::Values;
use crate::config::{Installation, Layers, Settings, difference};
use crate::decide::{self, DenyReason, Namespace, Round, SkipReason, Trace, asked, eligibility};
use crate::inject::patch::Patch;
use crate::inject::uninject::uninject;
use crate::inject::{self, Metadata, Owner, Prepared, Redirection, Shape, metadata_patch};
use crate::pod::workload::Kind;
use crate::pod::{Pod, structure};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What `inject` does to every resource.
#[derive(Debug)]
pub struct Injector {
    /// The installation, its values as the flags left them.
    installation: Prepared,
    /// Annotations that say what the flags changed.
    overrides: BTreeMap<String, String>,
    options: Options,
}

/// What is asked for beside the values.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the proxy itself is written, instead of annotations for the webhook.
    pub manual: bool,
    /// How traffic is redirected, where a flag says so.
    pub redirection: Option<Redirection>,
    /// Whether the debug container is added.
    pub debug: bool,
}

/// A workload under injection.
struct Workload<'a> {
    kind: Kind,
    object: &'a Value,
    template: &'a Value,
    prefix: &'static str,
}

impl Workload<'_> {
    fn namespace(&self) -> &str {
        self.object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl Injector {
    /// An injector for an installation whose values the flags changed to `values`.
    pub fn new(installation: &Installation, values: Values, options: Options) -> Self {
        let overrides = difference::annotations(&installation.values, &values);
        let mut installation = installation.clone();
        installation.values = values.into();
        Self {
            installation: installation.into(),
            overrides,
            options,
        }
    }

    /// The installation, its values as the flags left them.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Injects `object` as if nothing had been injected before. What its author asked for in `linkerd.io` annotations
    /// is kept: ingress mode, and a redirection.
    pub fn reinject(&self, object: &Value) -> Change {
        let mut clean = object.clone();
        uninject(&mut clean);
        restore(object, &mut clean);
        self.inject(&clean)
    }

    /// Injects `object` as it stands.
    pub fn inject(&self, object: &Value) -> Change {
        let skipped = || Ok(Changed::new(object.clone(), Outcome::Skipped));
        let Some(kind) = Kind::of(object) else { return skipped() };
        let name = format!("{}/{}", kind.lower_case(), Pod::new(object).name().unwrap_or_default());
        let failed = |error| format!("failed to inject {name}: {error}");
        let template = structure::of_workload(kind, object).map_err(|malformed| failed(malformed.to_string()))?;
        let (Some(template), Some(prefix)) = (template, kind.template_pointer()) else {
            return match self.annotations_of(kind, object) {
                Some(annotations) => Ok(Changed::new(annotated(object, "", annotations)?, Outcome::Annotated)),
                None => skipped(),
            };
        };
        let workload = Workload {
            kind,
            object,
            template,
            prefix,
        };
        if Pod::new(template).label(CONTROL_PLANE_COMPONENT).is_some() && !self.options.manual {
            return Err("--manual must be set when injecting control plane components".to_owned());
        }
        if !self.may_inject(&workload).map_err(failed)? {
            return skipped();
        }
        let (patch, warnings) = match self.options.manual {
            true => self.proxy(&workload).map_err(failed)?,
            false => (self.annotations(&workload), Vec::new()),
        };
        Ok(Changed {
            value: patch.applied_to(object).map_err(failed)?,
            outcome: Outcome::Injected,
            warnings,
        })
    }

    /// What a resource without pods of its own is annotated with: a namespace with everything that its pods inherit, a
    /// service with its opaque ports.
    fn annotations_of(&self, kind: Kind, object: &Value) -> Option<BTreeMap<String, String>> {
        if kind == Kind::Service {
            let ports = self.overrides.get(OPAQUE_PORTS)?;
            return Some(BTreeMap::from([(OPAQUE_PORTS.to_owned(), ports.clone())]));
        }
        let mut annotations = self.overrides.clone();
        // No pod inherits it.
        annotations.remove(CLOSE_WAIT_TIMEOUT);
        ask_for_injection(&mut annotations, object);
        annotations.extend(self.redirection());
        Some(annotations)
    }

    fn redirection(&self) -> Option<(String, String)> {
        let redirection = self.options.redirection?;
        Some((SETUP_IPTABLES.to_owned(), redirection.annotation().to_owned()))
    }

    /// Whether the webhook would inject the pods, if it were asked to; an error where they cannot be.
    fn may_inject(&self, workload: &Workload<'_>) -> Result<bool, String> {
        let pod = Pod::new(workload.template);
        let asked = Map::from_iter([(INJECT.to_owned(), Value::from("enabled"))]);
        let namespace = Namespace {
            name: workload.namespace(),
            labels: None,
            annotations: Some(&asked),
        };
        let mut reasons =
            eligibility::judge(&pod, &namespace, &self.installation, Round::First, &mut Trace::off()).reasons;
        reasons.retain(|reason| *reason != SkipReason::ControlPlanePod || !self.options.manual);
        if reasons.contains(&SkipReason::InjectionDisableAnnotationPresent) {
            return Ok(false);
        }
        let unwanted = [
            SkipReason::AutomountDisabled,
            SkipReason::HostNetworkEnabled,
            SkipReason::SidecarAlreadyExists,
        ];
        let messages: Vec<_> = unwanted
            .into_iter()
            .filter(|reason| reasons.contains(reason))
            .map(|reason| reason.to_string())
            .collect();
        if !messages.is_empty() {
            return Err(messages.join(", "));
        }
        Ok(reasons.is_empty())
    }

    /// Everything that the flags say about a pod, in annotations.
    fn pod_annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = self.overrides.clone();
        if self.options.debug {
            annotations.insert(ENABLE_DEBUG_SIDECAR.to_owned(), "true".to_owned());
        }
        annotations.extend(self.redirection());
        annotations
    }

    /// The patch that has the webhook inject the pods.
    fn annotations(&self, workload: &Workload<'_>) -> Patch {
        let mut annotations = self.pod_annotations();
        ask_for_injection(&mut annotations, workload.template);
        let metadata = Metadata {
            annotations,
            labels: BTreeMap::new(),
        };
        metadata_patch(&metadata, workload.template, workload.prefix)
    }

    /// The patch that gives the pods the proxy, with a warning for each value that was not taken.
    fn proxy(&self, workload: &Workload<'_>) -> Result<(Patch, Vec<String>), String> {
        let Workload {
            kind,
            object,
            template,
            prefix,
        } = *workload;
        let annotations = self.pod_annotations();
        // A flag's value is in the values already; what an annotation of the template says of it is overwritten.
        let bare = without(template, &annotations);
        let pod = Pod::new(&bare);
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: object.pointer("/metadata/annotations").and_then(Value::as_object),
        };
        let made = self.installation.made(Settings::read(&self.installation, &layers));
        let config = made.config();
        let strict = config.problems.first().filter(|_| config.values.outrigger.strict);
        if let Some(problem) = config.fatal_problem().or(strict) {
            return Err(problem.to_string());
        }
        let asked = self.asked(&pod)?;
        let chosen = asked.unwrap_or(match config.values.cni_enabled {
            true => Redirection::Cni,
            false => Redirection::InitContainer,
        });
        let name = Pod::new(object).name().unwrap_or_default().to_owned();
        let owner = Owner { kind: Some(kind), name };
        let mut metadata = Metadata::injected(&self.installation, config, Some(&owner), workload.namespace());
        metadata.annotations.extend(annotations);
        if let Some(redirection) = asked {
            metadata = metadata.with_redirection(redirection);
        }
        let debug = config.debug || self.options.debug;
        inject::check(config).map_err(|error| error.to_string())?;
        let user = inject::proxy_user(config);
        // Without redirection there is nothing to be exempt from.
        let redirected = chosen != Redirection::None;
        if let Some(container) = decide::container_of_user(&pod, user).filter(|_| redirected) {
            let container = container.to_owned();
            return Err(DenyReason::UserClash { container, user }.to_string());
        }
        let shape = Shape::new(&self.installation, &made, &pod, chosen, debug).map_err(|error| error.to_string())?;
        shape.check_names(&pod).map_err(|error| error.to_string())?;
        let warnings = config.problems.iter().map(ToString::to_string).collect();
        Ok((shape.into_patch(&metadata, template, prefix), warnings))
    }

    /// The redirection that a flag or the template asks for.
    fn asked(&self, pod: &Pod<'_>) -> Result<Option<Redirection>, String> {
        if self.options.redirection.is_some() {
            return Ok(self.options.redirection);
        }
        let nothing = Namespace {
            name: "",
            labels: None,
            annotations: None,
        };
        asked::read(pod, &nothing, &mut Trace::off()).map_err(|value| DenyReason::UnknownRedirection(value).to_string())
    }
}

/// What `linkerd.io/inject` says, be it an annotation or a label.
fn mode<'a>(pod: &Pod<'a>) -> Option<&'a str> {
    inject_mode(pod.annotations(), pod.labels()).map(|(mode, _)| mode)
}

/// Has what stands at `place` injected, unless it asks for ingress mode, which is more.
fn ask_for_injection(annotations: &mut BTreeMap<String, String>, place: &Value) {
    if mode(&Pod::new(place)) != Some("ingress") {
        annotations
            .entry(INJECT.to_owned())
            .or_insert_with(|| "enabled".to_owned());
    }
}

/// Puts back what the author of a template, or of a namespace, asked for, which uninjecting takes out with the rest.
fn restore(original: &Value, clean: &mut Value) {
    let Some(kind) = Kind::of(original) else { return };
    let pointer = kind.template_pointer().unwrap_or_default();
    let Some(place) = original.pointer(pointer) else {
        return;
    };
    let pod = Pod::new(place);
    let ingress = mode(&pod).filter(|mode| *mode == "ingress");
    let asked = [(INJECT, ingress), (SETUP_IPTABLES, redirection_of(&pod))];
    for (key, value) in asked {
        let Some(value) = value else { continue };
        let annotations = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        if let Ok(restored) = annotated(clean, pointer, annotations) {
            *clean = restored;
        }
    }
}

/// The redirection that an author asked for, in an annotation or else a label. Beside the mark of an injection the
/// annotation was written by that injection, which never chooses `false` of its own accord.
fn redirection_of<'a>(pod: &Pod<'a>) -> Option<&'a str> {
    let injected = pod.annotation(CREATED_BY).is_some();
    let annotation = pod.annotation(SETUP_IPTABLES).filter(|value| !value.is_empty());
    annotation
        .filter(|value| !injected || *value == "false")
        .or_else(|| pod.label(SETUP_IPTABLES))
}

/// The template without the annotations that `overrides` will replace.
fn without(template: &Value, overrides: &BTreeMap<String, String>) -> Value {
    let mut template = template.clone();
    if let Some(annotations) = template
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.retain(|key, _| !overrides.contains_key(key));
    }
    template
}

/// `object` with `annotations` at what stands at `prefix`.
fn annotated(object: &Value, prefix: &str, annotations: BTreeMap<String, String>) -> Result<Value, String> {
    let metadata = Metadata {
        annotations,
        labels: BTreeMap::new(),
    };
    let place = object.pointer(prefix).unwrap_or(&Value::Null);
    metadata_patch(&metadata, place, prefix).applied_to(object)
}

#[cfg(test)]
mod tests;
