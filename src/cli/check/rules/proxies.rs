//! Running pods: proxies that are missing, old, not ready, or passed by.

use super::place;
use super::workloads::Judged;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::config::annotation::{INJECT, SETUP_IPTABLES};
use crate::inject::{NETWORK_VALIDATOR, PROXY, PROXY_INIT};
use crate::pod::{Pod, container_name, image, list, text};
use serde_json::Value;

/// Overrides the proxy's version on a pod.
const VERSION: &str = "config.linkerd.io/proxy-version";

/// What is looked at of one running pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Running {
    /// `namespace/name`
    place: String,
    namespace: String,
    /// RFC 3339, in UTC and whole seconds, as the API server writes all times: texts compare as times do.
    created: String,
    proxy: Option<Proxy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Proxy {
    /// The tag of its image; nothing where a digest alone names it.
    version: Option<String>,
    /// The version that the pod itself asks for.
    asked: Option<String>,
    ready: bool,
    /// Containers that run as its user, ephemeral ones among them.
    clashing: Vec<String>,
}

/// What the decision says today of a pod that has no proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Today {
    /// `inject`, `skip` or `deny`.
    pub(in crate::cli::check) outcome: &'static str,
    /// Whether it is left alone for a good reason.
    pub(in crate::cli::check) rightly_alone: bool,
    /// Whether anybody asks for a proxy.
    pub(in crate::cli::check) asked: bool,
    /// The reason as a sentence and a word.
    pub(in crate::cli::check) reason: String,
}

/// What explains that a pod has no proxy.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct History<'a> {
    /// When the webhook was registered; nothing where that cannot be told.
    pub(in crate::cli::check) registered: Option<&'a str>,
    /// Since when the namespace asks for injection, as far as that can be told.
    pub(in crate::cli::check) asks_since: Option<&'a str>,
    /// Whether a pod is refused while the webhook is away.
    pub(in crate::cli::check) fails_closed: bool,
}

impl Today {
    /// What the decision says.
    pub(in crate::cli::check) fn of(judged: &Judged) -> Self {
        Self {
            outcome: judged.outcome,
            rightly_alone: judged.rightly_alone,
            asked: judged.asked,
            reason: format!("{} ({})", judged.message, judged.reason),
        }
    }
}

impl Running {
    /// Reads a pod; nothing where it has ended or is about to.
    pub(in crate::cli::check) fn read(pod: &Value) -> Option<Self> {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        let ending = pod.pointer("/metadata/deletionTimestamp").is_some();
        if ending || ["Succeeded", "Failed"].map(Some).contains(&phase) {
            return None;
        }
        Some(Self {
            place: place(pod),
            namespace: super::namespace(pod).to_owned(),
            created: pod
                .pointer("/metadata/creationTimestamp")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            proxy: Proxy::of(pod),
        })
    }

    /// Its namespace.
    pub(in crate::cli::check) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether it has a proxy.
    pub(in crate::cli::check) fn is_meshed(&self) -> bool {
        self.proxy.is_some()
    }
}

impl Proxy {
    fn of(pod: &Value) -> Option<Self> {
        let view = Pod::new(pod);
        let proxy = view
            .all_containers()
            .find(|container| container_name(container) == PROXY)?;
        let statuses = ["containerStatuses", "initContainerStatuses"]
            .into_iter()
            .flat_map(|key| {
                let status = pod.get("status").unwrap_or(&Value::Null);
                list(status, key)
            });
        let mut of_proxy = statuses.filter(|status| container_name(status) == PROXY);
        Some(Self {
            version: image(text(proxy, "image")?).tag.map(str::to_owned),
            asked: view.annotation(VERSION).map(str::to_owned),
            ready: of_proxy.any(|status| status.get("ready") == Some(&Value::Bool(true))),
            clashing: clashing(&view, proxy),
        })
    }
}

/// Containers that stay, and whose traffic passes the proxy by because they run as its user: in a pod whose traffic is
/// redirected at all.
fn clashing(pod: &Pod<'_>, proxy: &Value) -> Vec<String> {
    let Some(user) = pod.user_of(proxy).filter(|_| is_redirected(pod)) else {
        return Vec::new();
    };
    let stays = |container: &&&Value| text(container, "restartPolicy") == Some("Always");
    let sidecars = pod.init_containers().iter().filter(stays);
    let staying = sidecars.chain(pod.containers()).chain(pod.ephemeral_containers());
    staying
        .filter(|container| container_name(container) != PROXY && pod.user_of(container) == Some(user))
        .map(|container| container_name(container).to_owned())
        .collect()
}

/// Whether somebody sets rules for a running pod: its own init container, or the CNI plugin, for which a validator waits.
fn is_redirected(pod: &Pod<'_>) -> bool {
    let has = |name: &str| pod.all_containers().any(|container| container_name(container) == name);
    has(PROXY_INIT) || (has(NETWORK_VALIDATOR) && pod.annotation(SETUP_IPTABLES) != Some("false"))
}

