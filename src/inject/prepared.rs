//! An installation with what its values alone make of the containers. The annotations of most pods change no value: such
//! pods get what was made once.

use super::env::{self, Source, Variables};
use super::{Redirection, ShapeError, proxy, proxy_init, validator, volumes};
use crate::config::{Config, Installation, Layers};
use crate::pod::Pod;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// An installation, prepared for injection.
#[derive(Clone, Debug)]
pub struct Prepared {
    installation: Installation,
    init_container: Result<Parts, ShapeError>,
    cni: Result<Parts, ShapeError>,
    none: Result<Parts, ShapeError>,
    variables: Option<Variables<Box<RawValue>>>,
}

/// The containers and volumes of one redirection.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// `linkerd-init` or the validator.
    pub(super) init: Option<Value>,
    /// The proxy without its environment, which no policy reads: that is written for the shape that is chosen alone.
    pub(super) proxy: Value,
    /// The volumes, in the order in which they are added.
    pub(super) volumes: Vec<Value>,
}

impl From<Installation> for Prepared {
    fn from(installation: Installation) -> Self {
        let pod = Pod::new(&Value::Null);
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: None,
        };
        let config = Config::effective(&installation, &layers);
        let parts = |redirection| Parts::new(&config, &pod, redirection);
        let source = Source {
            installation: &installation,
            config: &config,
        };
        Self {
            init_container: parts(Redirection::InitContainer),
            cni: parts(Redirection::Cni),
            none: parts(Redirection::None),
            variables: env::variables(&source).try_map(to_raw_value).ok(),
            installation,
        }
    }
}

impl Deref for Prepared {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl Prepared {
    /// The parts of `pod`, whose configuration is `config`.
    pub(super) fn parts(
        &self,
        config: &Config,
        pod: &Pod<'_>,
        redirection: Redirection,
    ) -> Result<Cow<'_, Parts>, ShapeError> {
        // Without a token of its own the proxy shares the application's, which is another in every pod.
        if !self.fits(config) || !config.values.identity.service_account_token_projection {
            return Parts::new(config, pod, redirection).map(Cow::Owned);
        }
        let prepared = match redirection {
            Redirection::InitContainer => &self.init_container,
            Redirection::Cni => &self.cni,
            Redirection::None => &self.none,
        };
        prepared.as_ref().map(Cow::Borrowed).map_err(Clone::clone)
    }

    /// The environment of the proxy, as JSON, where it is ready for `config`.
    pub(super) fn variables(&self, config: &Config) -> Option<&Variables<Box<RawValue>>> {
        self.variables.as_ref().filter(|_| self.fits(config))
    }

    /// Whether `config` has the installation's own values.
    fn fits(&self, config: &Config) -> bool {
        Arc::ptr_eq(&self.installation.values, &config.values)
    }
}

impl Parts {
    fn new(config: &Config, pod: &Pod<'_>, redirection: Redirection) -> Result<Self, ShapeError> {
        let values = &config.values;
        let init = match redirection {
            Redirection::InitContainer => Some(proxy_init::container(config)?),
            Redirection::Cni => Some(validator::container(values)),
            Redirection::None => None,
        };
        Ok(Self {
            init: init.map(super::container::Container::into_value),
            proxy: proxy::container(config, pod).into_value(),
            volumes: volumes::volumes(values, redirection),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::{Metadata, Shape};
    use serde_json::json;

    #[test]
    fn what_is_prepared_is_what_would_be_made_for_the_pod() {
        let document = "linkerdVersion: v1\nproxy: {additionalEnv: [{name: A, value: \"\\\"\"}]}";
        let installation = Installation::parse(&[document], Some("anchors"), "linkerd").unwrap();
        let prepared = Prepared::from(installation);
        let template = json!({"metadata": {}, "spec": {"containers": [{"ports": [{"containerPort": 80}]}]}});
        let pod = Pod::new(&template);
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: None,
        };
        let config = Config::effective(&prepared, &layers);
        let mut own = config.clone();
        own.changed();
        assert!(prepared.variables(&config).is_some() && prepared.variables(&own).is_none());
        for redirection in [Redirection::InitContainer, Redirection::Cni, Redirection::None] {
            let patch = |config| {
                let shape = Shape::new(&prepared, config, &pod, redirection, false).unwrap();
                json!(shape.into_patch(&Metadata::default(), &template, ""))
            };
            assert_eq!(patch(&config), patch(&own));
        }
    }

    #[test]
    fn a_token_is_the_pods_own() {
        let document = "linkerdVersion: v1\nidentity: {serviceAccountTokenProjection: false}";
        let prepared = Prepared::from(Installation::parse(&[document], Some("anchors"), "linkerd").unwrap());
        let mount = json!({"name": "token-x", "mountPath": proxy::SERVICE_ACCOUNT});
        let template = json!({"spec": {"containers": [{"volumeMounts": [mount]}]}});
        let pod = Pod::new(&template);
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: None,
        };
        let config = Config::effective(&prepared, &layers);
        let parts = prepared.parts(&config, &pod, Redirection::Cni).unwrap();
        assert_eq!(parts.proxy["volumeMounts"][1]["name"], "token-x");
    }
}
