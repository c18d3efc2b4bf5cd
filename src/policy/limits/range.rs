//! A `LimitRange`.

use serde_json::Value;

use super::figures::Figures;
use super::subject::{Half, Subject};
use super::{Refusal, Refuser};
use crate::pod::{self, Quantity, Scale};
use crate::policy::aggregate::join;

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) name: String,
    items: Vec<Item>,
    /// What containers get that do not say.
    default_requests: Figures<'static>,
    default_limits: Figures<'static>,
}

/// One entry that bounds containers or pods.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    kind: Kind,
    min: Figures<'static>,
    max: Figures<'static>,
    /// The largest ratio of limit to request.
    ratio: Figures<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Container,
    Pod,
}

/// What is measured: figures of a container or of a pod.
struct Measured<'m> {
    kind: Kind,
    requests: &'m Figures<'m>,
    limits: &'m Figures<'m>,
}

impl Range {
    pub(super) fn read(object: &Value) -> Self {
        let mut range = Self {
            name: object
                .get("metadata")
                .map(pod::container_name)
                .unwrap_or_default()
                .to_owned(),
            items: Vec::new(),
            default_requests: Figures::default(),
            default_limits: Figures::default(),
        };
        let limits = pod::object(object, "spec").map(|spec| pod::list(spec, "limits"));
        for entry in limits.into_iter().flatten() {
            let kind = match pod::text(entry, "type") {
                Some("Container") => Kind::Container,
                Some("Pod") => Kind::Pod,
                _ => continue,
            };
            let figures = |key| Figures::read(entry, key).into_owned();
            let item = Item {
                kind,
                min: figures("min"),
                max: figures("max"),
                ratio: figures("maxLimitRequestRatio"),
            };
            if kind == Kind::Container {
                range.read_defaults(figures("default"), figures("defaultRequest"), &item);
            }
            range.items.push(item);
        }
        range
    }

    /// Takes the defaults of one entry, over those of earlier ones, with what the API fills in: the maximum as limit,
    /// the limit as request, the minimum as request.
    fn read_defaults(&mut self, mut limits: Figures<'static>, mut requests: Figures<'static>, item: &Item) {
        limits.fill_in(&item.max);
        requests.fill_in(&limits);
        requests.fill_in(&item.min);
        let earlier = std::mem::replace(&mut self.default_limits, limits);
        self.default_limits.fill_in(&earlier);
        let earlier = std::mem::replace(&mut self.default_requests, requests);
        self.default_requests.fill_in(&earlier);
    }

    /// Gives the containers of `subject` what they lack.
    pub(super) fn fill_in<'p>(&'p self, subject: &mut Subject<'p>) {
        for container in subject.all_mut() {
            container.resources.limits.fill_in(&self.default_limits);
            container.resources.requests.fill_in(&self.default_requests);
        }
    }

    pub(super) fn check(&self, subject: &Subject<'_>) -> Result<(), Refusal> {
        let (mut errors, mut containers) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item.kind {
                Kind::Container => {
                    for container in subject.all() {
                        let found = item.check(&container.resources.requests, &container.resources.limits);
                        if !found.is_empty() && !containers.iter().any(|name| name == container.name) {
                            containers.push(container.name.to_owned());
                        }
                        errors.extend(found);
                    }
                }
                Kind::Pod => errors.extend(item.check(&subject.of_pod(Half::Requests), &subject.of_pod(Half::Limits))),
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            by: Refuser::LimitRange(self.name.clone()),
            containers,
            message: join(errors),
        })
    }
}

impl Item {
    fn check(&self, requests: &Figures<'_>, limits: &Figures<'_>) -> Vec<String> {
        let measured = Measured {
            kind: self.kind,
            requests,
            limits,
        };
        let min = self.min.iter().filter_map(|(name, bound)| measured.min(name, bound));
        let max = self.max.iter().filter_map(|(name, bound)| measured.max(name, bound));
        let ratio = self
            .ratio
            .iter()
            .filter_map(|(name, bound)| measured.ratio(name, bound));
        min.chain(max).chain(ratio).collect()
    }
}

impl Measured<'_> {
    fn min(&self, name: &str, bound: Quantity) -> Option<String> {
        let start = format!("minimum {name} usage per {} is {bound}", self.kind.name());
        let (request, limit) = self.of(name);
        let Some(request) = request else {
            return Some(format!("{start}.  No request is specified"));
        };
        let scale = scale([Some(request), limit, Some(bound)]);
        if request.at(scale) < bound.at(scale) {
            return Some(format!("{start}, but request is {request}"));
        }
        let limit = limit.filter(|limit| limit.at(scale) < bound.at(scale))?;
        Some(format!("{start}, but limit is {limit}"))
    }

    fn max(&self, name: &str, bound: Quantity) -> Option<String> {
        let start = format!("maximum {name} usage per {} is {bound}", self.kind.name());
        let (request, limit) = self.of(name);
        let Some(limit) = limit else {
            return Some(format!("{start}.  No limit is specified"));
        };
        let scale = scale([request, Some(limit), Some(bound)]);
        if limit.at(scale) > bound.at(scale) {
            return Some(format!("{start}, but limit is {limit}"));
        }
        let request = request.filter(|request| request.at(scale) > bound.at(scale))?;
        Some(format!("{start}, but request is {request}"))
    }

    fn ratio(&self, name: &str, bound: Quantity) -> Option<String> {
        let start = format!(
            "{name} max limit to request ratio per {} is {bound}, but",
            self.kind.name()
        );
        let (request, limit) = self.of(name);
        let scale = scale([request, limit, Some(bound)]);
        let figure = |quantity: Option<Quantity>| {
            quantity
                .map(|quantity| quantity.at(scale))
                .filter(|figure| *figure != 0)
        };
        let Some(request) = figure(request) else {
            return Some(format!("{start} no request is specified or request is 0"));
        };
        let Some(limit) = figure(limit) else {
            return Some(format!("{start} no limit is specified or limit is 0"));
        };
        let bound = bound.at(Scale::Milli).saturating_mul(request);
        if limit.saturating_mul(1000) <= bound {
            return None;
        }
        // Six places, as the server prints it.
        let places = 1_000_000;
        let rounded =
            limit.saturating_mul(places).saturating_mul(2).saturating_add(request) / request.saturating_mul(2);
        let (whole, fraction) = (rounded / places, rounded % places);
        Some(format!("{start} provided ratio is {whole}.{fraction:06}"))
    }

    fn of(&self, name: &str) -> (Option<Quantity>, Option<Quantity>) {
        (self.requests.get(name), self.limits.get(name))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "Container",
            Self::Pod => "Pod",
        }
    }
}

/// How finely the server compares: by thousandths, unless one of `quantities` has more of them than 64 bits hold.
fn scale(quantities: [Option<Quantity>; 3]) -> Scale {
    let most = i128::from(i64::MAX / 1000);
    match quantities
        .into_iter()
        .flatten()
        .all(|quantity| quantity.at(Scale::Whole) <= most)
    {
        true => Scale::Milli,
        false => Scale::Whole,
    }
}
