//! The rules of one pod: ports, user and skip lists from the injected pod itself.
//!
//! What the proxy's container says (environment, ports, security context) comes first, for that is what the proxy
//! really does; then the pod's annotations, into which injectors copy those of the namespace; then the network
//! configuration; then Linkerd's defaults. Lists mean what they mean to the init container: an annotation replaces the
//! configured list, and the proxy's own ports are always reached directly.

use super::call::PodName;
use super::config::{Linkerd, NetworkConfig};
use super::failure::Failure;
use super::fence::fence;
use crate::config::annotation::{CONTROL_PLANE_COMPONENT, PROXY_UID};
use crate::inject::PROXY;
use crate::pod::{Pod, boolean, container_name, integer, list, object, text};
use crate::redirect::apply::{Mode, Options, Wait};
use crate::redirect::{PortList, PortRange, Redirection, SubnetList};
use serde_json::Value;

const SKIP_INBOUND: &str = "config.linkerd.io/skip-inbound-ports";
const SKIP_OUTBOUND: &str = "config.linkerd.io/skip-outbound-ports";
const SKIP_SUBNETS: &str = "config.linkerd.io/skip-subnets";
const PROXY_GID: &str = "config.linkerd.io/proxy-gid";

/// Ports of API servers, which the control plane reaches directly: the service's and the usual one behind it.
const API_PORTS: [u16; 2] = [443, 6443];

/// Linkerd's user of the proxy.
const DEFAULT_UID: i64 = 2102;

/// The rules that a pod is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What they do.
    pub redirection: Redirection,
    /// How they are written.
    pub options: Options,
    /// What people should know all the same, each a sentence.
    pub warnings: Vec<String>,
}

/// The rules of the pod called `name`.
///
/// # Errors
/// Where the pod or the configuration asks for what would leave the pod without network.
pub fn rules(pod: &Pod<'_>, name: &PodName, config: &NetworkConfig<'_>) -> Result<Rules, Failure> {
    let linkerd = config.linkerd();
    let mut source = Source {
        pod,
        proxy: proxy(pod),
        linkerd: &linkerd,
        name,
        warnings: Vec::new(),
    };
    let redirection = source.redirection()?;
    // From outside a user namespace, iptables cannot name the users inside; native rules can.
    let mode = match boolean(pod.spec(), "hostUsers") {
        Some(false) => config.mode().map(|_| Mode::Native)?,
        Some(true) | None => config.mode()?,
    };
    let options = Options {
        mode,
        ipv6: source.ipv6(),
        wait: Wait::default(),
    };
    Ok(Rules {
        redirection,
        options,
        warnings: source.warnings,
    })
}

/// The proxy's container, a native sidecar or not.
fn proxy<'a>(pod: &Pod<'a>) -> Option<&'a Value> {
    let mut containers = pod.init_containers().iter().chain(pod.containers()).copied();
    containers.find(|container| container_name(container) == PROXY)
}

/// Where a pod's rules are read from.
struct Source<'a> {
    pod: &'a Pod<'a>,
    proxy: Option<&'a Value>,
    linkerd: &'a Linkerd,
    name: &'a PodName,
    warnings: Vec<String>,
}

/// A port of the proxy and the places that say it.
struct Port {
    variables: &'static [&'static str],
    declared: &'static str,
    annotation: &'static str,
    key: &'static str,
    default: u16,
}

const INBOUND: Port = Port {
    variables: &["LINKERD2_PROXY_INBOUND_LISTEN_ADDR"],
    declared: "linkerd-proxy",
    annotation: "config.linkerd.io/inbound-port",
    key: "linkerd.incoming-proxy-port",
    default: 4143,
};
const OUTBOUND: Port = Port {
    variables: &[
        "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
        "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR",
    ],
    declared: "",
    annotation: "config.linkerd.io/outbound-port",
    key: "linkerd.outgoing-proxy-port",
    default: 4140,
};
const ADMIN: Port = Port {
    variables: &["LINKERD2_PROXY_ADMIN_LISTEN_ADDR"],
    declared: "linkerd-admin",
    annotation: "config.linkerd.io/admin-port",
    key: "",
    default: 4191,
};
const CONTROL: Port = Port {
    variables: &["LINKERD2_PROXY_CONTROL_LISTEN_ADDR"],
    declared: "",
    annotation: "config.linkerd.io/control-port",
    key: "",
    default: 4190,
};

