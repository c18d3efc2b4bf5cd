//! What a check looks at: a pod, seen by one server at one policy version.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Server;
use crate::pod::{self, Pod};

/// A pod before a check.
#[derive(Clone, Debug)]
pub(super) struct Subject<'p> {
    /// The pod.
    pub(super) pod: &'p Pod<'p>,
    /// Init, then application, then ephemeral containers.
    pub(super) containers: Vec<Container<'p>>,
    /// The server that asks.
    pub(super) server: Server,
    /// The minor number of the policy version.
    pub(super) minor: u32,
    /// Whether the server readies the pod for storage first, as it does with one that is created: annotations and
    /// fields are brought in step, fields of features that are off are reset. Else the pod is judged as given.
    pub(super) stored: bool,
}

/// A container before a check. Nearly every check asks for its security context, so that is looked up once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'p> {
    /// The container.
    pub(super) value: &'p Value,
    /// Its `securityContext`, where it is an object.
    pub(super) context: Option<&'p Value>,
}

impl<'p> Container<'p> {
    /// Views a container.
    pub(super) fn new(value: &'p Value) -> Self {
        Self {
            value,
            context: pod::object(value, "securityContext"),
        }
    }

    /// Its name, empty where it has none.
    pub(super) fn name(self) -> &'p str {
        pod::container_name(self.value)
    }

    /// `securityContext[key]`
    pub(super) fn setting(self, key: &str) -> Option<&'p Value> {
        self.context?.get(key)
    }

    /// The same, where it is a boolean.
    pub(super) fn flag(self, key: &str) -> Option<bool> {
        self.setting(key)?.as_bool()
    }
}

/// The containers that break a rule, by name in order, and the values with which they do, sorted.
#[derive(Debug)]
pub(super) struct Offenders<'p, V> {
    /// Names, repeated where containers share one.
    pub(super) names: Vec<&'p str>,
    /// Distinct values.
    pub(super) values: BTreeSet<V>,
}

impl<'p> Subject<'p> {
    /// The names of the containers that are `bad`.
    pub(super) fn containers_where(&self, bad: impl Fn(Container<'p>) -> bool) -> Vec<&'p str> {
        let containers = self.containers.iter().copied();
        containers
            .filter(|container| bad(*container))
            .map(Container::name)
            .collect()
    }

    /// The containers that have `bad` values.
    pub(super) fn offenders<V, I>(&self, bad: impl Fn(Container<'p>) -> I) -> Offenders<'p, V>
    where
        V: Ord,
        I: IntoIterator<Item = V>,
    {
        let mut offenders = Offenders {
            names: Vec::new(),
            values: BTreeSet::new(),
        };
        for container in self.containers.iter().copied() {
            let mut values = bad(container).into_iter().peekable();
            if values.peek().is_some() {
                offenders.names.push(container.name());
                offenders.values.extend(values);
            }
        }
        offenders
    }

    /// Whether the pod says that it is for Windows, at a policy version that cares.
    pub(super) fn spared_for_windows(&self) -> bool {
        self.minor >= 25 && self.is_windows()
    }

    /// Whether `spec.os.name` is exactly `windows`.
    pub(super) fn is_windows(&self) -> bool {
        self.pod.spec().get("os").and_then(|os| pod::text(os, "name")) == Some("windows")
    }

    /// Whether the pod has a user namespace of its own that spares it a check, which releases before 1.35 do behind a
    /// feature gate, from the release `gated_since` on.
    pub(super) fn spared_in_user_namespace(&self, gated_since: u32) -> bool {
        let spares = if self.server.since(35) {
            self.minor >= 35
        } else {
            self.server.user_namespaces && self.server.since(gated_since)
        };
        spares && pod::boolean(self.pod.spec(), "hostUsers") == Some(false)
    }

    /// Annotations in order of their keys; a null value is an empty one, as for the API server.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'p str, &'p str)> + use<'p> {
        let annotations = self.pod.annotations().into_iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    /// The annotation of `prefix` and `name`, in two parts so that nobody has to put them together. Asked for every
    /// container, so it must not look at every annotation; a null value is an empty one.
    pub(super) fn annotation(&self, prefix: &str, name: &str) -> Option<&'p str> {
        let value = self.pod.annotations()?.get(&[prefix, name].concat())?;
        Some(value.as_str().unwrap_or_default())
    }
}

/// The strings of the list `object[key]`; a null item is an empty string, as for the API server.
pub(super) fn strings<'v>(object: Option<&'v Value>, key: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    let items = object
        .and_then(|object| object.get(key))
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    items.map(|item| item.as_str().unwrap_or_default())
}
