//! Everything that injection adds to one pod with one redirection.

use super::env::WithPorts;
use super::patch::Patch;
use super::prepared::{Made, Parts, Prepared};
use super::{Metadata, Redirection, debug, proxy, volumes};
use crate::config::{Config, quote};
use crate::pod::{Additions, Pod, container_name};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What injection adds with one redirection.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// How traffic reaches the proxy.
    pub redirection: Redirection,
    /// Whether the proxy is an init container that restarts.
    pub native: bool,
    /// A label that the pod's node must have.
    pub node_selector: Option<(String, String)>,
    installation: &'a Prepared,
    made: Arc<Made>,
    pod: &'a Pod<'a>,
    parts: Arc<Parts>,
    debug: Option<Value>,
}

/// Why a shape cannot be made. The sentences are those of Linkerd's templates where those fail too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// `proxy.logHTTPHeaders`, in quotes, is no word of its.
    #[error("logHTTPHeaders must be one of: insecure | off (found {0})")]
    LogHttpHeaders(String),
    /// `proxyInit.iptablesMode`, in quotes, is no word of its.
    #[error("Unsupported value {0} for proxyInit.iptablesMode\nValid values: [\"nft\", \"legacy\"]")]
    IptablesMode(String),
    /// `linkerd-init` of Linkerd's image knows no fence.
    #[error("outrigger.linkerd.io/egress-fence needs Outrigger's own image: set outrigger.image.name of the values")]
    FenceNeedsOwnImage,
    /// The connection-tracking timeout needs root.
    #[error("proxyInit.runAsRoot must be set to use proxyInit.closeWaitTimeoutSecs")]
    CloseWaitNeedsRoot,
    /// The proxy would be root, which the kubelet refuses to start.
    #[error("{0} is 0: the proxy never runs as root; it must be a user ID from 1 to 2147483647")]
    RootProxy(&'static str),
    /// Two volumes would have one name.
    #[error("proxyInit.xtMountPath.name is {0}, which another volume of injection's has")]
    LockName(String),
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
    /// The shape of `pod`, which asks for what was `made`, with `redirection`; with the debug container where
    /// `with_debug`. The caller has [`check`]ed the configuration.
    pub fn new(
        installation: &'a Prepared,
        made: &Arc<Made>,
        pod: &'a Pod<'a>,
        redirection: Redirection,
        with_debug: bool,
    ) -> Result<Self, ShapeError> {
        let values = &made.config().values;
        Ok(Self {
            redirection,
            native: values.proxy.native_sidecar,
            node_selector: None,
            parts: made.parts(pod, redirection)?,
            installation,
            made: Arc::clone(made),
            pod,
            debug: with_debug.then(|| debug::container(values).into_value()),
        })
    }

    /// Checks that the names of the additions are free in `pod`.
    pub fn check_names(&self, pod: &Pod<'_>) -> Result<(), ShapeError> {
        let containers: Vec<_> = pod.all_containers().map(container_name).collect();
        let volumes: Vec<_> = pod.volumes().iter().map(|volume| container_name(volume)).collect();
        let Parts {
            init,
            proxy,
            volumes: added,
            ..
        } = &*self.parts;
        let own = init.iter().map(|init| &init.value).chain([proxy]).chain(&self.debug);
        let own = own.map(|container| ("container", container, &containers));
        let mut all = own.chain(added.iter().map(|volume| ("volume", &volume.value, &volumes)));
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
        let Parts {
            init, proxy, volumes, ..
        } = &*self.parts;
        let mut additions = Additions {
            volumes: volumes.iter().map(|volume| &volume.value).collect(),
            ..Additions::default()
        };
        let init = init.iter().map(|init| &init.value);
        if self.native {
            additions.init_first = init.chain([proxy]).collect();
            additions.last = self.debug.iter().collect();
            return additions;
        }
        additions.init_last = init.collect();
        additions.last = self.debug.iter().collect();
        match self.made.config().values.proxy.r#await {
            true => additions.first.push(proxy),
            false => additions.last.push(proxy),
        }
        additions
    }

    /// The patch that gives `object`, whose pod template stands at `prefix`, this shape and `metadata`.
    ///
    /// `template` is the pod or pod template itself.
    pub fn into_patch(self, metadata: &Metadata, template: &Value, prefix: &str) -> Patch {
        let Parts { init, volumes, .. } = &*self.parts;
        let mut patch = Patch::roomy();
        add_metadata(&mut patch, metadata, template, prefix);
        let spec = template.get("spec").filter(|spec| spec.is_object());
        if spec.is_none() {
            patch.add(&format!("{prefix}/spec"), &Map::new());
        }
        let lacks = |list: &str| !spec.and_then(|spec| spec.get(list)).is_some_and(Value::is_array);
        for list in ["volumes", "initContainers"] {
            if lacks(list) && (list == "volumes" || init.is_some() || self.native) {
                patch.add(&format!("{prefix}/spec/{list}"), &[(); 0]);
            }
        }
        let volume = format!("{prefix}/spec/volumes/-");
        let init_containers = format!("{prefix}/spec/initContainers");
        let lock = usize::from(self.redirection == Redirection::InitContainer);
        let (lock, others) = volumes.split_at(lock.min(volumes.len()));
        for lock in lock {
            patch.add(&volume, &lock.json);
        }
        if let Some(init) = init {
            let position = if self.native { "0" } else { "-" };
            patch.add(&format!("{init_containers}/{position}"), &init.json);
        }
        if let Some(debug) = &self.debug {
            patch.add(&format!("{prefix}/spec/containers/-"), debug);
        }
        for added in others {
            patch.add(&volume, &added.json);
        }
        self.add_proxy(&mut patch, prefix);
        if let Some((key, value)) = self.node_selector {
            let entries = [(key, value)].into_iter().collect();
            patch.add_entries(&format!("{prefix}/spec"), ("nodeSelector", spec), &entries);
        }
        patch
    }

    fn add_proxy(&self, patch: &mut Patch, prefix: &str) {
        let inits = usize::from(self.parts.init.is_some());
        let place = match (self.native, self.made.config().values.proxy.r#await) {
            (true, _) => format!("{prefix}/spec/initContainers/{inits}"),
            (false, true) => format!("{prefix}/spec/containers/0"),
            (false, false) => format!("{prefix}/spec/containers/-"),
        };
        let whole = Whole {
            fields: &self.parts.proxy_fields,
            env: self.made.variables(self.installation).with_ports_of(self.pod),
        };
        patch.add(&place, &whole);
    }
}

