//! One constraint before one pod: what it fills in, and what it holds against the result.

use std::fmt::{self, Display};

use serde_json::Value;

use super::Release;
use super::provider::Provider;
use super::setting::{Setting, Settings};
use super::wording::Printer;
use crate::pod::Pod;

/// A constraint at work on a pod.
pub(super) struct Judge<'a, 'p> {
    pub(super) provider: &'a Provider<'a>,
    pub(super) pod: &'a Pod<'p>,
    pub(super) printer: Printer,
    pub(super) settings: Settings,
    pub(super) errors: Vec<String>,
    server: Release,
}

/// Where a container stands: `.initContainers[0]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    list: &'static str,
    index: usize,
}

/// What `provider` fills in where it admits `pod`, else its errors in the server's order.
pub(super) fn judge(provider: &Provider<'_>, pod: &Pod<'_>, server: Release) -> Result<Vec<Setting>, Vec<String>> {
    let mut judge = Judge {
        provider,
        pod,
        printer: Printer::of(server),
        settings: Settings::default(),
        errors: Vec::new(),
        server,
    };
    let inherited = judge.pod();
    for (place, container) in Place::all(pod) {
        judge.container(place, container, &inherited);
    }
    match judge.errors.is_empty() {
        true => Ok(judge.settings.0),
        false => Err(judge.errors),
    }
}

impl Judge<'_, '_> {
    /// `place` as errors name it.
    pub(super) fn path(&self, place: impl Display) -> String {
        format!("provider {}: {place}", self.provider.constraint.name)
    }

    /// Whether the server says of the pod's own fields where they are; before 1.35 they are all said to be in its
    /// security context.
    pub(super) fn spec_paths(&self) -> bool {
        self.server >= Release(35)
    }
}

impl Place {
    /// The containers of `pod` in the server's order, with their places.
    pub(super) fn all<'p>(pod: &Pod<'p>) -> impl Iterator<Item = (Self, &'p Value)> {
        let lists = [
            ("initContainers", pod.init_containers()),
            ("containers", pod.containers()),
            ("ephemeralContainers", pod.ephemeral_containers()),
        ];
        lists.into_iter().flat_map(|(list, containers)| {
            let places = containers.iter().enumerate();
            places.map(move |(index, container)| (Self { list, index }, *container))
        })
    }

    /// As a JSON pointer.
    pub(super) fn pointer(self) -> String {
        format!("/spec/{}/{}", self.list, self.index)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}[{}]", self.list, self.index)
    }
}
