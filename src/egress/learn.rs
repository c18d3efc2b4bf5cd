//! A log of decisions, turned into policies: what went out although no policy lists it, and nothing more. No wildcard is
//! made of names.

use super::connection::Traffic;
use super::host::HostPattern;
use super::policy::{GROUP, KIND, VERSION};
use super::record::Record;
use super::ruling::{Outcome, Reason};
use super::spec::{Placement, Port, Protocol, Spec, Switch, Tls, TlsMode, Workloads};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

/// For whom policies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One service account each, enforced by the gateway.
    ServiceAccount,
    /// All of a namespace, enforced by the proxies.
    Namespace,
}

/// What a log was turned into.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// `EgressPolicy` objects.
    pub policies: Vec<Value>,
    /// How many lines no policy was made of, by why they were closed or would be.
    pub left: BTreeMap<&'static str, usize>,
}

/// The ports of a destination, with what TLS is to be there.
type Ports = (Option<TlsMode>, BTreeSet<(NonZeroU16, Protocol)>);

/// What a workload reached, by destination and by what TLS is to be there.
type Destinations = BTreeMap<(String, Option<TlsMode>), Ports>;

/// Makes policies of `records`.
pub fn learn<'r>(records: impl IntoIterator<Item = &'r Record>, scope: Scope) -> Learned {
    let mut learned = Learned::default();
    // By namespace and account.
    let mut seen: BTreeMap<(&str, &str), Destinations> = BTreeMap::new();
    for record in records {
        let Some((destination, protocol, tls)) = destination(record) else {
            if record.reason != Reason::Listed {
                *learned.left.entry(record.reason.code()).or_default() += 1;
            }
            continue;
        };
        let account = match scope {
            Scope::ServiceAccount => record.service_account.as_str(),
            Scope::Namespace => "",
        };
        let of = seen.entry((&record.namespace, account)).or_default();
        let ports = of.entry((destination, tls)).or_insert_with(|| (tls, BTreeSet::new()));
        ports.1.insert((record.port, protocol));
    }
    for ((namespace, account), destinations) in seen {
        // Destinations with the same ports share a policy.
        let mut groups: BTreeMap<(bool, Ports), Vec<String>> = BTreeMap::new();
        for ((destination, _), ports) in destinations {
            let is_address = ports.1.iter().all(|(_, protocol)| protocol.is_opaque());
            groups.entry((is_address, ports)).or_default().push(destination);
        }
        for (number, ((is_address, ports), destinations)) in (1..).zip(groups) {
            let spec = spec_of(account, is_address, ports, destinations);
            let name = if account.is_empty() {
                "observed".to_owned()
            } else {
                format!("{account}-observed")
            };
            learned.policies.push(json!({
                "apiVersion": format!("{GROUP}/{VERSION}"),
                "kind": KIND,
                "metadata": {"name": format!("{name}-{number}"), "namespace": namespace},
                "spec": spec,
            }));
        }
    }
    learned
}

/// What a policy has to list for a connection like this; nothing where it is listed, was closed for another reason than
/// that it is not, or shows a name that no policy can list.
fn destination(record: &Record) -> Option<(String, Protocol, Option<TlsMode>)> {
    let is_unlisted = matches!(
        record.reason,
        Reason::NoPolicy
            | Reason::NoAllowlist
            | Reason::HostNotListed
            | Reason::AddressNotListed
            | Reason::NameMissing
            | Reason::PortNotListed
    );
    if !is_unlisted || record.outcome == Outcome::Denied {
        return None;
    }
    let Some(host) = &record.host else {
        let protocol = if record.traffic == Traffic::Udp {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        return record.address.map(|address| (address.to_string(), protocol, None));
    };
    let (protocol, tls) = match record.traffic {
        Traffic::Http => (Protocol::Http, None),
        Traffic::Http2 => (Protocol::Http2, Some(TlsMode::Optional)),
        Traffic::Grpc => (Protocol::Grpc, Some(TlsMode::Optional)),
        Traffic::Tls => (Protocol::Detect, None),
        // What is opaque shows no name.
        Traffic::Tcp | Traffic::Udp => return None,
    };
    // What search domains complete is listed by no policy.
    let pattern = HostPattern::parse(&host.to_string()).ok()?;
    Some((pattern.to_string(), protocol, tls))
}

fn spec_of(account: &str, is_address: bool, (tls, ports): Ports, destinations: Vec<String>) -> Spec {
    let (hosts, addresses) = if is_address {
        (Vec::new(), destinations)
    } else {
        (destinations, Vec::new())
    };
    let is_whole = account.is_empty();
    Spec {
        workloads: (!is_whole).then(|| Workloads {
            service_accounts: vec![account.to_owned()],
            pod_selector: None,
        }),
        hosts,
        addresses,
        ports: ports
            .into_iter()
            .map(|(port, protocol)| Port { port, protocol })
            .collect(),
        allowlist: Switch(true),
        tls: tls.map(|mode| Tls {
            mode: Some(mode),
            origination: None,
        }),
        placement: if is_whole {
            Placement::Client
        } else {
            Placement::Gateway
        },
        ..Spec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Policy;

    fn record(fields: Value) -> Record {
        let mut line = json!({
            "time": "2026-01-01T00:00:00Z", "namespace": "agents", "serviceAccount": "agent", "port": 443,
            "traffic": "tls", "outcome": "observed", "reason": "host_not_listed", "level": "info",
        });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn what_went_out_unlisted_is_listed() {
        let records = [
            record(json!({"host": "api.github.com"})),
            record(json!({"host": "api.github.com"})),
            record(json!({"host": "github.com"})),
            record(json!({"host": "mirror.example", "port": 80, "traffic": "http"})),
            record(json!({"host": "rpc.example", "traffic": "grpc"})),
            record(json!({"address": "203.0.113.7", "port": 5432, "traffic": "tcp", "reason": "name_missing"})),
            record(json!({"host": "redis"})),
            record(json!({"host": "listed.example", "outcome": "allowed", "reason": "listed"})),
            record(json!({"host": "evil.example", "outcome": "denied"})),
            record(json!({"address": "169.254.169.254", "port": 80, "traffic": "http", "reason": "metadata_address"})),
        ];
        let learned = learn(&records, Scope::ServiceAccount);
        let specs: Vec<_> = learned.policies.iter().map(|policy| &policy["spec"]).collect();
        let hosts: Vec<_> = specs.iter().map(|spec| spec["hosts"].clone()).collect();
        let lists = [
            json!(["mirror.example"]),
            json!(["api.github.com", "github.com"]),
            json!(["rpc.example"]),
            Value::Null,
        ];
        for list in &lists {
            assert!(hosts.contains(list), "{list} of {hosts:?}");
        }
        assert_eq!(specs.len(), lists.len());
        assert!(specs.iter().any(|spec| spec["addresses"] == json!(["203.0.113.7"])));
        assert_eq!(
            learned.left,
            BTreeMap::from([("host_not_listed", 2), ("metadata_address", 1)])
        );
        // Each is a policy that its placement takes.
        for scope in [Scope::ServiceAccount, Scope::Namespace] {
            for object in learn(&records, scope).policies {
                let policy = Policy::read(&object, "default")
                    .unwrap()
                    .unwrap_or_else(|error| panic!("{error}"));
                assert!(scope == Scope::ServiceAccount || policy.workloads.is_none());
                assert!(policy.allowlist);
            }
        }
    }
}
