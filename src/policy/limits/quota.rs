//! A `ResourceQuota`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::figures::Figures;
use super::scope::Scope;
use super::subject::{Container, Half, Subject, is_huge_page};
use super::{Refusal, Refuser};
use crate::pod::{self, Quantity};

/// Figures that every container must have where a quota counts them.
const DEMANDED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quota {
    pub(super) name: String,
    hard: Figures<'static>,
    /// Nothing where the quota has no status.
    used: Option<Figures<'static>>,
    scopes: Vec<Scope>,
}

/// What a quota counts of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted<'q> {
    /// The pod itself.
    Pod,
    Figure(Half, &'q str),
}

impl Quota {
    pub(super) fn read(object: &Value) -> Self {
        let part = |key| pod::object(object, key);
        let figures = |part: Option<&Value>, key| {
            part.map(|part| Figures::read(part, key).into_owned())
                .filter(|figures| !figures.is_empty())
        };
        let status = figures(part("status"), "hard");
        let used = status
            .is_some()
            .then(|| figures(part("status"), "used").unwrap_or_default());
        Self {
            name: object
                .get("metadata")
                .map(pod::container_name)
                .unwrap_or_default()
                .to_owned(),
            hard: status.or_else(|| figures(part("spec"), "hard")).unwrap_or_default(),
            used,
            scopes: part("spec").map(Scope::all).unwrap_or_default(),
        }
    }

    /// Whether the pod is one that the quota counts.
    pub(super) fn counts(&self, subject: &Subject<'_>) -> bool {
        self.hard.iter().any(|(key, _)| Counted::by(key).is_some())
            && self.scopes.iter().all(|scope| scope.matches(subject))
    }

    /// The figures that every container must have, where the pod as a whole has none.
    pub(super) fn demanded<'q>(&'q self, subject: &Subject<'_>) -> impl Iterator<Item = &'q str> + use<'q> {
        let spared = subject.has_whole();
        let keys = self.hard.iter().map(|(key, _)| key);
        keys.filter(move |key| !spared && DEMANDED.contains(key))
    }

    /// Whether each container has what the quota demands.
    pub(super) fn check_figures(&self, subject: &Subject<'_>) -> Result<(), Refusal> {
        let missing = self.missing(subject);
        if !self.counts(subject) || missing.is_empty() {
            return Ok(());
        }
        let lacking: BTreeSet<_> = missing.values().flatten().map(|name| (*name).to_owned()).collect();
        let parts = missing.iter().map(|(key, names)| {
            let names: Vec<_> = names.iter().copied().collect();
            format!("{key} for: {}", names.join(","))
        });
        let parts: Vec<_> = parts.collect();
        let message = format!("failed quota: {}: must specify {}", self.name, parts.join("; "));
        Err(self.refusal(lacking.into_iter().collect(), message))
    }

    /// Whether the pod fits beside what is used already.
    pub(super) fn check_usage(&self, subject: &Subject<'_>) -> Result<(), Refusal> {
        match self.exceeded(subject).filter(|_| self.counts(subject)) {
            Some(message) => Err(self.refusal(Vec::new(), message)),
            None => Ok(()),
        }
    }

    fn refusal(&self, containers: Vec<String>, message: String) -> Refusal {
        Refusal {
            by: Refuser::ResourceQuota(self.name.clone()),
            containers,
            message,
        }
    }

    /// The containers that lack a figure, by figure.
    fn missing<'p>(&self, subject: &Subject<'p>) -> BTreeMap<&str, BTreeSet<&'p str>> {
        let mut missing: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for key in self.demanded(subject) {
            let Some(Counted::Figure(half, name)) = Counted::by(key) else {
                continue;
            };
            let lacks = |container: &&Container<'_>| half.of(&container.resources).get(name).is_none();
            let lacking: BTreeSet<_> = subject.all().filter(lacks).map(|container| container.name).collect();
            if !lacking.is_empty() {
                missing.insert(key, lacking);
            }
        }
        missing
    }

    /// What is said where the pod does not fit beside what is used already.
    fn exceeded(&self, subject: &Subject<'_>) -> Option<String> {
        let (requests, limits) = (subject.counted(Half::Requests), subject.counted(Half::Limits));
        let (mut requested, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (key, hard) in self.hard.iter() {
            let usage = match Counted::by(key) {
                Some(Counted::Pod) => Quantity::parse("1"),
                Some(Counted::Figure(Half::Requests, name)) => requests.get(name),
                Some(Counted::Figure(Half::Limits, name)) => limits.get(name),
                None => None,
            };
            let Some(usage) = usage.filter(|usage| *usage != Quantity::ZERO) else {
                continue;
            };
            // A status without a figure is still being counted.
            let before = match &self.used {
                Some(used) => used.get(key),
                None => Some(Quantity::ZERO),
            };
            let Some(before) = before else { continue };
            if before.plus(usage) > hard {
                requested.push(format!("{key}={usage}"));
                used.push(format!("{key}={before}"));
                limited.push(format!("{key}={hard}"));
            }
        }
        (!requested.is_empty()).then(|| {
            format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                self.name,
                requested.join(","),
                used.join(","),
                limited.join(",")
            )
        })
    }
}

impl<'q> Counted<'q> {
    /// What the entry `key` of a quota counts of pods; nothing where it counts something else.
    fn by(key: &'q str) -> Option<Self> {
        let figure = |half, name| Some(Self::Figure(half, name));
        match key {
            "pods" | "count/pods" => Some(Self::Pod),
            "cpu" | "memory" | "ephemeral-storage" => figure(Half::Requests, key),
            _ if is_huge_page(key) => figure(Half::Requests, key),
            _ => {
                if let Some(name) = key.strip_prefix("limits.") {
                    return figure(Half::Limits, name)
                        .filter(|_| matches!(name, "cpu" | "memory" | "ephemeral-storage"));
                }
                let name = key.strip_prefix("requests.")?;
                let is_extended = name.contains('/') && !name.contains("kubernetes.io/");
                let is_own = matches!(name, "cpu" | "memory" | "ephemeral-storage");
                figure(Half::Requests, name).filter(|_| is_own || is_huge_page(name) || is_extended)
            }
        }
    }
}
