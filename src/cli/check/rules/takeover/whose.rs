//! Whose injector stands behind a registration.

use super::super::admission::{Target, Webhook};
use super::super::installation::Injector;
use super::super::{name, namespace, place};
use serde_json::Value;

/// An injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Whose {
    /// Outrigger's webhook.
    Ours,
    /// Linkerd's own.
    Linkerds,
    /// Both, nobody, or somebody who cannot be seen from here.
    Unknown,
}

/// What stands behind registrations.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Backends<'a> {
    /// The Services that registrations of injectors name.
    pub(in crate::cli::check) services: &'a [Value],
    /// Deployments, as far as they may be seen.
    pub(in crate::cli::check) deployments: &'a [Value],
}

impl<'a> Backends<'a> {
    /// Every injector that there is.
    pub(super) fn injectors(&self) -> impl Iterator<Item = Injector<'a>> + use<'a> {
        self.deployments.iter().filter_map(Injector::read)
    }

    /// Whose injector `webhook` sends pods to.
    pub(super) fn whose(&self, webhook: &Webhook<'_>) -> Whose {
        let behind = || self.behind(webhook).unwrap_or_default();
        let (ours, linkerds) = (
            behind().iter().any(|it| it.is_ours()),
            behind().iter().any(|it| !it.is_ours()),
        );
        match (ours, linkerds) {
            (true, false) => Whose::Ours,
            (false, true) => Whose::Linkerds,
            (false, false) if webhook.is_named_for_us() => Whose::Ours,
            (true, true) | (false, false) => Whose::Unknown,
        }
    }

    /// The Services that send to ours and to Linkerd's.
    pub(super) fn shared(&self) -> impl Iterator<Item = String> {
        let is_shared = |service: &&Value| {
            let behind = self.behind_service(service).unwrap_or_default();
            behind.iter().any(|it| it.is_ours()) && behind.iter().any(|it| !it.is_ours())
        };
        self.services.iter().filter(is_shared).map(place)
    }

    fn behind(&self, webhook: &Webhook<'_>) -> Option<Vec<Injector<'a>>> {
        let Target::Service {
            namespace: own,
            name: wanted,
            ..
        } = webhook.target()?
        else {
            return None;
        };
        let mut services = self.services.iter();
        self.behind_service(services.find(|it| namespace(it) == own && name(it) == wanted)?)
    }

    fn behind_service(&self, service: &Value) -> Option<Vec<Injector<'a>>> {
        let selector = service.pointer("/spec/selector")?.as_object();
        // A Service without a selector has endpoints that somebody else writes.
        let selector = selector.filter(|selector| !selector.is_empty())?;
        let injectors = self.injectors();
        Some(
            injectors
                .filter(|it| it.is_behind(namespace(service), selector))
                .collect(),
        )
    }
}
