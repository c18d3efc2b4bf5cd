//! An installation with what its values make of the containers.
//!
//! Most pods ask for no other value, and those that do mostly ask for the same as their siblings. So what depends on the
//! installation and on what is asked for alone is made once for each such set, and kept.

use super::env::{self, Source, Variables};
use super::{Redirection, ShapeError, proxy, proxy_init, validator, volumes};
use crate::config::{Config, ConfigError, Installation, Settings};
use crate::pod::Pod;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many sets are kept. Each holds some 30 KB once every redirection was asked of it.
const KEPT: usize = 16;

/// Bytes that a set may ask for if it is to be kept: a dozen long values. Annotations can hold 256 KiB, all of which may end
/// up in several containers.
const KEPT_SIZE: usize = 4 << 10;

/// An installation, prepared for injection.
#[derive(Debug)]
pub struct Prepared {
    installation: Installation,
    fault: Option<ConfigError>,
    /// The last used first.
    kept: Mutex<Vec<Arc<Made>>>,
}

/// What was made for one set of settings.
#[derive(Debug)]
pub struct Made {
    settings: Settings<'static>,
    config: Config,
    init_container: OnceLock<Result<Arc<Parts>, ShapeError>>,
    cni: OnceLock<Result<Arc<Parts>, ShapeError>>,
    none: OnceLock<Result<Arc<Parts>, ShapeError>>,
    variables: OnceLock<Variables<Box<RawValue>>>,
}

/// The containers and volumes of one redirection.
#[derive(Debug)]
pub(super) struct Parts {
    /// `linkerd-init` or the validator.
    pub(super) init: Option<Part>,
    /// The proxy without its environment, which no policy reads: that is written for the shape that is chosen alone.
    pub(super) proxy: Value,
    /// The fields of that, for its environment to be written among them.
    pub(super) proxy_fields: Vec<(String, Box<RawValue>)>,
    /// The volumes, in the order in which they are added.
    pub(super) volumes: Vec<Part>,
}

/// A container or a volume.
#[derive(Debug)]
pub(super) struct Part {
    /// As policies look at it.
    pub(super) value: Value,
    /// As it is written.
    pub(super) json: Box<RawValue>,
}

impl From<Value> for Part {
    fn from(value: Value) -> Self {
        Self {
            json: json(&value),
            value,
        }
    }
}

/// The JSON of what is made of texts, or was JSON before: it always has one.
fn json(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}

impl From<Installation> for Prepared {
    fn from(installation: Installation) -> Self {
        Self {
            fault: installation.check().err(),
            installation,
            kept: Mutex::default(),
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
    /// What an injected pod cannot do without and the installation lacks: see [`Installation::check`].
    pub fn fault(&self) -> Option<&ConfigError> {
        self.fault.as_ref()
    }

    /// The configuration that `settings`, which were read for this installation, make of it, with what depends on that.
    pub fn made(&self, settings: Settings<'_>) -> Arc<Made> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match kept.iter().position(|made| made.settings == settings) {
            Some(index) => kept.remove(index),
            None => Arc::new(Made::new(&self.installation, settings)),
        };
        if made.settings.size() > KEPT_SIZE {
            return made;
        }
        kept.truncate(KEPT - 1);
        kept.insert(0, Arc::clone(&made));
        made
    }
}

impl Made {
    fn new(installation: &Installation, settings: Settings<'_>) -> Self {
        Self {
            config: Config::new(installation, &settings),
            settings: settings.into_owned(),
            init_container: OnceLock::new(),
            cni: OnceLock::new(),
            none: OnceLock::new(),
            variables: OnceLock::new(),
        }
    }

    /// What it was made for.
    pub fn settings(&self) -> &Settings<'static> {
        &self.settings
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The parts of `pod`, which is one of those that ask for this.
    pub(super) fn parts(&self, pod: &Pod<'_>, redirection: Redirection) -> Result<Arc<Parts>, ShapeError> {
        let make = || Parts::new(&self.config, pod, redirection).map(Arc::new);
        // Without a token of its own the proxy shares the application's, which is another in every pod.
        if !self.config.values.identity.service_account_token_projection {
            return make();
        }
        let made = match redirection {
            Redirection::InitContainer => &self.init_container,
            Redirection::Cni => &self.cni,
            Redirection::None => &self.none,
        };
        made.get_or_init(make).clone()
    }