/// A container with its environment.
struct Whole<'a> {
    fields: &'a [(String, Box<RawValue>)],
    env: WithPorts<'a>,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut container = serializer.serialize_map(None)?;
        let mut fields = self.fields.iter();
        fields.try_for_each(|(key, value)| container.serialize_entry(key, value))?;
        container.serialize_entry("env", &self.env)?;
        container.end()
    }
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
    let values = &config.values.proxy;
    if !matches!(values.log_http_headers.as_str(), "insecure" | "off" | "") {
        return Err(ShapeError::LogHttpHeaders(quote(&values.log_http_headers)));
    }
    if proxy::user(config) == 0 {
        return Err(ShapeError::RootProxy(match proxy::user_of_context(config) {
            true => "proxy.securityContext.runAsUser",
            false => "proxy.uid",
        }));
    }
    let lock = &config.values.proxy_init.xt_mount_path.name;
    if [volumes::END_ENTITY, volumes::IDENTITY_TOKEN, volumes::PODINFO].contains(&lock.as_str()) {
        return Err(ShapeError::LockName(lock.clone()));
    }
    let collector = &values.tracing.collector;
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
        .find(|(value, _)| values.tracing.enabled && value.is_empty())
    {
        Some((_, key)) => Err(ShapeError::Tracing(key)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
