//! Quantities by the name of a resource.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::pod::{self, Quantity};

/// Quantities by resource. What is no quantity is left out: an API server takes no such object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures<'f>(BTreeMap<Cow<'f, str>, Quantity>);

/// Requests and limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources<'r> {
    pub(super) requests: Figures<'r>,
    pub(super) limits: Figures<'r>,
}

impl<'f> Figures<'f> {
    /// Reads the map `object[key]`.
    pub(super) fn read(object: &'f Value, key: &str) -> Self {
        let map = object.get(key).and_then(Value::as_object).into_iter().flatten();
        let quantities = map.filter_map(|(name, value)| Some((Cow::from(name), quantity(value)?)));
        Self(quantities.collect())
    }

    pub(super) fn into_owned(self) -> Figures<'static> {
        let owned = self
            .0
            .into_iter()
            .map(|(name, value)| (Cow::Owned(name.into_owned()), value));
        Figures(owned.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    pub(super) fn insert(&mut self, name: Cow<'f, str>, value: Quantity) {
        self.0.insert(name, value);
    }

    /// Takes from `others` what is missing here.
    pub(super) fn fill_in(&mut self, others: &Self) {
        for (name, value) in &others.0 {
            self.0.entry(name.clone()).or_insert(*value);
        }
    }

    /// Adds each of `others`.
    pub(super) fn add(&mut self, others: &Self) {
        for (name, value) in &others.0 {
            let sum = self.0.entry(name.clone()).or_insert(Quantity::ZERO);
            *sum = sum.plus(*value);
        }
    }

    /// Raises to what `others` have where that is more.
    pub(super) fn raise(&mut self, others: &Self) {
        self.raise_each(others, |_, value| value);
    }

    /// Raises what `others` name to `value`, of its name and what they have, where that is more.
    pub(super) fn raise_each(&mut self, others: &Self, value: impl Fn(&str, Quantity) -> Quantity) {
        for (name, own) in &others.0 {
            let value = value(name, *own);
            let most = self.0.entry(name.clone()).or_insert(value);
            // Of two that are equal the first stays, in its notation.
            if value > *most {
                *most = value;
            }
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| keep(name));
    }
}

impl<'r> Resources<'r> {
    /// Reads `object.resources`, of a container or of a pod's specification.
    pub(super) fn read(object: &'r Value) -> Self {
        let resources = pod::object(object, "resources");
        let figures = |key| {
            resources
                .map(|resources| Figures::read(resources, key))
                .unwrap_or_default()
        };
        Self {
            requests: figures("requests"),
            limits: figures("limits"),
        }
    }
}

/// A quantity as text, or as the number that the API server also takes.
fn quantity(value: &Value) -> Option<Quantity> {
    let quantity = match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    quantity.map(Quantity::in_thousandths)
}
