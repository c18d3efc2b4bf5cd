//! What repair looks at in a pod, and whether it may be deleted.

use crate::cni::call::PodName;
use crate::cni::decision::exempt;
use crate::inject::NETWORK_VALIDATOR;
use crate::pod::{Pod, boolean, integer, list, object, text};
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Exit status of the validator that found no rules; Linkerd's.
const NOT_REDIRECTED: i64 = 95;

/// How often a node deletes a pod at most.
const NODE_PAUSE: Duration = Duration::from_secs(10);

/// How soon another pod of the same owner is deleted; it doubles each time up to [`LONGEST_PAUSE`].
const OWNER_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// Owners that are remembered.
const OWNERS: usize = 1024;

/// A pod that is to have rules and lives.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) pod: Arc<Value>,
    pub(super) name: PodName,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) addresses: Vec<IpAddr>,
    /// The validator found no rules, and it is not otherwise now.
    pub(super) failing: bool,
    /// How often the validator was started again.
    pub(super) restarts: i64,
    /// Whether the validator has succeeded or there is none: the application may have connections.
    pub(super) runs: bool,
    owner: Option<Owner>,
}

#[derive(Clone, Debug)]
struct Owner {
    kind: String,
    uid: String,
}

impl Subject {
    /// The subject that `pod` is; `None` where it has no business with the plugin, or is over.
    pub(super) fn of(pod: &Arc<Value>) -> Option<Self> {
        let view = Pod::new(pod);
        let metadata = view.metadata();
        let status = object(pod, "status")?;
        let over = matches!(text(status, "phase"), Some("Succeeded" | "Failed"));
        if over || metadata.get("deletionTimestamp").is_some() || exempt(&view).is_some() {
            return None;
        }
        let own = |key| text(metadata, key).map(str::to_owned);
        let validator =
            list(status, "initContainerStatuses").find(|status| text(status, "name") == Some(NETWORK_VALIDATOR));
        let uid = own("uid")?;
        Some(Self {
            name: PodName {
                namespace: own("namespace")?,
                name: own("name")?,
                uid: Some(uid.clone()),
            },
            uid,
            version: own("resourceVersion")?,
            addresses: addresses(status),
            failing: validator.is_some_and(is_failing),
            restarts: validator
                .and_then(|validator| integer(validator, "restartCount"))
                .unwrap_or_default(),
            runs: validator.is_none_or(|validator| validator.pointer("/state/terminated/exitCode") == Some(&0.into())),
            owner: owner(metadata),
            pod: Arc::clone(pod),
        })
    }

    /// Whether somebody makes another in its place, and without counting: a Job gives up after `backoffLimit`.
    pub(super) fn is_replaceable(&self) -> bool {
        self.owner
            .as_ref()
            .is_some_and(|owner| !matches!(owner.kind.as_str(), "Job" | "Node"))
    }
}

fn addresses(status: &Value) -> Vec<IpAddr> {
    let several = list(status, "podIPs").filter_map(|address| text(address, "ip"));
    let found = text(status, "podIP").into_iter().chain(several);
    found.filter_map(|address| address.parse().ok()).collect()
}

/// Whether the validator failed for want of rules last, and does not run or succeed now.
fn is_failing(validator: &Value) -> bool {
    let ended = |state: &str| {
        validator
            .pointer(&format!("/{state}/terminated/exitCode"))
            .and_then(Value::as_i64)
    };
    let waits = validator.pointer("/state/waiting").is_some();
    ended("state") == Some(NOT_REDIRECTED) || (waits && ended("lastState") == Some(NOT_REDIRECTED))
}

fn owner(metadata: &Value) -> Option<Owner> {
    let controller = |owner: &&Value| boolean(owner, "controller") == Some(true);
    let owner = list(metadata, "ownerReferences").find(controller)?;
    Some(Owner {
        kind: text(owner, "kind")?.to_owned(),
        uid: text(owner, "uid")?.to_owned(),
    })
}

/// Keeps deletions rare.
#[derive(Debug, Default)]
pub(super) struct Restraint {
    last: Option<Instant>,
    /// When a pod of the owner may be deleted again, and how long the pause was.
    owners: HashMap<String, (Instant, Duration)>,
}

