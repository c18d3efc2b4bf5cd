//! The order in which redirections are tried.

use super::{Coverage, InjectReason};
use crate::config::Config;
use crate::inject::{PROXY, Redirection};
use crate::pod::{Pod, container_name, text};
use serde_json::Value;

/// A redirection that is worth a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) redirection: Redirection,
    pub(super) reason: InjectReason,
    /// A label that the pod's node must have.
    pub(super) node_selector: Option<(String, String)>,
}

/// The candidates, best first, and what stands against the others.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    pub(super) candidates: Vec<Candidate>,
    pub(super) impossible: Vec<String>,
}

impl Ranking {
    fn add(&mut self, redirection: Redirection, reason: InjectReason) {
        self.candidates.push(Candidate {
            redirection,
            reason,
            node_selector: None,
        });
    }
}

/// Ranks the redirections that may be chosen; `starved` are init containers that the CNI plugin would leave without
/// network.
pub(super) fn rank(asked: Option<Redirection>, coverage: &Coverage, starved: &[&str]) -> Ranking {
    let mut ranking = Ranking::default();
    if matches!(asked, Some(Redirection::None | Redirection::InitContainer)) {
        ranking.candidates.extend(asked.map(|redirection| Candidate {
            redirection,
            reason: InjectReason::AskedFor(redirection),
            node_selector: None,
        }));
        return ranking;
    }
    let reason = |reason| asked.map_or(reason, InjectReason::AskedFor);
    let everywhere = matches!(coverage, Coverage::Declared | Coverage::All { .. } | Coverage::NoNodes);
    if everywhere && starved.is_empty() {
        ranking.add(Redirection::Cni, reason(InjectReason::CniCoversEveryNode));
    }
    if asked.is_none() {
        ranking.add(Redirection::InitContainer, InjectReason::InitContainerAdmitted);
    }
    if everywhere && !starved.is_empty() {
        ranking.add(Redirection::Cni, reason(InjectReason::CniDespiteInitContainers));
    }
    match coverage {
        Coverage::Some {
            selector: Some(selector),
            ..
        } => ranking.candidates.push(Candidate {
            redirection: Redirection::Cni,
            reason: reason(InjectReason::CniOnSomeNodes),
            node_selector: Some(selector.clone()),
        }),
        Coverage::Some { selector: None, .. } => {
            ranking
                .impossible
                .push(format!("cni: {coverage}, and no label tells such nodes apart"));
        }
        // Most nodes have it: better a pod that waits on one of the others than no pod at all.
        Coverage::Failing { failing, nodes, .. } if failing < nodes => {
            ranking.add(Redirection::Cni, reason(InjectReason::CniFailingOnSomeNodes));
        }
        // What is not known speaks against a candidate only where another is admitted; the validator keeps a pod from
        // running without rules.
        Coverage::Unknown { .. } => ranking.add(Redirection::Cni, reason(InjectReason::CniCoverageUnknown)),
        Coverage::None | Coverage::Failing { .. } => ranking.impossible.push(format!("cni: {coverage}")),
        Coverage::Declared | Coverage::All { .. } | Coverage::NoNodes => {}
    }
    ranking
}

/// The application's init containers that would have no network with the CNI plugin: they run before a classic sidecar
/// does, and after the rules are there. Those that run as the proxy's user are exempt from the rules, and all are where
/// every port is skipped.
pub(super) fn starved<'a>(pod: &Pod<'a>, config: &Config, user: i64) -> Vec<&'a str> {
    let has_any = !pod.init_containers().is_empty();
    if config.values.proxy.native_sidecar || !has_any || config.skips_all_outbound() {
        return Vec::new();
    }
    let starved = pod
        .init_containers()
        .iter()
        .filter(|container| pod.user_of(container) != Some(user));
    let mut names: Vec<_> = starved.map(|container| container_name(container)).collect();
    names.dedup();
    names
}

/// The first container of the application that runs as `user` beside the proxy: its native sidecars count, its other init
/// containers are gone by then.
pub(crate) fn container_of_user<'a>(pod: &Pod<'a>, user: i64) -> Option<&'a str> {
    let stays = |container: &&&Value| text(container, "restartPolicy") == Some("Always");
    let mut beside = pod.init_containers().iter().filter(stays).chain(pod.containers());
    beside
        .find(|container| container_name(container) != PROXY && pod.user_of(container) == Some(user))
        .map(|container| container_name(container))
}
