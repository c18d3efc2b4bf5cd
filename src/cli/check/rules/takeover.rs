//! What changes where ours takes the place of Linkerd's injector, and how far that has got.

pub(in crate::cli::check) mod change;
mod settings;
#[cfg(test)]
mod tests;
mod whose;

use super::admission::{Target, Webhook};
use super::installation::Injector;
use super::name;
use super::webhook::asks;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::decide::coverage::Plugin;
use crate::pod::manifest;
use change::Change;
use serde_json::Value;
use std::collections::BTreeSet;
pub(in crate::cli::check) use whose::{Backends, Whose};

/// Our registration is what its manifest says.
const MANIFEST: &str = include_str!("../../../../webhook-config/mutating-webhook-configuration.yaml");

/// What our registration is called beside Linkerd's: `docs/takeover.md` says why.
const BESIDE: &str = "linkerd-outrigger-webhook-config";

/// By which Helm tells that an object is one of a release's.
const HELM_RELEASE: &str = "meta.helm.sh/release-name";

/// What is known before a takeover.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Takeover<'a> {
    /// Every mutating webhook, in order.
    pub(in crate::cli::check) webhooks: &'a [Webhook<'a>],
    /// Linkerd's entry.
    pub(in crate::cli::check) linkerds: &'a Webhook<'a>,
    /// Ours, as it is or will be.
    pub(in crate::cli::check) ours: &'a Webhook<'a>,
    /// What stands behind them.
    pub(in crate::cli::check) backends: Backends<'a>,
    /// Namespaces, where they may be seen.
    pub(in crate::cli::check) namespaces: Option<&'a [Value]>,
    /// `DaemonSets`, where they may be seen.
    pub(in crate::cli::check) daemon_sets: &'a [Value],
    /// The namespace that is taken for the control plane's.
    pub(in crate::cli::check) control_plane: &'a str,
    /// The values document of `linkerd-config`, where there is one that may be read.
    pub(in crate::cli::check) values: Option<&'a Value>,
    /// Workloads whose next pod has another fate.
    pub(in crate::cli::check) changes: &'a [Change],
}

/// The registration of `webhook-config` under the name that it has beside Linkerd's.
pub(in crate::cli::check) fn planned() -> Value {
    let documents = manifest::read(MANIFEST).unwrap_or_default();
    let mut planned = documents.into_iter().next().map(|it| it.value).unwrap_or_default();
    if let Some(name) = planned.pointer_mut("/metadata/name") {
        *name = BESIDE.into();
    }
    planned
}

/// Linkerd's entry among `webhooks`, whether it selects anything or not.
pub(in crate::cli::check) fn linkerds<'w, 'a>(
    webhooks: &'w [Webhook<'a>],
    backends: Backends<'_>,
) -> Option<&'w Webhook<'a>> {
    let ours_is_there = backends.injectors().any(Injector::is_ours);
    let mut entries = webhooks.iter().filter(|it| it.is_of_injector());
    entries.find(|webhook| match backends.whose(webhook) {
        Whose::Linkerds => true,
        Whose::Ours => false,
        // Nobody stands behind it, or somebody who cannot be seen.
        Whose::Unknown => !ours_is_there,
    })
}

/// Our entry among `webhooks`.
pub(in crate::cli::check) fn ours<'w, 'a>(
    webhooks: &'w [Webhook<'a>],
    backends: Backends<'_>,
) -> Option<&'w Webhook<'a>> {
    let mut entries = webhooks.iter().filter(|it| it.is_of_injector());
    entries.find(|webhook| backends.whose(webhook) == Whose::Ours)
}

/// Linkerd's injectors, and what becomes of them.
pub(in crate::cli::check) fn injectors(deployments: &[Value]) -> Option<Finding> {
    let read = deployments.iter().filter_map(Injector::read);
    let titles: Vec<_> = read
        .filter(|injector| !injector.is_ours())
        .map(|injector| match injector.version() {
            Some(version) => format!("{} ({version})", injector.place()),
            None => injector.place(),
        })
        .collect();
    let message = format!(
        "Linkerd's injector {} stays as it is: Outrigger's webhook stands beside it, and is asked first (docs/takeover.md)",
        titles.first()?
    );
    Some(Finding::ok(Code::LinkerdInjector, message))
}

/// Judges what a takeover would change. What may not be read has a line of its own elsewhere.
pub(in crate::cli::check) fn judge(takeover: &Takeover<'_>) -> Vec<Finding> {
    let mut findings = vec![registration(takeover)];
    findings.extend(takeover.namespaces.map(|namespaces| coverage(takeover, namespaces)));
    findings.push(twice(takeover));
    findings.extend(elsewhere(takeover));
    findings.push(upgrade(takeover.linkerds));
    findings.extend(plugins(takeover.daemon_sets));
    findings.extend(takeover.values.map(settings_that_do_not_count));
    findings.extend(changes(takeover.changes));
    findings
}