impl Restraint {
    /// Asks whether to delete `subject` at `now`; a yes counts as done.
    pub(super) fn allows(&mut self, subject: &Subject, now: Instant) -> bool {
        let Some(owner) = subject.owner.as_ref().filter(|_| subject.is_replaceable()) else {
            return false;
        };
        let early = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < NODE_PAUSE);
        let before = self.owners.get(&owner.uid).copied();
        if early || before.is_some_and(|(until, _)| now < until) {
            return false;
        }
        if self.owners.len() >= OWNERS {
            self.owners.retain(|_, (until, pause)| now < *until + *pause);
        }
        let pause = before.map_or(OWNER_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        self.owners.insert(owner.uid.clone(), (now + pause, pause));
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(validator: &Value, owner: &Value) -> Value {
        json!({
            "metadata": {"namespace": "app", "name": "web", "uid": "1", "resourceVersion": "7", "ownerReferences": owner},
            "spec": {
                "initContainers": [{"name": "linkerd-network-validator"}, {"name": "linkerd-proxy"}],
                "containers": [{"name": "app"}],
            },
            "status": {"phase": "Pending", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "initContainerStatuses": [validator]},
        })
    }

    fn owned(kind: &str) -> Value {
        json!([{"kind": "X", "uid": "x"}, {"kind": kind, "uid": kind, "controller": true}])
    }

    fn subject(kind: &str) -> Subject {
        Subject::of(&Arc::new(pod(&json!({}), &owned(kind)))).unwrap()
    }

    #[test]
    fn a_validator_that_fails_now_is_told_from_one_that_failed_once() {
        let terminated = |code| json!({"terminated": {"exitCode": code}});
        let named = |state: Value, last: Value| json!({"name": "linkerd-network-validator", "state": state, "lastState": last, "restartCount": 3});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let table = [
            (named(waiting.clone(), terminated(95)), true, false),
            (named(terminated(95), json!({})), true, false),
            (named(waiting.clone(), terminated(1)), false, false),
            (named(waiting, json!({})), false, false),
            (named(json!({"running": {}}), terminated(95)), false, false),
            (named(terminated(0), terminated(95)), false, true),
            (json!({"name": "other", "state": terminated(95)}), false, true),
        ];
        for (validator, failing, runs) in table {
            let subject = Subject::of(&Arc::new(pod(&validator, &owned("ReplicaSet")))).unwrap();
            assert_eq!((subject.failing, subject.runs), (failing, runs), "{validator}");
        }
    }

    #[test]
    fn only_living_pods_that_are_to_have_rules_are_looked_at() {
        let changed = |pointer: &str, value: Value| {
            let mut pod = pod(&json!({}), &json!([]));
            *pod.pointer_mut(pointer).unwrap() = value;
            Subject::of(&Arc::new(pod)).is_some()
        };
        assert!(changed("/status/phase", json!("Running")));
        assert!(!changed("/status/phase", json!("Failed")));
        assert!(!changed(
            "/spec/initContainers",
            json!([{"name": "linkerd-init"}, {"name": "linkerd-proxy"}])
        ));
        assert!(!changed("/spec/initContainers", json!([])));
        assert!(!changed(
            "/metadata",
            json!({"namespace": "a", "name": "b", "uid": "c", "resourceVersion": "1",
            "deletionTimestamp": "2026-01-01T00:00:00Z"})
        ));
        assert_eq!(subject("Job").addresses.len(), 3);
    }

    #[test]
    fn deletions_are_rare_and_rarer_for_the_same_owner() {
        let mut restraint = Restraint::default();
        let begun = Instant::now();
        let (web, job) = (subject("ReplicaSet"), subject("Job"));
        let allowed = (0..3600).filter(|second| restraint.allows(&web, begun + Duration::from_secs(*second)));
        let allowed: Vec<_> = allowed.collect();
        assert_eq!(allowed, [0, 30, 90, 210, 450, 930, 1830, 2730]);
        assert!(!(0..3600).any(|second| Restraint::default().allows(&job, begun + Duration::from_secs(second))));
        let mut restraint = Restraint::default();
        assert!(
            restraint.allows(&web, begun) && !restraint.allows(&subject("DaemonSet"), begun + Duration::from_secs(9))
        );
        assert!(restraint.allows(&subject("DaemonSet"), begun + Duration::from_secs(10)));
        let orphan = Subject::of(&Arc::new(pod(&json!({}), &json!([])))).unwrap();
        assert!(!orphan.is_replaceable() && !Restraint::default().allows(&orphan, begun));
    }
}
