//! A pod's requests and limits as the server sees them.

use std::borrow::Cow;

use serde_json::Value;

use super::figures::{Figures, Resources};
use crate::pod::{self, Pod, Quantity};
use crate::policy::Release;

/// The first release that takes requests and limits of a whole pod, behind a gate that is on by default.
const POD_LEVEL: Release = Release(34);

/// A pod, with defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Subject<'p> {
    pub(super) containers: Vec<Container<'p>>,
    pub(super) init_containers: Vec<Container<'p>>,
    /// The figures of the pod as a whole, where the server takes them.
    pub(super) whole: Option<Resources<'p>>,
    pub(super) spec: &'p Value,
    overhead: Figures<'p>,
    server: Release,
}

/// One container.
#[derive(Clone, Debug)]
pub(super) struct Container<'p> {
    pub(super) name: &'p str,
    pub(super) resources: Resources<'p>,
    /// Whether it is an init container that goes on running.
    sidecar: bool,
}

/// Which half of [`Resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Requests,
    Limits,
}

impl Half {
    pub(super) fn of<'r, 'p>(self, resources: &'r Resources<'p>) -> &'r Figures<'p> {
        match self {
            Self::Requests => &resources.requests,
            Self::Limits => &resources.limits,
        }
    }
}

impl<'p> Subject<'p> {
    /// `pod` with the API's defaults: a request that is missing is the limit, of a container and of the whole.
    pub(super) fn new(pod: &Pod<'p>, server: Release) -> Self {
        let native = server >= Release::NATIVE_SIDECARS;
        let read = |containers: &[&'p Value]| containers.iter().map(|it| Container::read(it, native)).collect();
        let spec = pod.spec();
        let has_whole = server >= POD_LEVEL && pod::object(spec, "resources").is_some();
        let mut subject = Self {
            containers: read(pod.containers()),
            init_containers: read(pod.init_containers()),
            whole: None,
            spec,
            overhead: Figures::read(spec, "overhead"),
            server,
        };
        subject.whole = has_whole.then(|| subject.default_whole(Resources::read(spec)));
        subject
    }

    /// The figures of the whole with those that the server fills in.
    fn default_whole(&self, mut whole: Resources<'p>) -> Resources<'p> {
        if whole.limits.is_empty() && whole.requests.is_empty() {
            return whole;
        }
        let mut huge = self.of_containers(Half::Limits);
        huge.retain(|name| is_huge_page(name) && whole.requests.get(name).is_none());
        whole.limits.fill_in(&huge);
        if whole.limits.is_empty() {
            return whole;
        }
        let mut requests = self.of_containers(Half::Requests);
        requests.retain(|name| matches!(name, "cpu" | "memory"));
        whole.requests.fill_in(&requests);
        let mut limits = whole.limits.clone();
        limits.retain(is_whole);
        whole.requests.fill_in(&limits);
        whole
    }

    /// The containers in the order in which the quota plugin and `LimitRanger` visit them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Container<'p>> {
        self.containers.iter().chain(&self.init_containers)
    }

    /// The same, to be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Container<'p>> {
        self.containers.iter_mut().chain(&mut self.init_containers)
    }

    /// What the containers take at most at one time: all that run together, or an init container beside the sidecars
    /// before it.
    pub(super) fn of_containers(&self, half: Half) -> Figures<'p> {
        let mut running = Figures::default();
        for container in &self.containers {
            running.add(half.of(&container.resources));
        }
        let (mut sidecars, mut starting) = (Figures::default(), Figures::default());
        for container in &self.init_containers {
            let figures = half.of(&container.resources);
            if container.sidecar {
                running.add(figures);
                sidecars.add(figures);
                starting.raise_each(figures, |name, own| sidecars.get(name).unwrap_or(own));
            } else {
                // What it does not name, those sidecars have raised already: a pod of thousands of containers and names
                // must not cost their product.
                let beside = |name: &str, own: Quantity| sidecars.get(name).map_or(own, |sidecar| own.plus(sidecar));
                starting.raise_each(figures, beside);
            }
        }
        running.raise(&starting);
        running
    }

    /// What `LimitRanger` counts for the pod.
    pub(super) fn of_pod(&self, half: Half) -> Figures<'p> {
        // Before it knew sidecars, it left out what any container did not name.
        if self.server < Release(28) {
            return self.of_containers_once(half);
        }
        let mut figures = self.of_containers(half);
        for (name, value) in self.whole.iter().flat_map(|whole| half.of(whole).iter()) {
            if matches!(name, "cpu" | "memory") {
                figures.insert(Cow::Owned(name.to_owned()), value);
            }
        }
        figures
    }

    fn of_containers_once(&self, half: Half) -> Figures<'p> {
        let mut figures = Figures::default();
        for container in &self.containers {
            figures.add(half.of(&container.resources));
        }
        let everywhere = |name: &str| {
            let mut containers = self.containers.iter();
            containers.all(|container| half.of(&container.resources).get(name).is_some())
        };
        figures.retain(everywhere);
        for container in &self.init_containers {
            figures.raise(half.of(&container.resources));
        }
        figures
    }

    /// What quotas count for the pod.
    pub(super) fn counted(&self, half: Half) -> Figures<'p> {
        let mut figures = self.of_containers(half);
        if self.has_whole() {
            for (name, value) in self.whole.iter().flat_map(|whole| half.of(whole).iter()) {
                if is_whole(name) {
                    figures.insert(Cow::Owned(name.to_owned()), value);
                }
            }
        }
        let mut overhead = self.overhead.clone();
        if half == Half::Limits {
            let limited = figures.clone();
            overhead.retain(|name| limited.get(name).is_some_and(|limit| limit > Quantity::ZERO));
        }
        figures.add(&overhead);
        figures
    }

    /// Whether the pod as a whole has any figure.
    pub(super) fn has_whole(&self) -> bool {
        let mut halves = self
            .whole
            .iter()
            .flat_map(|whole| whole.requests.iter().chain(whole.limits.iter()));
        halves.any(|(name, _)| is_whole(name))
    }

    /// Whether nothing is requested or limited: the class `BestEffort`.
    pub(super) fn is_best_effort(&self) -> bool {
        let asks = |resources: &Resources<'_>| {
            let mut figures = resources.requests.iter().chain(resources.limits.iter());
            figures.any(|(name, value)| matches!(name, "cpu" | "memory") && value > Quantity::ZERO)
        };
        match &self.whole {
            Some(whole) => !asks(whole),
            None => !self.all().any(|container| asks(&container.resources)),
        }
    }
}

impl<'p> Container<'p> {
    /// `native`: whether the server knows init containers that go on running.
    fn read(container: &'p Value, native: bool) -> Self {
        let mut resources = Resources::read(container);
        resources.requests.fill_in(&resources.limits);
        Self {
            name: pod::container_name(container),
            resources,
            sidecar: native && pod::text(container, "restartPolicy") == Some("Always"),
        }
    }
}

/// Whether a pod as a whole may have figures for the resource `name`.
fn is_whole(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

pub(super) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}
