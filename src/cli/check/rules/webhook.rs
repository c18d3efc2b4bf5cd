//! How the webhook is registered: which pods it is asked about, in which order, and what happens when it cannot be.

use super::admission::{Target, Webhook};
use super::{label, name};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::config::annotation::{INJECT, inject_mode};
use crate::policy::Release;
use serde_json::Value;

/// The first release whose servers keep `matchConditions`.
const MATCH_CONDITIONS: Release = Release(28);

/// What AKS puts into every selector of namespaces (Azure/AKS#1771).
const AKS_KEYS: [&str; 2] = ["control-plane", "kubernetes.azure.com/managedby"];

/// What is known of the way to the webhook.
#[derive(Clone, Debug)]
pub(in crate::cli::check) struct Registration<'a> {
    /// Every mutating webhook, in order.
    pub(in crate::cli::check) webhooks: &'a [Webhook<'a>],
    /// Namespaces, where they may be seen.
    pub(in crate::cli::check) namespaces: &'a [Value],
    /// The server's release.
    pub(in crate::cli::check) release: Release,
    /// Who stands behind the Service; nothing where that cannot be told.
    pub(in crate::cli::check) endpoints: Option<Endpoints>,
    /// What is to be said of who is registered, where it is known whose they are.
    pub(in crate::cli::check) whose: Option<Finding>,
}

/// Who stands behind a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Endpoints {
    /// A ready pod.
    Ready,
    /// Nobody who is ready.
    NoneReady,
    /// There is no such Service.
    NoService,
}

/// Judges the registration.
pub(in crate::cli::check) fn judge(registration: &Registration<'_>) -> Vec<Finding> {
    let injectors: Vec<_> = registration
        .webhooks
        .iter()
        .filter(|webhook| webhook.is_injector())
        .collect();
    let Some(injector) = injectors.first() else {
        let message = "no MutatingWebhookConfiguration calls an injector";
        return vec![Finding::failed(Code::WebhookNotRegistered, message)];
    };
    let known = registration.whose.clone();
    let mut findings = vec![known.unwrap_or_else(|| registered(&injectors))];
    findings.extend(pods(injector));
    findings.extend(endpoints(injector, registration.endpoints));
    findings.extend(selected(injector, registration.namespaces));
    findings.extend(rewritten(injector));
    findings.push(order(injector, registration.webhooks));
    findings.extend(unconditional(registration));
    findings.extend(held_up(injector, registration.release));
    findings.extend(dry_run(injector));
    findings
}

/// Whether a namespace, or a pod by itself, asks for injection; a namespace that is being deleted takes no pods.
pub(in crate::cli::check) fn asks(object: &Value) -> bool {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return false;
    }
    let map = |key: &str| object.get("metadata")?.get(key)?.as_object();
    let mode = inject_mode(map("annotations"), map("labels"));
    mode.is_some_and(|(value, _)| ["enabled", "ingress"].contains(&value))
}

