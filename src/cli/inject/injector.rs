//! Injecting one resource of a manifest, without a cluster.
//!
//! By default only annotations are written, for the webhook to act on; with `manual` the proxy itself is (`manual`). What the
//! webhook would leave alone is left alone here too, and what it would leave alone against its author's wish is an
//! error, because nobody reads the trace of a command.

mod manual;

use super::surroundings::Surroundings;
use crate::cli::resources::{Change, Changed, Finding, Outcome};
use crate::config::annotation::{
    CLOSE_WAIT_TIMEOUT, CONTROL_PLANE_COMPONENT, CREATED_BY, ENABLE_DEBUG_SIDECAR, INJECT, OPAQUE_PORTS,
    SETUP_IPTABLES, inject_mode,
};
use crate::config::values::Values;
use crate::config::{Installation, difference};
use crate::decide::{Namespace, Round, SkipReason, Trace, eligibility};
use crate::inject::patch::Patch;
use crate::inject::uninject::uninject;
use crate::inject::{Metadata, Prepared, Redirection, metadata_patch};
use crate::pod::workload::Kind;
use crate::pod::{Pod, list, structure, text};
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
    /// What is known of the cluster that the pods are for, if anything.
    surroundings: Option<Surroundings>,
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
            surroundings: None,
        }
    }

    /// The same, where something is known of the cluster that the pods are for.
    #[must_use]
    pub(super) fn among(mut self, surroundings: Option<Surroundings>) -> Self {
        self.surroundings = surroundings;
        self
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
        let changed = self.inject(&clean)?;
        // Who is left alone keeps what marks of injection it has, but no proxy of an earlier one.
        let untouched = changed.outcome == Outcome::Skipped && spec(object) == spec(&clean);
        Ok(match untouched {
            true => Changed {
                value: object.clone(),
                ..changed
            },
            false => changed,
        })
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
        let reasons = self.reasons_against(&workload);
        let findings = findings(&Pod::new(template), &reasons);
        if !may_inject(&reasons).map_err(failed)? {
            let others = reasons.iter().filter(|reason| finding_of(**reason).is_none());
            return Ok(Changed {
                findings,
                warnings: others.map(|reason| format!("left alone: {reason}")).collect(),
                ..Changed::new(object.clone(), Outcome::Skipped)
            });
        }
        let (patch, warnings) = match self.options.manual {
            true => self.proxy(&workload).map_err(failed)?,
            false => (self.annotations(&workload), Vec::new()),
        };
        Ok(Changed {
            value: patch.applied_to(object).map_err(failed)?,
            // Without the proxy the pods are left alone; with the annotations there may be nothing to add.
            outcome: match self.options.manual && patch.is_empty() {
                true => Outcome::Skipped,
                false => Outcome::Injected,
            },
            findings,
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

    /// Why the webhook would leave the pods alone, if it were asked to inject them.
    fn reasons_against(&self, workload: &Workload<'_>) -> Vec<SkipReason> {
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
        reasons
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
}

/// Whether pods are injected that these `reasons` speak against; an error where they are to be, and cannot.
fn may_inject(reasons: &[SkipReason]) -> Result<bool, String> {
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
    match messages.is_empty() {
        true => Ok(reasons.is_empty()),
        false => Err(messages.join(", ")),
    }
}

/// What the report says of a pod that these `reasons` speak against.
fn findings(pod: &Pod<'_>, reasons: &[SkipReason]) -> Vec<Finding> {
    let mut ports = pod.containers().iter().flat_map(|container| list(container, "ports"));
    let udp = ports.any(|port| text(port, "protocol") == Some("UDP"));
    let found = reasons.iter().filter_map(|reason| finding_of(*reason));
    found.chain(udp.then_some(Finding::Udp)).collect()
}

/// What the report has a line for.
fn finding_of(reason: SkipReason) -> Option<Finding> {
    let lines = [
        (SkipReason::HostNetworkEnabled, Finding::HostNetwork),
        (SkipReason::SidecarAlreadyExists, Finding::Sidecar),
        (SkipReason::InjectionDisableAnnotationPresent, Finding::Disabled),
        (SkipReason::AutomountDisabled, Finding::Tokenless),
    ];
    lines
        .into_iter()
        .find(|(it, _)| *it == reason)
        .map(|(_, finding)| finding)
}

/// The pods' spec of a workload.
fn spec(object: &Value) -> Option<&Value> {
    object.pointer(Kind::of(object)?.template_pointer()?)?.get("spec")
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