impl Source<'_> {
    fn redirection(&mut self) -> Result<Redirection, Failure> {
        let own = [self.port(&CONTROL, None)?, self.port(&ADMIN, None)?];
        let fence = fence(self.pod, self.name)?;
        // The fence is open where the pod's author listed a port, and not for the installation's list.
        let mut skip_outbound_ports = match (&fence, self.pod.annotation(SKIP_OUTBOUND)) {
            (Some(_), None) => PortList::default(),
            (None, _) | (_, Some(_)) => self.ports(SKIP_OUTBOUND, &OUTBOUND_LIST)?,
        };
        // Nobody opens a fence by the control plane's label.
        if fence.is_none()
            && self
                .pod
                .label(CONTROL_PLANE_COMPONENT)
                .is_some_and(|component| !component.is_empty())
        {
            skip_outbound_ports = united(&API_PORTS, &skip_outbound_ports);
        }
        Ok(Redirection {
            inbound_port: self.port(&INBOUND, self.linkerd.incoming_proxy_port)?,
            outbound_port: self.port(&OUTBOUND, self.linkerd.outgoing_proxy_port)?,
            proxy_uid: Some(self.uid()?),
            proxy_gid: self.gid()?,
            listed_inbound_ports: self.listed()?,
            skip_inbound_ports: united(&own, &self.ports(SKIP_INBOUND, &INBOUND_LIST)?),
            skip_outbound_ports,
            skip_inbound_subnets: self.subnets()?,
            fence,
            ..Redirection::default()
        })
    }

    /// Where the proxy listens on IPv6, traffic of that family can be redirected; else the configuration decides.
    fn ipv6(&self) -> bool {
        match self.variable("LINKERD2_PROXY_INBOUND_LISTEN_ADDR") {
            Some(address) => address.starts_with('['),
            None => self.linkerd.ipv6.unwrap_or(false),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let variable = list(self.proxy?, "env").find(|variable| text(variable, "name") == Some(name))?;
        text(variable, "value")
    }

    fn port(&self, port: &Port, configured: Option<i64>) -> Result<u16, Failure> {
        let listens = port.variables.iter().find_map(|name| port_of(self.variable(name)?));
        let declared = || {
            let mut ports = list(self.proxy?, "ports");
            let declared = ports.find(|declared| text(declared, "name") == Some(port.declared))?;
            u16::try_from(integer(declared, "containerPort")?).ok()
        };
        let annotated = || self.pod.annotation(port.annotation)?.parse().ok();
        if let Some(found) = listens.or_else(declared).or_else(annotated).filter(|&port| port != 0) {
            return Ok(found);
        }
        let wrong = |value: i64| Failure::Config {
            key: port.key,
            why: format!("{value} is no port; expected 1 to 65535"),
        };
        match configured {
            None => Ok(port.default),
            Some(value) => u16::try_from(value)
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| wrong(value)),
        }
    }

    /// The user that the proxy runs as. Root would exempt everything that runs as root, so it is refused.
    fn uid(&self) -> Result<u32, Failure> {
        let of_container = self.of_container("runAsUser");
        let annotated = match of_container {
            Some(_) => None,
            None => self.annotated_id(PROXY_UID)?,
        };
        let of_pod = || {
            self.pod
                .security_context()
                .and_then(|context| integer(context, "runAsUser"))
        };
        let configured = || self.linkerd.proxy_uid.filter(|&uid| uid > 0);
        let uid = of_container
            .or(annotated)
            .or_else(configured)
            .or_else(of_pod)
            .unwrap_or(DEFAULT_UID);
        id(uid).ok_or_else(|| {
            self.wrong(
                "the proxy's user",
                format!("{uid} cannot be told from others; expected 1 or more"),
            )
        })
    }

    fn gid(&self) -> Result<Option<u32>, Failure> {
        let of_container = self.of_container("runAsGroup");
        let gid = match of_container {
            Some(gid) => Some(gid),
            None => self.annotated_id(PROXY_GID)?.or(self.linkerd.proxy_gid),
        };
        Ok(gid.and_then(id))
    }

    fn of_container(&self, field: &str) -> Option<i64> {
        integer(object(self.proxy?, "securityContext")?, field)
    }

    fn annotated_id(&self, key: &'static str) -> Result<Option<i64>, Failure> {
        let read = |value: &str| {
            value
                .parse()
                .map_err(|_no_number| self.wrong(key, format!("{value:?} is no ID; expected an integer")))
        };
        self.pod.annotation(key).map(read).transpose()
    }

    fn listed(&self) -> Result<Vec<u16>, Failure> {
        let port = |&value: &i64| {
            u16::try_from(value).map_err(|_range| Failure::Config {
                key: "linkerd.ports-to-redirect",
                why: format!("{value} is no port; expected 0 to 65535"),
            })
        };
        self.linkerd.ports_to_redirect.iter().flatten().map(port).collect()
    }

    fn ports(&mut self, annotation: &'static str, configured: &ConfiguredList) -> Result<PortList, Failure> {
        let annotated: Option<Vec<&str>> = self.pod.annotation(annotation).map(|value| value.split(',').collect());
        let key = if annotated.is_some() {
            annotation
        } else {
            configured.key
        };
        let entries = annotated.unwrap_or_else(|| texts((configured.list)(self.linkerd)));
        let parsed = PortList::read(entries).map_err(|error| match key == annotation {
            true => self.wrong(annotation, error.to_string()),
            false => Failure::Config {
                key: configured.key,
                why: error.to_string(),
            },
        })?;
        self.warnings
            .extend(parsed.dropped.iter().map(|error| format!("{key}: ignored {error}")));
        Ok(parsed.list)
    }

    fn subnets(&self) -> Result<SubnetList, Failure> {
        if let Some(annotated) = self.pod.annotation(SKIP_SUBNETS) {
            return SubnetList::parse(annotated).map_err(|error| self.wrong(SKIP_SUBNETS, error.to_string()));
        }
        let list = texts(self.linkerd.subnets_to_ignore.as_ref());
        SubnetList::read(list).map_err(|error| Failure::Config {
            key: "linkerd.subnets-to-ignore",
            why: error.to_string(),
        })
    }

    fn wrong(&self, key: &'static str, why: String) -> Failure {
        Failure::Pod {
            pod: self.name.path(),
            key,
            why,
        }
    }
}

