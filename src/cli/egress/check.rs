//! `egress check`: whether a workload would reach a host.

use super::{Format, Read, read};
use crate::cli::manifests::Manifests;
use crate::cli::paint::{Tone, stdout_paint};
use crate::cli::table::Table;
use crate::cli::{Failure, Verdict, installation, print, warn};
use crate::egress::policy::{HTTP, HTTPS};
use crate::egress::spec::Placement;
use crate::egress::{Connection, Decision, Host, Outcome, Traffic, Workload};
use crate::pod::manifest;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// Arguments of `egress check`.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Arguments {
    /// Host to reach, with its port [default: 443]
    #[arg(value_name = "HOST[:PORT]", value_parser = Destination::parse)]
    destination: Destination,
    #[command(flatten)]
    manifests: Manifests,
    /// Namespace of the workload, and of policies that name none
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = installation::namespace)]
    namespace: String,
    /// Its service account
    #[arg(long, value_name = "NAME", default_value = "default")]
    service_account: String,
    /// Labels of its pods
    #[arg(short, long, value_name = "KEY=VALUE,…", default_value = "", value_parser = labels, hide_default_value = true)]
    labels: BTreeMap<String, String>,
    /// What it speaks: http, http2 and grpc are without TLS [default: http on port 80, else tls]
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// text for people, json for machines
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Http,
    Http2,
    Grpc,
    Tls,
    Tcp,
    Udp,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Destination {
    host: Host,
    port: NonZeroU16,
}

/// Decides, and prints. What would be closed is the answer "no".
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let Read { policies, errors, .. } = read(&arguments.manifests, &arguments.namespace)?;
    if !errors.is_empty() {
        let lines: Vec<_> = errors.iter().map(|error| format!("Error: {error}\n")).collect();
        return Err(Failure(lines.concat()).into());
    }
    let warnings: Vec<_> = policies
        .of_namespace(&arguments.namespace)
        .flat_map(|policy| policy.refusals().into_iter().map(move |refusal| (policy, refusal)))
        .map(|(policy, refusal)| {
            let effect = match policy.placement {
                Placement::Client => "does not count",
                Placement::Gateway => "closes what it lists",
            };
            format!("{} {effect}: {}: {}", policy.id, refusal.reason, refusal.message)
        })
        .collect();
    let enforceable = policies.enforceable();
    let workload = arguments.workload();
    let connection = arguments.connection();
    let ruling = enforceable.ruling(&workload);
    let decision = ruling.decide(&connection);
    match arguments.output {
        Format::Json => print(&arguments.json(&connection, &decision, &warnings))?,
        Format::Text => {
            print(&arguments.text(&connection, &decision))?;
            for warning in &warnings {
                warn(warning);
            }
        }
    }
    Ok(match decision.outcome {
        Outcome::Allowed | Outcome::Observed => Verdict::Yes,
        Outcome::Denied => Verdict::No,
    })
}

impl Arguments {
    fn workload(&self) -> Workload {
        Workload {
            namespace: self.namespace.clone(),
            service_account: self.service_account.clone(),
            labels: self.labels.clone(),
        }
    }

    fn connection(&self) -> Connection {
        let Destination { host, port } = self.destination.clone();
        let address = match host {
            Host::Address(address) => Some(address),
            Host::Name(_) => None,
        };
        let traffic = match self.protocol {
            Some(Protocol::Http) => Traffic::Http,
            Some(Protocol::Http2) => Traffic::Http2,
            Some(Protocol::Grpc) => Traffic::Grpc,
            Some(Protocol::Tcp) => Traffic::Tcp,
            Some(Protocol::Udp) => Traffic::Udp,
            None if port == HTTP => Traffic::Http,
            Some(Protocol::Tls) | None => Traffic::Tls,
        };
        Connection {
            host: host.into(),
            address,
            port,
            traffic,
        }
    }

    fn text(&self, connection: &Connection, decision: &Decision<'_>) -> String {
        let tone = match decision.outcome {
            Outcome::Allowed => Tone::Green,
            Outcome::Observed => Tone::Yellow,
            Outcome::Denied => Tone::Red,
        };
        let policy = decision
            .policy
            .map_or_else(|| "none".to_owned(), |policy| policy.id.to_string());
        let row = [
            self.namespace.as_str(),
            &self.service_account,
            &self.destination.to_string(),
            connection.traffic.word(),
            decision.outcome.word(),
            decision.reason.code(),
            &policy,
        ];
        let head = [
            "NAMESPACE",
            "ACCOUNT",
            "DESTINATION",
            "PROTOCOL",
            "OUTCOME",
            "REASON",
            "POLICY",
        ];
        let mut table = Table::new(&head);
        table.add(row.map(str::to_owned).to_vec(), tone);
        let paint = stdout_paint();
        let said = format!("{}: {}", decision.outcome.word(), decision.reason.meaning());
        format!("{}\n{}", table.render(paint, ""), paint.line(&said, tone))
    }

    fn json(&self, connection: &Connection, decision: &Decision<'_>, warnings: &[String]) -> String {
        let answer = json!({
            "namespace": self.namespace,
            "serviceAccount": self.service_account,
            "host": self.destination.host.to_string(),
            "port": connection.port,
            "protocol": connection.traffic,
            "outcome": decision.outcome,
            "reason": decision.reason,
            "message": decision.reason.meaning(),
            "policy": decision.policy.map(|policy| policy.id.to_string()),
            "warnings": warnings,
        });
        manifest::to_json(&answer)
    }
}

impl Destination {
    /// Reads `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or an address.
    fn parse(text: &str) -> Result<Self> {
        ensure!(
            !text.contains("://"),
            "{text:?} is a URL: expected its host alone, or HOST:PORT"
        );
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = Host::parse(host)?;
        let port = match port {
            Some(port) => port
                .parse()
                .with_context(|| format!("{port:?} is no port: expected 1 to 65535"))?,
            None => HTTPS,
        };
        Ok(Self { host, port })
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Address(address) => std::net::SocketAddr::new(*address, self.port.get()).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// Reads `KEY=VALUE`, any number of them with commas between.
fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| anyhow!("{pair:?} is no label: expected KEY=VALUE"))?;
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            bail!("the label {key} stands twice");
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_as_people_write_them() {
        for (text, expected) in [
            ("API.github.com", "api.github.com:443"),
            ("api.github.com:8443", "api.github.com:8443"),
            ("203.0.113.7", "203.0.113.7:443"),
            ("203.0.113.7:5432", "203.0.113.7:5432"),
            ("2001:db8::1", "[2001:db8::1]:443"),
            ("[2001:db8::1]", "[2001:db8::1]:443"),
            ("[2001:db8::1]:53", "[2001:db8::1]:53"),
        ] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), expected, "{text}");
        }
        for text in [
            "",
            ":443",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "https://a.example",
            "[::1",
            "*.example.com",
        ] {
            assert!(Destination::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn labels_are_pairs() {
        assert_eq!(labels("app=web,tier=").unwrap().len(), 2);
        assert!(labels("app").is_err() && labels("a=1,a=2").is_err());
    }
}
