//! Writing the proxy itself into a manifest.

use super::{Injector, Workload};
use crate::config::{Layers, Settings};
use crate::decide::{self, Caution, DenyReason, Namespace, Outcome, SkipReason, Tailoring, Trace, Warning, asked};
use crate::inject::patch::Patch;
use crate::inject::{self, Metadata, Owner, Redirection, Shape};
use crate::pod::Pod;
use serde_json::Value;
use std::collections::BTreeMap;

/// How the pods of a workload are redirected, and what else policies want of them.
#[derive(Default)]
struct Chosen {
    /// Nothing where the installation's values are all that says so.
    redirection: Option<Redirection>,
    tailoring: Tailoring,
    warnings: Vec<String>,
    /// Whether they are to be left alone.
    skipped: bool,
}

impl Injector {
    /// The patch that gives the pods the proxy, with a warning for each value that was not taken. It is empty where the
    /// pods are to be left alone.
    pub(super) fn proxy(&self, workload: &Workload<'_>) -> Result<(Patch, Vec<String>), String> {
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
        let asked = self.asked(&pod)?;
        let chosen = self.choose(workload, asked)?;
        if chosen.skipped {
            return Ok((Patch::default(), chosen.warnings));
        }
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: object.pointer("/metadata/annotations").and_then(Value::as_object),
        };
        let settings = Settings::read(&self.installation, &layers).with_variant(chosen.tailoring.variant);
        let made = self.installation.made(settings);
        let config = made.config();
        let strict = config.problems.first().filter(|_| config.values.outrigger.strict);
        if let Some(problem) = config.fatal_problem().or(strict) {
            return Err(problem.to_string());
        }
        let redirection = chosen.redirection.or(asked).unwrap_or(match config.values.cni_enabled {
            true => Redirection::Cni,
            false => Redirection::InitContainer,
        });
        let name = Pod::new(object).name().unwrap_or_default().to_owned();
        let owner = Owner { kind: Some(kind), name };
        let mut metadata = Metadata::injected(&self.installation, config, Some(&owner), workload.namespace());
        metadata.label_account(&self.installation, &pod);
        metadata.annotations.extend(annotations);
        metadata.vary(chosen.tailoring.variant);
        metadata.hold_to(chosen.tailoring.node_selector.as_ref());
        if asked.or(chosen.redirection).is_some() {
            metadata = metadata.with_redirection(redirection);
        }
        inject::check(config).map_err(|error| error.to_string())?;
        check_user(&pod, inject::proxy_user(config), redirection)?;
        let debug = (config.debug || self.options.debug) && !chosen.tailoring.without_debug;
        let shape = Shape::new(&self.installation, &made, &pod, redirection, debug);
        let mut shape = shape.map_err(|error| error.to_string())?;
        shape.check_names(&pod).map_err(|error| error.to_string())?;
        shape.node_selector = chosen.tailoring.node_selector;
        let problems = config.problems.iter().map(ToString::to_string);
        let warnings = problems.chain(chosen.warnings).collect();
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

    /// What `explain` would choose, where the manifests tell something of their cluster. Whoever asks for the CNI plugin says
    /// by that that the nodes have it.
    fn choose(&self, workload: &Workload<'_>, asked: Option<Redirection>) -> Result<Chosen, String> {
        let surroundings = self.surroundings.as_ref().filter(|_| asked != Some(Redirection::Cni));
        let annotated = || self.annotations(workload).applied_to(workload.object);
        let Some(decision) = surroundings
            .map(|it| Ok::<_, String>(it.decide(&annotated()?)))
            .transpose()?
            .flatten()
        else {
            return Ok(Chosen::default());
        };
        let warnings = decision
            .warnings
            .into_iter()
            .filter(is_news)
            .map(|warning| warning.text)
            .collect();
        match decision.outcome {
            Outcome::Inject { redirection, .. } => Ok(Chosen {
                redirection: Some(redirection),
                tailoring: decision.tailoring,
                warnings,
                skipped: false,
            }),
            Outcome::Deny(DenyReason::NoRedirection(refusal)) => Err(format!(
                "{refusal}; where the nodes have the CNI plugin, give --no-init-container"
            )),
            Outcome::Skip(reasons) if reasons.contains(SkipReason::NoRedirectionAdmitted) => Ok(Chosen {
                warnings: [format!("left alone: {reasons}")].into_iter().chain(warnings).collect(),
                skipped: true,
                ..Chosen::default()
            }),
            // What else stands in the way is found again, and said, where the proxy is made.
            Outcome::Skip(_) | Outcome::Deny(_) => Ok(Chosen::default()),
        }
    }
}

/// Whether a warning of the decision is none about a value, which is said where the proxy is made.
fn is_news(warning: &Warning) -> bool {
    !matches!(warning.caution, Caution::IgnoredValue | Caution::DoubtfulValue)
}

/// Refuses a proxy whose traffic the rules would take for a container's. Without redirection there is nothing to be exempt
/// from.
fn check_user(pod: &Pod<'_>, user: i64, redirection: Redirection) -> Result<(), String> {
    let redirected = redirection != Redirection::None;
    match decide::container_of_user(pod, user).filter(|_| redirected) {
        Some(container) => {
            let container = container.to_owned();
            Err(DenyReason::UserClash { container, user }.to_string())
        }
        None => Ok(()),
    }
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