/// A list of the network configuration.
struct ConfiguredList {
    key: &'static str,
    list: fn(&Linkerd) -> Option<&Vec<String>>,
}

const INBOUND_LIST: ConfiguredList = ConfiguredList {
    key: "linkerd.inbound-ports-to-ignore",
    list: |linkerd| linkerd.inbound_ports_to_ignore.as_ref(),
};
const OUTBOUND_LIST: ConfiguredList = ConfiguredList {
    key: "linkerd.outbound-ports-to-ignore",
    list: |linkerd| linkerd.outbound_ports_to_ignore.as_ref(),
};

fn texts(list: Option<&Vec<String>>) -> Vec<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

/// The port of the first of the addresses, `0.0.0.0:4143` or `127.0.0.1:4140,[::1]:4140`.
fn port_of(addresses: &str) -> Option<u16> {
    addresses.split(',').next()?.rsplit_once(':')?.1.parse().ok()
}

/// A user or group that rules can name; 0 is root, and the last number stands for none.
fn id(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|&id| id != 0 && id != u32::MAX)
}

/// `first`, then `list` without what is in `first`.
fn united(first: &[u16], list: &PortList) -> PortList {
    let first: Vec<PortRange> = first.iter().copied().map(PortRange::single).collect();
    let rest = list.ranges().iter().copied().filter(|range| !first.contains(range));
    first.iter().copied().chain(rest).collect()
}

#[cfg(test)]
mod tests;