fn registered(injectors: &[&Webhook<'_>]) -> Finding {
    if let [one] = injectors {
        let policy = one.text("failurePolicy").unwrap_or("Fail");
        let message = format!(
            "{} sends pods to the injector, failurePolicy {policy}",
            one.configuration()
        );
        return Finding::ok(Code::WebhookRegistered, message);
    }
    let titles = injectors
        .iter()
        .map(|it| format!("{}: {}", it.configuration(), it.name()));
    let message = format!("{} entries send pods to an injector", injectors.len());
    Finding::failed(Code::WebhookRegisteredTwice, message).with(titles)
}

fn pods(injector: &Webhook<'_>) -> Option<Finding> {
    let message = format!("no rule of {} covers the creation of pods", injector.name());
    (!injector.sees_pods()).then(|| Finding::failed(Code::WebhookWithoutPods, message))
}

fn endpoints(injector: &Webhook<'_>, endpoints: Option<Endpoints>) -> Option<Finding> {
    let Some(Target::Service { namespace, name, .. }) = injector.target() else {
        return None;
    };
    let message = match endpoints? {
        Endpoints::Ready => return None,
        Endpoints::NoneReady => format!("Service {namespace}/{name} has no ready endpoint"),
        Endpoints::NoService => format!("there is no Service {namespace}/{name}"),
    };
    Some(Finding::failed(Code::WebhookWithoutEndpoints, message))
}

/// Whether the selector takes the namespaces that ask for injection.
fn selected(injector: &Webhook<'_>, namespaces: &[Value]) -> Option<Finding> {
    let asking: Vec<_> = namespaces
        .iter()
        .filter(|namespace| asks(namespace) && name(namespace) != "kube-system")
        .collect();
    if asking.is_empty() {
        return None;
    }
    let selector = injector.namespace_selector();
    let labels = |namespace: &Value| namespace.pointer("/metadata/labels").cloned().unwrap_or_default();
    let left_out: Vec<_> = asking
        .iter()
        .filter_map(|namespace| {
            let unmet = selector.unmet(&labels(namespace))?;
            let trap = unmet.wants_label() && unmet.key == INJECT && label(namespace, INJECT).is_none();
            let trap = if trap { ", which is here an annotation" } else { "" };
            Some(format!("{}: namespaceSelector wants {unmet}{trap}", name(namespace)))
        })
        .collect();
    let all = count(asking.len(), "namespace");
    Some(if left_out.is_empty() {
        Finding::ok(
            Code::SelectorFits,
            format!("namespaceSelector takes every namespace that asks for injection: {all}"),
        )
    } else if left_out.len() == asking.len() {
        let message = format!("namespaceSelector takes no namespace that asks for injection: {all}");
        Finding::failed(Code::SelectorNeverMatches, message).with(left_out)
    } else {
        let message = format!(
            "namespaceSelector leaves {} of {all} out that ask for injection",
            left_out.len()
        );
        Finding::warning(Code::NamespacesNotSelected, message).with(left_out)
    })
}

fn rewritten(injector: &Webhook<'_>) -> Option<Finding> {
    let requirements: Vec<_> = injector
        .namespace_selector()
        .requirements()
        .filter(|requirement| AKS_KEYS.contains(&requirement.key))
        .map(|requirement| requirement.to_string())
        .collect();
    let message = "AKS has written its own expressions into namespaceSelector";
    (!requirements.is_empty()).then(|| Finding::warning(Code::SelectorRewritten, message).with(requirements))
}

/// What comes after the injector is seen only where it is called again.
fn order(injector: &Webhook<'_>, webhooks: &[Webhook<'_>]) -> Finding {
    let is_it = |webhook: &&Webhook<'_>| {
        webhook.name() == injector.name() && webhook.configuration() == injector.configuration()
    };
    let of_pods =
        |webhook: &&Webhook<'_>| webhook.sees_pods() && !webhook.is_best_effort() && !webhook.selects_nothing();
    let position = webhooks.iter().position(|webhook| is_it(&webhook)).unwrap_or_default();
    let later: Vec<_> = webhooks.iter().skip(position + 1).filter(of_pods).collect();
    let before = webhooks.iter().take(position).filter(of_pods).count();
    if injector.text("reinvocationPolicy") == Some("IfNeeded") || later.is_empty() {
        let message = match (before, later.len()) {
            (0, 0) => "no other webhook changes pods".to_owned(),
            (before, later) => format!(
                "{} of pods before the injector and {later} after it: what they add is seen",
                count(before, "webhook")
            ),
        };
        return Finding::ok(Code::WebhookOrder, message);
    }
    let message = format!(
        "{} of pods come after the injector, which is not called again",
        count(later.len(), "webhook")
    );
    let titles = later.iter().map(|it| format!("{}: {}", it.configuration(), it.name()));
    Finding::warning(Code::WebhookNotReinvoked, message).with(titles)
}

/// An entry for dry runs is called for every workload where the server has dropped its conditions.
fn unconditional(registration: &Registration<'_>) -> Option<Finding> {
    let unconditional = |webhook: &&Webhook<'_>| {
        webhook.is_best_effort() && !webhook.has("matchConditions") && !webhook.sees_services_alone()
    };
    let entry = registration.webhooks.iter().find(unconditional)?;
    let release = registration.release;
    let why = match release < MATCH_CONDITIONS {
        true => format!("Kubernetes {release} does not know matchConditions"),
        false => "it has no matchConditions".to_owned(),
    };
    let message = format!("{} is called for more than dry runs: {why}", entry.name());
    Some(Finding::warning(Code::MatchConditionsUnknown, message))
}

/// A server that knows no conditions cannot leave pods alone that say they are not to be injected.
fn held_up(injector: &Webhook<'_>, release: Release) -> Option<Finding> {
    let message = format!(
        "while the webhook is away, pods wait that are not to be injected: Kubernetes {release} does not know matchConditions"
    );
    (injector.fails_closed() && release < MATCH_CONDITIONS)
        .then(|| Finding::warning(Code::MatchConditionsUnknown, message))
}

fn dry_run(injector: &Webhook<'_>) -> Option<Finding> {
    let effects = injector.text("sideEffects").unwrap_or("Unknown");
    let message = format!("{} has sideEffects {effects}: dry runs of pods fail", injector.name());
    (!["None", "NoneOnDryRun"].contains(&effects)).then(|| Finding::warning(Code::DryRunUnsupported, message))
}

#[cfg(test)]
mod tests;