/// Judges running pods. `today` are the decisions for those without a proxy, in the same order; `version` is the
/// configured one, where that is known.
pub(in crate::cli::check) fn judge<'h>(
    pods: &[&Running],
    today: &[(usize, Today)],
    version: Option<&str>,
    history: impl Fn(&str) -> History<'h>,
) -> Vec<Finding> {
    let mut findings = missing(pods, today, history);
    let proxies: Vec<_> = pods
        .iter()
        .filter_map(|&pod| Some((pod, pod.proxy.as_ref()?)))
        .collect();
    findings.push(versions(&proxies, version));
    let not_ready = proxies.iter().filter(|(_, proxy)| !proxy.ready);
    let not_ready: Vec<_> = not_ready.map(|(pod, _)| pod.place.clone()).collect();
    if !not_ready.is_empty() {
        let message = format!("{} not ready", are(not_ready.len(), "proxy"));
        findings.push(Finding::warning(Code::ProxyNotReady, message).with(not_ready));
    }
    let clashing = proxies.iter().filter(|(_, proxy)| !proxy.clashing.is_empty());
    let clashing: Vec<_> = clashing
        .map(|(pod, proxy)| format!("{}: {}", pod.place, proxy.clashing.join(", ")))
        .collect();
    if !clashing.is_empty() {
        let message = format!(
            "containers of {} run as their proxy's user",
            count(clashing.len(), "pod")
        );
        findings.push(Finding::failed(Code::RunningUidClash, message).with(clashing));
    }
    findings
}

fn missing<'h>(pods: &[&Running], today: &[(usize, Today)], history: impl Fn(&str) -> History<'h>) -> Vec<Finding> {
    let (mut without, mut alone, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for (index, decision) in today {
        let Some(pod) = pods.get(*index).filter(|_| decision.asked && !decision.rightly_alone) else {
            continue;
        };
        let Today { outcome, reason, .. } = decision;
        match *outcome {
            "deny" => denied.push(format!("{}: {reason}", pod.place)),
            "skip" => alone.push(format!("{}: {reason}", pod.place)),
            _ => without.push(format!("{}: {}", pod.place, why(pod, &history(&pod.namespace)))),
        }
    }
    let mut findings = Vec::new();
    if without.is_empty() && alone.is_empty() && denied.is_empty() {
        let meshed = pods.iter().filter(|pod| pod.is_meshed()).count();
        let message = format!(
            "every running pod that should have a proxy has one: {}",
            count(meshed, "pod")
        );
        findings.push(Finding::ok(Code::ProxiesPresent, message));
    }
    if !without.is_empty() {
        let message = format!("{} without a proxy although it is asked for", running(without.len()));
        findings.push(Finding::warning(Code::PodWithoutProxy, message).with(without));
    }
    if !alone.is_empty() {
        let message = format!("{} asked for the mesh and cannot be meshed", running(alone.len()));
        findings.push(Finding::warning(Code::PodLeftAlone, message).with(alone));
    }
    if !denied.is_empty() {
        let message = format!("{} that would be denied today", running(denied.len()));
        findings.push(Finding::failed(Code::PodDeniedNow, message).with(denied));
    }
    findings
}

fn running(pods: usize) -> String {
    count(pods, "running pod")
}

fn are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number, noun))
}

/// Why a pod that would be injected today has no proxy.
fn why(pod: &Running, history: &History<'_>) -> String {
    let before = |time: Option<&str>| time.is_some_and(|time| pod.created.as_str() < time);
    let created = &pod.created;
    if before(history.registered) {
        return format!("created {created}, before the webhook was registered");
    }
    if before(history.asks_since) {
        return format!("created {created}, before the namespace got {INJECT}");
    }
    match history.fails_closed {
        false => format!("created {created} while the webhook did not answer (failurePolicy Ignore)"),
        true => format!("created {created} without the webhook being asked"),
    }
}

fn versions(proxies: &[(&Running, &Proxy)], version: Option<&str>) -> Finding {
    let (mut other, mut untold) = (Vec::new(), Vec::new());
    for (pod, proxy) in proxies {
        let place = &pod.place;
        match (proxy.version.as_deref(), proxy.asked.as_deref().or(version)) {
            (Some(found), Some(wanted)) if found != wanted => other.push(format!("{place}: {found}, not {wanted}")),
            (Some(_), Some(_)) => {}
            (None, Some(_)) => untold.push(format!("{place}: its image has no tag")),
            (_, None) => untold.push(format!("{place}: nobody says which one is configured")),
        }
    }
    if !other.is_empty() {
        let message = format!("{} of another version than configured", are(other.len(), "proxy"));
        return Finding::warning(Code::ProxyVersionSkew, message).with(other);
    }
    if !untold.is_empty() {
        let message = format!("the version of {} cannot be told", count(untold.len(), "proxy"));
        return Finding::unknown(Code::ProxyVersion, message).with(untold);
    }
    Finding::ok(Code::ProxyVersion, "proxies are of the configured version")
}

/// Since when a namespace asks for injection: when whoever owns that annotation or label wrote last (`managedFields`).
/// Nothing where that is not kept.
pub(in crate::cli::check) fn asks_since(namespace: &Value) -> Option<String> {
    let key = format!("f:{INJECT}");
    let owns = |entry: &&Value| {
        ["f:annotations", "f:labels"].into_iter().any(|map| {
            entry
                .pointer(&format!("/fieldsV1/f:metadata/{map}"))
                .is_some_and(|it| it.get(&key).is_some())
        })
    };
    let metadata = namespace.get("metadata")?;
    let mut entries = list(metadata, "managedFields").filter(owns);
    entries.find_map(|entry| text(entry, "time").map(str::to_owned))
}

#[cfg(test)]
mod tests;
