//! What the cluster holds, at one look.

use super::plan::{Bundles, Confidence, Trust};
use super::secret::{Found, Material, Secret};
use crate::webhook::certificate::object::{Answer, Object, Trouble};
use crate::webhook::certificate::registration::{Registration, Service};
use kube::api::Patch;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use std::time::Duration;

/// What the cluster holds.
pub(super) struct View {
    /// Seconds since 1970, by the API server's clock; of no meaning where it has not answered at all.
    pub(super) now: i64,
    /// What API servers dial.
    host: String,
    secret: Result<Option<Secret>, Trouble>,
    pub(super) current: Found,
    pub(super) next: Found,
    pub(super) registration: Result<Option<Registration>, Trouble>,
}

/// An object, and what the API server says of it.
type Asked<'a> = (&'a Object, Result<Answer, Trouble>);

impl View {
    /// What the two answers say; entries for `service` count.
    pub(super) fn new(secret: Asked<'_>, registration: Asked<'_>, service: &Service) -> Self {
        let ((secret, stored), (registration, registered)) = (secret, registration);
        let times = [&stored, &registered].map(|answer| answer.as_ref().ok().map(|answer| answer.now));
        let now = times.into_iter().flatten().next().unwrap_or_default();
        let host = service.host();
        let secret = stored.and_then(|answer| Secret::read(answer, secret));
        let place = |place: fn(&Secret, &str, i64) -> Found| match &secret {
            Ok(Some(secret)) => place(secret, &host, now),
            Ok(None) | Err(_) => Found::Empty,
        };
        Self {
            now,
            current: place(Secret::current),
            next: place(Secret::next),
            registration: registered.and_then(|answer| Registration::read(&answer, registration, service)),
            host,
            secret,
        }
    }

    /// The same where the Secret could be read.
    pub(super) fn with_secret(mut self) -> Result<Self, Trouble> {
        self.secret = Ok(self.secret?);
        Ok(self)
    }

    /// The Secret, where there is one.
    pub(super) fn stored(&self) -> Option<&Secret> {
        self.secret.as_ref().ok()?.as_ref()
    }

    fn registered(&self) -> Option<&Registration> {
        self.registration.as_ref().ok()?.as_ref()
    }

    /// The versions of Secret and registration. Where there is none, any that comes is news.
    pub(super) fn versions(&self) -> (&str, &str) {
        let secret = self.stored().map_or("0", Secret::version);
        (secret, self.registered().map_or("0", Registration::version))
    }

    /// Whether any API server may call us.
    pub(super) fn calls_us(&self) -> bool {
        self.registered().is_some_and(Registration::calls_us)
    }

    /// Whether API servers take a certificate; nothing where that cannot be told. Where nobody calls us, nobody refuses it.
    pub(super) fn vouched(&self, material: &Material) -> Option<Result<(), String>> {
        let registration = self.registration.as_ref().ok()?.as_ref();
        let refused = registration.map(|it| it.vouches_for(&material.key.cert, &self.host, self.now));
        Some(refused.unwrap_or(Ok(())))
    }

    /// How far API servers trust a pair, of which `confidence` remembers for how long they have.
    pub(super) fn trust(&self, material: &Material, confidence: &Confidence, at: Duration) -> Trust {
        match self.vouched(material) {
            None => Trust::Unknown,
            Some(Err(_)) => Trust::Missing,
            Some(Ok(())) if !self.calls_us() => Trust::Settled,
            Some(Ok(())) => confidence.trust(&material.id, at),
        }
    }

    /// How the bundles of the entries that call us are.
    pub(super) fn bundles(&self) -> Bundles {
        match &self.registration {
            Err(_) => Bundles::Closed,
            Ok(Some(registration)) if registration.injector().is_some() => Bundles::Closed,
            Ok(Some(_)) if self.completed().is_some() => Bundles::Lacking,
            Ok(Some(_) | None) => Bundles::Complete,
        }
    }

    /// The patch that puts into the bundles what they lack of the Secret's authorities; nothing where they lack nothing.
    pub(super) fn completed(&self) -> Option<Patch<Value>> {
        let materials = [&self.current, &self.next].map(Found::material);
        let authorities = materials
            .into_iter()
            .flatten()
            .flat_map(|material| &material.authorities);
        let authorities: Vec<CertificateDer<'static>> = authorities.cloned().collect();
        self.registered()?.completed(&authorities, self.now)
    }
}