/// Which registration answers now, and which will.
fn registration(takeover: &Takeover<'_>) -> Finding {
    let (linkerds, ours) = (takeover.linkerds, takeover.ours);
    let policy = if linkerds.fails_closed() { "Fail" } else { "Ignore" };
    let ours_is_there = takeover
        .webhooks
        .iter()
        .any(|it| it.configuration() == ours.configuration());
    let theirs = linkerds.configuration();
    if linkerds.selects_nothing() {
        let message = format!("{theirs} selects nothing: Linkerd's injector is asked about no pod any more");
        return Finding::ok(Code::TakeoverRegistration, message);
    }
    let now = format!("{theirs} sends pods to Linkerd's injector now, failurePolicy {policy}");
    // In the order of names: k8s.io/apiserver/pkg/admission/configuration.
    if theirs < ours.configuration() {
        let message = format!(
            "{now}, and comes before {}: Linkerd's would go on injecting",
            ours.configuration()
        );
        return Finding::warning(Code::TakeoverOrder, message);
    }
    let file = match linkerds.fails_closed() {
        true => " (webhook-config/ha)",
        false => "",
    };
    let ours = ours.configuration();
    let message = match ours_is_there {
        true => format!("{now}; {ours} is asked before it already"),
        false => format!("{now}; {ours}{file} will be asked before it"),
    };
    Finding::ok(Code::TakeoverRegistration, message)
}

/// Whether both select the same namespaces, of those that ask for injection.
fn coverage(takeover: &Takeover<'_>, namespaces: &[Value]) -> Finding {
    let asking: Vec<_> = namespaces.iter().filter(|namespace| asks(namespace)).collect();
    let (linkerds, ours) = (
        takeover.linkerds.namespace_selector(),
        takeover.ours.namespace_selector(),
    );
    let differs = |namespace: &&Value| {
        let labels = namespace.pointer("/metadata/labels").unwrap_or(&Value::Null);
        match (linkerds.unmet(labels), ours.unmet(labels)) {
            (None, Some(unmet)) => Some(format!("{}: Linkerd's selects it, ours wants {unmet}", name(namespace))),
            (Some(unmet), None) => Some(format!("{}: ours selects it, Linkerd's wants {unmet}", name(namespace))),
            (None, None) | (Some(_), Some(_)) => None,
        }
    };
    let lines: Vec<_> = asking.iter().filter_map(differs).collect();
    let all = count(asking.len(), "namespace");
    match lines.len() {
        _ if takeover.linkerds.selects_nothing() => {
            let message = "Linkerd's registration covers nothing: the namespaces are ours".to_owned();
            Finding::ok(Code::TakeoverCoverage, message)
        }
        0 => {
            let message = format!("both registrations cover the same of the namespaces that ask for injection: {all}");
            Finding::ok(Code::TakeoverCoverage, message)
        }
        number => {
            let message = format!("the registrations differ in {number} of {all} that ask for injection");
            Finding::warning(Code::TakeoverCoverage, message).with(lines)
        }
    }
}

/// Whether pods may come to more injectors than the two.
fn twice(takeover: &Takeover<'_>) -> Finding {
    let known = [takeover.linkerds.configuration(), takeover.ours.configuration()];
    let injectors = takeover.webhooks.iter().filter(|webhook| webhook.is_injector());
    let others = injectors
        .filter(|webhook| !known.contains(&webhook.configuration()))
        .map(|webhook| format!("{}: {}", webhook.configuration(), webhook.name()));
    let shared = takeover
        .backends
        .shared()
        .map(|service| format!("Service {service}: ours and Linkerd's in turn"));
    let lines: Vec<_> = others.chain(shared).collect();
    match lines.is_empty() {
        true => Finding::ok(
            Code::TakeoverTwice,
            "no pod is injected twice: the first of the two injects, and the other sees its proxy",
        ),
        false => Finding::warning(
            Code::TakeoverTwice,
            "pods come to more injectors than ours and Linkerd's",
        )
        .with(lines),
    }
}

/// Whether the control plane is where it was looked for.
fn elsewhere(takeover: &Takeover<'_>) -> Option<Finding> {
    let Some(Target::Service { namespace, .. }) = takeover.linkerds.target() else {
        return None;
    };
    let message = format!(
        "Linkerd's injector is in namespace {namespace}, and {} was looked at",
        takeover.control_plane
    );
    (namespace != takeover.control_plane).then(|| Finding::warning(Code::TakeoverElsewhere, message))
}

/// Who will put Linkerd's registration back.
fn upgrade(linkerds: &Webhook<'_>) -> Finding {
    let configuration = linkerds.configuration();
    let message = match linkerds.annotation(HELM_RELEASE) {
        Some(release) => format!(
            "{configuration} is of Helm's release {release}, whose upgrades keep it taken over where \
             proxyInjector.namespaceSelector selects nothing (docs/takeover.md)"
        ),
        None => format!(
            "{configuration} is of no Helm release: whoever applies it again has Linkerd's injector asked again, after ours"
        ),
    };
    Finding::ok(Code::TakeoverUpgrade, message)
}

