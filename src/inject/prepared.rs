//! An installation with what its values make of the containers.
//!
//! Most pods change no value by their annotations, and those that do mostly change the same ones as their siblings. So what
//! depends on the values alone is made once for each set of them, and kept.

use super::container::Container;
use super::env::{self, Source, Variables};
use super::{Redirection, ShapeError, proxy, proxy_init, validator, volumes};
use crate::config::values::Values;
use crate::config::{Config, Installation};
use crate::pod::Pod;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many sets of values are kept. Each holds some 30 KB once every redirection was asked of it.
const KEPT: usize = 16;

/// An installation, prepared for injection.
#[derive(Debug)]
pub struct Prepared {
    installation: Installation,
    /// The last used first.
    kept: Mutex<Vec<Arc<Made>>>,
}

/// What was made for one set of values.
#[derive(Debug)]
pub(super) struct Made {
    values: Arc<Values>,
    user: i64,
    init_container: OnceLock<Result<Arc<Parts>, ShapeError>>,
    cni: OnceLock<Result<Arc<Parts>, ShapeError>>,
    none: OnceLock<Result<Arc<Parts>, ShapeError>>,
    variables: OnceLock<Variables<Box<RawValue>>>,
}

/// The containers and volumes of one redirection.
#[derive(Debug)]
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
        Self {
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
    /// What is made for the values of `config`.
    pub(super) fn made(&self, config: &Config) -> Arc<Made> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match kept.iter().position(|made| made.fits(config)) {
            Some(index) => kept.remove(index),
            None => Arc::new(Made::of(config)),
        };
        kept.truncate(KEPT - 1);
        kept.insert(0, Arc::clone(&made));
        made
    }
}

impl Made {
    fn of(config: &Config) -> Self {
        Self {
            values: Arc::clone(&config.values),
            user: proxy::user(config),
            init_container: OnceLock::new(),
            cni: OnceLock::new(),
            none: OnceLock::new(),
            variables: OnceLock::new(),
        }
    }

    fn fits(&self, config: &Config) -> bool {
        let same = Arc::ptr_eq(&self.values, &config.values) || self.values == config.values;
        same && self.user == proxy::user(config)
    }

    /// The parts of `pod`, whose configuration is `config`.
    pub(super) fn parts(
        &self,
        config: &Config,
        pod: &Pod<'_>,
        redirection: Redirection,
    ) -> Result<Arc<Parts>, ShapeError> {
        let make = || Parts::new(config, pod, redirection).map(Arc::new);
        // Without a token of its own the proxy shares the application's, which is another in every pod.
        if !config.values.identity.service_account_token_projection {
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
    pub(super) fn variables(&self, source: &Source<'_>) -> &Variables<Box<RawValue>> {
        self.variables.get_or_init(|| {
            // Every variable is made of texts, or was JSON before: none can fail.
            env::variables(source).map(|variable| to_raw_value(variable).unwrap_or_default())
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
        Ok(Self {
            init: init.map(Container::into_value),
            proxy: proxy::container(config, pod).into_value(),
            volumes: volumes::volumes(values, redirection),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use crate::inject::{Metadata, Shape};
    use serde_json::json;

    fn prepared(document: &str) -> Prepared {
        Prepared::from(Installation::parse(&[document], Some("anchors"), "linkerd").unwrap())
    }

    fn config(prepared: &Prepared, pod: &Pod<'_>) -> Config {
        let layers = Layers {
            namespace: None,
            pod,
            workload: None,
        };
        Config::effective(prepared, &layers)
    }

    fn patch(prepared: &Prepared, template: &Value, redirection: Redirection) -> Value {
        let pod = Pod::new(template);
        let config = config(prepared, &pod);
        let shape = Shape::new(prepared, &config, &pod, redirection, false).unwrap();
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
        for round in 0..3 {
            // One set of values more than is kept, so that some are made again.
            for user in 1..=KEPT + 1 {
                for redirection in [Redirection::InitContainer, Redirection::Cni, Redirection::None] {
                    let template = template(user, 80 + round);
                    let fresh = patch(&prepared(document), &template, redirection);
                    assert_eq!(patch(&warm, &template, redirection), fresh);
                }
            }
        }
        assert_eq!(warm.kept.lock().unwrap().len(), KEPT);
    }

    #[test]
    fn pods_with_the_same_values_share_what_is_made() {
        let prepared = prepared("linkerdVersion: v1");
        let made = |user| {
            let template = template(user, 80);
            prepared.made(&config(&prepared, &Pod::new(&template)))
        };
        let first = made(1);
        assert!(!Arc::ptr_eq(&first, &made(2)));
        assert!(Arc::ptr_eq(&first, &made(1)));
    }

    #[test]
    fn a_shared_token_is_the_pods_own() {
        let prepared = prepared("linkerdVersion: v1\nidentity: {serviceAccountTokenProjection: false}");
        let mount = |name| {
            let mount = json!({"name": name, "mountPath": proxy::SERVICE_ACCOUNT});
            let template = json!({"spec": {"containers": [{"volumeMounts": [mount]}]}});
            let pod = Pod::new(&template);
            let config = config(&prepared, &pod);
            let parts = prepared.made(&config).parts(&config, &pod, Redirection::Cni).unwrap();
            parts.proxy["volumeMounts"][1]["name"].clone()
        };
        assert_eq!(
            (mount("token-x"), mount("token-y")),
            ("token-x".into(), "token-y".into())
        );
    }
}
