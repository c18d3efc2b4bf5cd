//! The Services behind registrations, by which it is told whose injector answers.

use super::Gatherer;
use crate::cli::check::rules::admission::{Target, Webhook};
use crate::cli::live::{self, resource, tidied};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;

impl Gatherer<'_> {
    /// Those that registrations of injectors name and that may be read.
    pub(super) async fn services(&self, webhooks: Option<&[Value]>) -> Result<Vec<Value>> {
        let webhooks = Webhook::all(webhooks.unwrap_or_default());
        let targets = webhooks
            .iter()
            .filter(|it| it.is_of_injector())
            .filter_map(|it| match it.target()? {
                Target::Service { namespace, name, .. } => Some((namespace, name)),
                Target::Url(_) => None,
            });
        let mut services = Vec::new();
        for (namespace, name) in targets.collect::<BTreeSet<_>>() {
            match live::get(self.client, &resource::SERVICES, Some(namespace), name).await {
                // Whoever may not read the first of them is told so elsewhere.
                Err(kube::Error::Api(_)) => {}
                service => services.extend(service.context("services")?.map(tidied)),
            }
        }
        Ok(services)
    }
}