    /// The environment of the proxy, each variable as JSON.
    pub(super) fn variables(&self, installation: &Installation) -> &Variables<Box<RawValue>> {
        self.variables.get_or_init(|| {
            let source = Source {
                installation,
                config: &self.config,
            };
            env::variables(&source).map(json)
        })
    }
}

impl Parts {
    fn new(config: &Config, pod: &Pod<'_>, redirection: Redirection) -> Result<Self, ShapeError> {
        let values = &config.values;
        let init = match redirection {
            Redirection::InitContainer => Some(proxy_init::container(config)?),
            Redirection::Cni => Some(validator::container(config)),
            Redirection::None => None,
        };
        let proxy = proxy::container(config, pod).into_value();
        let fields = proxy.as_object().into_iter().flatten();
        Ok(Self {
            init: init.map(|container| container.into_value().into()),
            proxy_fields: fields.map(|(key, value)| (key.clone(), json(value))).collect(),
            proxy,
            volumes: volumes::volumes(values, redirection)
                .into_iter()
                .map(Part::from)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layers, NamespaceLayer};
    use crate::inject::{Metadata, Shape};
    use serde_json::json;

    fn prepared(document: &str) -> Prepared {
        Prepared::from(Installation::parse(&[document], Some("anchors"), "linkerd").unwrap())
    }

    fn made(prepared: &Prepared, pod: &Pod<'_>) -> Arc<Made> {
        let layers = Layers {
            namespace: Some(NamespaceLayer::default()),
            pod,
            workload: None,
        };
        prepared.made(Settings::read(prepared, &layers))
    }

    fn patch(prepared: &Prepared, template: &Value, redirection: Redirection) -> Value {
        let pod = Pod::new(template);
        let made = made(prepared, &pod);
        let shape = Shape::new(prepared, &made, &pod, redirection, false).unwrap();
        json!(shape.into_patch(&Metadata::default(), template, ""))
    }

    fn template(user: usize, port: usize) -> Value {
        json!({
            "metadata": {"annotations": {"config.linkerd.io/proxy-uid": user.to_string()}},
            "spec": {"containers": [{"ports": [{"containerPort": port}]}]},
        })
    }

    #[test]
    fn what_is_kept_is_what_would_be_made() {
        let document = "linkerdVersion: v1\nproxy: {additionalEnv: [{name: A, value: \"\\\"\"}]}";
        let warm = prepared(document);
        // The second is opaque by default, which is a setting of its own.
        for port in [80, 3306, 81] {
            // One set of values more than is kept, so that some are made again.
            for user in 1..=KEPT + 1 {
                for redirection in [Redirection::InitContainer, Redirection::Cni, Redirection::None] {
                    let template = template(user, port);
                    let fresh = patch(&prepared(document), &template, redirection);
                    assert_eq!(patch(&warm, &template, redirection), fresh);
                }
            }
        }
        assert_eq!(warm.kept.lock().unwrap().len(), KEPT);
    }

    #[test]
    fn pods_that_ask_for_the_same_share_what_is_made() {
        let prepared = prepared("linkerdVersion: v1");
        let of_user = |user| made(&prepared, &Pod::new(&template(user, 80)));
        let first = of_user(1);
        assert!(!Arc::ptr_eq(&first, &of_user(2)));
        assert!(Arc::ptr_eq(&first, &of_user(1)));
    }

    #[test]
    fn what_asks_for_much_is_not_kept() {
        let prepared = prepared("linkerdVersion: v1");
        let annotations = json!({"config.linkerd.io/proxy-log-level": "x".repeat(KEPT_SIZE + 1)});
        let template = json!({"metadata": {"annotations": annotations}});
        made(&prepared, &Pod::new(&template));
        assert!(prepared.kept.lock().unwrap().is_empty());
    }

    #[test]
    fn a_shared_token_is_the_pods_own() {
        let prepared = prepared("linkerdVersion: v1\nidentity: {serviceAccountTokenProjection: false}");
        let mount = |name| {
            let mount = json!({"name": name, "mountPath": proxy::SERVICE_ACCOUNT});
            let template = json!({"spec": {"containers": [{"volumeMounts": [mount]}]}});
            let pod = Pod::new(&template);
            let parts = made(&prepared, &pod).parts(&pod, Redirection::Cni).unwrap();
            parts.proxy["volumeMounts"][1]["name"].clone()
        };
        assert_eq!(
            (mount("token-x"), mount("token-y")),
            ("token-x".into(), "token-y".into())
        );
    }
}
