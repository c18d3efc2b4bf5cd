//! Everything that injection adds to one pod with one redirection.

use super::container::EnvVar;
use super::env::{self, Source};
use super::patch::Patch;
use super::{Metadata, PROXY_INIT, Redirection, debug, proxy, proxy_init, validator, volumes};
use crate::config::{Config, Installation};
use crate::pod::{Additions, Pod, container_name};
use serde::Serialize;
use serde_json::{Map, Value};

/// What injection adds with one redirection.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// How traffic reaches the proxy.
    pub redirection: Redirection,
    /// Whether the proxy is an init container that restarts.
    pub native: bool,
    /// A label that the pod's node must have.
    pub node_selector: Option<(String, String)>,
    first: bool,
    init: Option<Value>,
    /// The proxy without its environment, which no policy reads: that is written for the shape that is chosen alone.
    proxy: Value,
    source: Source<'a>,
    debug: Option<Value>,
    volumes: Vec<Value>,
}

/// Why a shape cannot be made. The sentences are those of Linkerd's templates where those fail too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// `proxy.logHTTPHeaders` is no word of its.
    #[error("logHTTPHeaders must be one of: insecure | off (found {0:?})")]
    LogHttpHeaders(String),
    /// `proxyInit.iptablesMode` is no word of its.
    #[error("Unsupported value {0:?} for proxyInit.iptablesMode\nValid values: [\"nft\", \"legacy\"]")]
    IptablesMode(String),
    /// The connection-tracking timeout needs root.
    #[error("proxyInit.runAsRoot must be set to use proxyInit.closeWaitTimeoutSecs")]
    CloseWaitNeedsRoot,
    /// Tracing lacks a setting.
    #[error("{0} must be set if proxy tracing is enabled")]
    Tracing(&'static str),
    /// The pod has a container or a volume of a name that injection adds; the API server takes each name once.
    #[error("the pod has a {what} named {name}, which injection adds: rename it, or uninject the manifest")]
    NameTaken {
        /// `container` or `volume`.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

impl<'a> Shape<'a> {
    /// The shape of `pod` with `redirection`; with the debug container where `with_debug`. The caller has [`check`]ed
    /// the configuration.
    pub fn new(
        installation: &'a Installation,
        config: &'a Config,
        pod: &'a Pod<'a>,
        redirection: Redirection,
        with_debug: bool,
    ) -> Result<Self, ShapeError> {
        let values = &config.values;
        let init = match redirection {
            Redirection::InitContainer => Some(proxy_init::container(config)?.into_value()),
            Redirection::Cni => Some(validator::container(values).into_value()),
            Redirection::None => None,
        };
        let source = Source {
            installation,
            config,
            pod,
        };
        Ok(Self {
            redirection,
            native: values.proxy.native_sidecar,
            node_selector: None,
            first: values.proxy.r#await,
            init,
            proxy: proxy::container(&source).into_value(),
            source,
            debug: with_debug.then(|| debug::container(values).into_value()),
            volumes: volumes::volumes(values, redirection),
        })
    }

    /// Checks that the names of the additions are free in `pod`.
    pub fn check_names(&self, pod: &Pod<'_>) -> Result<(), ShapeError> {
        let containers: Vec<_> = pod.all_containers().map(container_name).collect();
        let volumes: Vec<_> = pod.volumes().iter().map(|volume| container_name(volume)).collect();
        let own = self.init.iter().chain([&self.proxy]).chain(&self.debug);
        let own = own.map(|container| ("container", container, &containers));
        let mut all = own.chain(self.volumes.iter().map(|volume| ("volume", volume, &volumes)));
        match all.find(|(_, added, taken)| taken.contains(&container_name(added))) {
            Some((what, added, _)) => Err(ShapeError::NameTaken {
                what,
                name: container_name(added).to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// The additions as a view, to judge the candidate that they make.
    pub fn additions(&self) -> Additions<'_> {
        let mut additions = Additions {
            volumes: self.volumes.iter().collect(),
            ..Additions::default()
        };
        let init = self.init.iter();
        if self.native {
            additions.init_first = init.chain([&self.proxy]).collect();
            additions.last = self.debug.iter().collect();
            return additions;
        }
        additions.init_last = init.collect();
        additions.last = self.debug.iter().collect();
        match self.first {
            true => additions.first.push(&self.proxy),
            false => additions.last.push(&self.proxy),
        }
        additions
    }

    /// The patch that gives `object`, whose pod template stands at `prefix`, this shape and `metadata`.
    ///
    /// `template` is the pod or pod template itself.
    pub fn into_patch(self, metadata: &Metadata, template: &Value, prefix: &str) -> Patch {
        let mut patch = Patch::roomy();
        add_metadata(&mut patch, metadata, template, prefix);
        let spec = template.get("spec").filter(|spec| spec.is_object());
        if spec.is_none() {
            patch.add(&format!("{prefix}/spec"), &Map::new());
        }
        let lacks = |list: &str| !spec.and_then(|spec| spec.get(list)).is_some_and(Value::is_array);
        for list in ["volumes", "initContainers"] {
            if lacks(list) && (list == "volumes" || self.init.is_some() || self.native) {
                patch.add(&format!("{prefix}/spec/{list}"), &[(); 0]);
            }
        }
        let volume = format!("{prefix}/spec/volumes/-");
        let init_containers = format!("{prefix}/spec/initContainers");
        let lock = usize::from(self.redirection == Redirection::InitContainer);
        let (lock, others) = self.volumes.split_at(lock.min(self.volumes.len()));
        for lock in lock {
            patch.add(&volume, lock);
        }
        if let Some(init) = &self.init {
            let position = if self.native { "0" } else { "-" };
            patch.add(&format!("{init_containers}/{position}"), init);
        }
        if let Some(debug) = &self.debug {
            patch.add(&format!("{prefix}/spec/containers/-"), debug);
        }
        for added in others {
            patch.add(&volume, added);
        }
        let place = match (self.native, self.first) {
            (true, _) => format!("{init_containers}/{}", usize::from(self.init.is_some())),
            (false, true) => format!("{prefix}/spec/containers/0"),
            (false, false) => format!("{prefix}/spec/containers/-"),
        };
        let proxy = Whole {
            container: &self.proxy,
            env: env::variables(&self.source),
        };
        patch.add(&place, &proxy);
        if let Some((key, value)) = self.node_selector {
            let entries = [(key, value)].into_iter().collect();
            patch.add_entries(&format!("{prefix}/spec"), ("nodeSelector", spec), &entries);
        }
        patch
    }

    /// Whether the shape holds `linkerd-init`.
    pub fn has_proxy_init(&self) -> bool {
        self.init
            .as_ref()
            .is_some_and(|init| init.get("name").and_then(Value::as_str) == Some(PROXY_INIT))
    }
}

/// A container with its environment.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    container: &'a Value,
    env: Vec<EnvVar<'a>>,
}

/// The patch that gives a template `metadata` and nothing else.
pub fn metadata_patch(metadata: &Metadata, template: &Value, prefix: &str) -> Patch {
    let mut patch = Patch::default();
    add_metadata(&mut patch, metadata, template, prefix);
    patch
}

fn add_metadata(patch: &mut Patch, metadata: &Metadata, template: &Value, prefix: &str) {
    let path = format!("{prefix}/metadata");
    let present = template.get("metadata").filter(|metadata| metadata.is_object());
    if present.is_none() {
        patch.add(&path, &Map::new());
    }
    patch.add_entries(&path, ("annotations", present), &metadata.annotations);
    patch.add_entries(&path, ("labels", present), &metadata.labels);
}

/// Checks what stands in the way of every shape.
pub fn check(config: &Config) -> Result<(), ShapeError> {
    let proxy = &config.values.proxy;
    if !matches!(proxy.log_http_headers.as_str(), "insecure" | "off" | "") {
        return Err(ShapeError::LogHttpHeaders(proxy.log_http_headers.clone()));
    }
    let collector = &proxy.tracing.collector;
    let needed = [
        (&collector.endpoint, "proxy.tracing.collector.endpoint"),
        (
            &collector.mesh_identity.service_account_name,
            "proxy.tracing.collector.meshIdentity.serviceAccountName",
        ),
        (
            &collector.mesh_identity.namespace,
            "proxy.tracing.collector.meshIdentity.namespace",
        ),
    ];
    match needed
        .into_iter()
        .find(|(value, _)| proxy.tracing.enabled && value.is_empty())
    {
        Some((_, key)) => Err(ShapeError::Tracing(key)),
        None => Ok(()),
    }
}