/// The plugins that our decision counts on.
fn plugins(daemon_sets: &[Value]) -> Option<Finding> {
    let found: Vec<_> = daemon_sets.iter().filter_map(Plugin::read).collect();
    let whose = |plugin: &Plugin| match plugin.ours {
        true => format!("ours, {}", plugin.name),
        false => format!("Linkerd's, {}", plugin.name),
    };
    let names: Vec<_> = found.iter().map(whose).collect();
    let message = format!("the CNI plugin is used where it is meant to be: {}", names.join("; "));
    (!names.is_empty()).then(|| Finding::ok(Code::TakeoverPlugin, message))
}

fn settings_that_do_not_count(values: &Value) -> Finding {
    let lines = settings::ignored(values);
    if lines.is_empty() {
        let message = "every setting of linkerd-config that Linkerd's injector heeds counts as it stands";
        return Finding::ok(Code::TakeoverSettings, message);
    }
    let message = "some settings of linkerd-config do not count any more";
    Finding::warning(Code::TakeoverSettings, message).with(lines)
}

/// A line for each kind of change.
fn changes(changes: &[Change]) -> Vec<Finding> {
    if changes.is_empty() {
        let message = "the next pod of every workload stays what it is today";
        return vec![Finding::ok(Code::TakeoverUnchanged, message)];
    }
    let of = |code: Code, judge: fn(Code, String) -> Finding, what: &str| {
        let changes: Vec<_> = changes.iter().filter(|change| change.code() == code).collect();
        let fates: BTreeSet<_> = changes.iter().map(|it| (it.today.word(), it.then.word())).collect();
        let fates: Vec<_> = fates
            .iter()
            .map(|(today, then)| format!("{today} today, then {then}"))
            .collect();
        let number = count(changes.len(), "workload");
        let message = format!("the next pod of {number} {what}: {}", fates.join("; "));
        let finding = judge(code, message);
        (!changes.is_empty()).then(|| finding.with(changes.into_iter().map(Change::describe)))
    };
    [
        of(Code::TakeoverRedirected, Finding::ok, "is redirected otherwise"),
        of(Code::TakeoverAdmitted, Finding::ok, "would be admitted"),
        of(Code::TakeoverDenied, Finding::warning, "would be refused"),
        of(Code::TakeoverLeftAlone, Finding::warning, "would get no proxy"),
        of(Code::TakeoverMeshed, Finding::warning, "would get a proxy"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What is to be said of registrations where it is known whose they are: Linkerd's alone, or several.
pub(in crate::cli::check) fn registered(webhooks: &[Webhook<'_>], backends: Backends<'_>) -> Option<Finding> {
    let injectors: Vec<_> = webhooks.iter().filter(|webhook| webhook.is_injector()).collect();
    let whose = |it: &&Webhook<'_>| match backends.whose(it) {
        Whose::Ours => "ours",
        Whose::Linkerds => "Linkerd's",
        Whose::Unknown => "nobody can tell whose",
    };
    let first = injectors.first()?;
    match (backends.whose(first), injectors.len()) {
        (Whose::Linkerds, 1) => {
            let message = format!(
                "{} sends pods to Linkerd's injector, and nothing sends any to ours",
                first.configuration()
            );
            Some(Finding::failed(Code::WebhookNotRegistered, message))
        }
        (Whose::Ours | Whose::Unknown, 1) => None,
        (owner, number) => {
            let titles = injectors
                .iter()
                .map(|it| format!("{}: {}, {}", it.configuration(), it.name(), whose(it)));
            let of_ours = injectors.iter().filter(|it| backends.whose(it) == Whose::Ours).count();
            let others_are_linkerds = injectors.iter().skip(1).all(|it| backends.whose(it) == Whose::Linkerds);
            let finding = if owner == Whose::Ours && others_are_linkerds {
                let message = "ours is asked first, and Linkerd's about the same pods after it: those that ours leaves alone are \
                               injected by Linkerd's";
                Finding::warning(Code::WebhookRegisteredTwice, message)
            } else if of_ours > 1 {
                let message = format!("{of_ours} entries of ours send each pod to a webhook");
                Finding::failed(Code::WebhookOursTwice, message)
            } else if owner == Whose::Linkerds {
                let message = format!(
                    "{number} entries send pods to an injector, Linkerd's first: it injects, and ours does not"
                );
                Finding::failed(Code::WebhookRegisteredTwice, message)
            } else {
                Finding::failed(
                    Code::WebhookRegisteredTwice,
                    format!("{number} entries send pods to an injector"),
                )
            };
            Some(finding.with(titles))
        }
    }
}
