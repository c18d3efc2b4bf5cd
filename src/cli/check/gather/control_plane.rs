//! What the control plane's namespace has: configuration, trust anchors, the webhook's certificate and its Service.

use super::withheld::Need;
use super::{Gatherer, Part, Values};
use crate::cli::check::rules::admission::{Target, Webhook};
use crate::cli::check::rules::certificates::Stored;
use crate::cli::check::rules::webhook::Endpoints;
use crate::cli::installation::OVERRIDES;
use crate::cli::live::{self, resource};
use crate::policy::probe::CONFIG_MAP;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

impl Gatherer<'_> {
    pub(super) async fn values(&mut self, namespace: &str) -> Result<Values> {
        let map = live::get(self.client, &resource::CONFIG_MAPS, Some(namespace), "linkerd-config").await;
        let need = Need {
            parts: &[Part::Configuration],
            unknown: "Linkerd's configuration",
        };
        let map = self.unless_refused(map, (&resource::CONFIG_MAPS, Some(namespace)), need)?;
        let Some(map) = map else {
            return Ok(Values::Withheld);
        };
        let values = map.as_ref().and_then(|map| map.pointer("/data/values")?.as_str());
        Ok(values.map_or(Values::Missing, |values| Values::Document(values.to_owned())))
    }

    pub(super) async fn overrides(&mut self, namespace: &str) -> Result<Option<String>> {
        let map = self.config_map(namespace, OVERRIDES).await?;
        Ok(map.and_then(|map| map.pointer("/data/values")?.as_str().map(str::to_owned)))
    }

    pub(super) async fn anchors(&mut self, namespace: &str) -> Result<Option<String>> {
        let map = self.config_map(namespace, "linkerd-identity-trust-roots").await?;
        Ok(map.and_then(|map| map.pointer("/data")?.get("ca-bundle.crt")?.as_str().map(str::to_owned)))
    }

    pub(super) async fn probe(&mut self, namespace: &str) -> Result<Option<Value>> {
        self.config_map(namespace, CONFIG_MAP).await
    }

    /// A ConfigMap beside linkerd-config: where it may not be read, the line about that one says it already.
    async fn config_map(&mut self, namespace: &str, name: &str) -> Result<Option<Value>> {
        match live::get(self.client, &resource::CONFIG_MAPS, Some(namespace), name).await {
            Err(kube::Error::Api(_)) => Ok(None),
            map => map.context("configmaps"),
        }
    }

    /// The Secret of that name, in which the certificate of our Deployment is. The certificate alone is kept: the key is
    /// nobody's business.
    pub(super) async fn secret(&mut self, namespace: &str, name: Option<&str>) -> Result<Stored> {
        let Some(name) = name else {
            return Ok(Stored::Unknown);
        };
        let secret = live::get(self.client, &resource::SECRETS, Some(namespace), name).await;
        let need = of_control_plane("the webhook's certificate on disk");
        let secret = self.unless_refused(secret, (&resource::SECRETS, Some(namespace)), need)?;
        Ok(match secret {
            None => Stored::Unknown,
            Some(None) => Stored::Missing(format!("{namespace}/{name}")),
            Some(Some(secret)) => {
                let text = secret.pointer("/data").and_then(|data| data.get("tls.crt")?.as_str());
                let certificate = text.and_then(|text| STANDARD.decode(text).ok());
                Stored::Certificate(certificate.unwrap_or_default())
            }
        })
    }

    /// Whether somebody stands behind the Service that the injector is registered with, and its address.
    pub(super) async fn service(&mut self, webhooks: Option<&[Value]>) -> Result<(Option<Endpoints>, Option<String>)> {
        let webhooks = Webhook::all(webhooks.unwrap_or_default());
        let injector = webhooks.iter().find(|webhook| webhook.is_injector());
        let (namespace, name, port) = match injector.and_then(Webhook::target) {
            Some(Target::Service { namespace, name, port }) => (namespace, name, port),
            Some(url @ Target::Url(_)) => {
                let address = url.authority().map(|(host, port)| format!("{host}:{port}"));
                return Ok((None, address));
            }
            None => return Ok((None, None)),
        };
        let service = live::get(self.client, &resource::SERVICES, Some(namespace), name).await;
        let need = of_control_plane("the webhook's Service");
        let service = self.unless_refused(service, (&resource::SERVICES, Some(namespace)), need)?;
        let Some(found) = service else {
            return Ok((None, None));
        };
        let address = found.as_ref().and_then(|service| {
            let address = service.pointer("/spec/clusterIP")?.as_str()?;
            (address != "None").then(|| format!("{address}:{port}"))
        });
        if found.is_none() {
            return Ok((Some(Endpoints::NoService), None));
        }
        let of_service = |slice: Value| {
            let owner = slice
                .pointer("/metadata/labels")?
                .get("kubernetes.io/service-name")?
                .as_str()?;
            (owner == name).then_some(slice)
        };
        let slices = self
            .list(
                &resource::ENDPOINT_SLICES,
                Some(namespace),
                of_control_plane("who stands behind the webhook's Service"),
                of_service,
            )
            .await?;
        let ready = slices.map(|slices| match slices.iter().any(has_ready_endpoint) {
            true => Endpoints::Ready,
            false => Endpoints::NoneReady,
        });
        Ok((ready, address))
    }
}

fn of_control_plane(unknown: &'static str) -> Need {
    Need {
        parts: &[Part::ControlPlane],
        unknown,
    }
}

/// An endpoint that says nothing of its readiness is ready (`discovery.k8s.io/v1`, `EndpointConditions`).
fn has_ready_endpoint(slice: &Value) -> bool {
    let endpoints = slice.get("endpoints").and_then(Value::as_array);
    endpoints.into_iter().flatten().any(|endpoint| {
        let ready = endpoint.pointer("/conditions/ready").and_then(Value::as_bool);
        ready.unwrap_or(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_endpoint_is_ready_unless_it_says_otherwise() {
        let slice = |endpoint: Value| json!({"endpoints": [endpoint]});
        assert!(has_ready_endpoint(&slice(json!({}))));
        assert!(!has_ready_endpoint(&slice(json!({"conditions": {"ready": false}}))));
        assert!(!has_ready_endpoint(&json!({"endpoints": null})));
    }
}
