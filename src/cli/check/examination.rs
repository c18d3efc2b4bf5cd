//! From what was gathered to the answer.

mod basis;
mod takeover;

use super::attempts::Attempts;
use super::code::Code;
use super::finding::Finding;
use super::gather::access::{self, Who};
use super::gather::{self, Gathered, Part, Wanted, Withheld, handshake};
use super::rules::admission::Webhook;
use super::rules::certificates::Certificates;
use super::rules::cluster::Hosts;
use super::rules::installation::Injector;
use super::rules::permissions::{Needs, ToInstall};
use super::rules::proxies::{History, Running, Today};
use super::rules::workloads::{Judged, Origin};
use super::rules::{
    certificates, cluster, cni, deadlock, installation, network_policies, permissions, pre, probe, proxies, users,
    webhook, workloads,
};
use super::{Answer, Arguments, rules};
use crate::cli::explain::{Entry, Known};
use crate::cli::{describe, live, note_on_terminal};
use crate::config::Installation;
use crate::decide::Coverage;
use crate::decide::coverage::Plugin;
use crate::inject::Redirection;
use crate::policy::pod_security::Defaults;
use anyhow::Result;
use kube::Client;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// How many workloads make somebody wait who looks on.
const MANY: usize = 2000;

/// What decisions depend on.
const DECISIONS: [Part; 6] = [
    Part::Namespaces,
    Part::Nodes,
    Part::Plugins,
    Part::PluginPods,
    Part::Policies,
    Part::Configuration,
];

/// What is said of all workloads depends on these. Where nodes cannot be seen, the decision itself warns.
const WORKLOADS: [Part; 5] = [
    Part::Namespaces,
    Part::Workloads,
    Part::PluginPods,
    Part::Policies,
    Part::Configuration,
];

/// What the decision needs, and what it depends on.
struct Subject<'a> {
    arguments: &'a Arguments,
    client: Client,
    facts: &'a Gathered,
    webhooks: Vec<Webhook<'a>>,
    known: Known,
    /// The chart's defaults where the installation's values cannot be had.
    installation: Installation,
    defaults: Defaults,
}

/// Asks the cluster and judges what it says.
pub(super) async fn examine(arguments: &Arguments) -> Result<Answer> {
    let client = arguments.cluster.client().await?;
    note_on_terminal("asking the cluster…\n");
    let wanted = Wanted {
        namespace: arguments.namespace.as_deref(),
        control_plane: &arguments.control_plane.linkerd_namespace,
        pods: arguments.proxy,
    };
    let facts = Box::pin(gather::gather(&client, wanted)).await?;
    let mut findings = unreadable(&facts);
    let (configured, setup, installation) = basis::configuration(arguments, &facts)?;
    findings.extend(configured);
    let defaults = setup.pod_security.defaults;
    let subject = Subject {
        arguments,
        client,
        facts: &facts,
        webhooks: Webhook::all(facts.webhooks.as_deref().unwrap_or_default()),
        known: basis::known(arguments, &facts, setup)?,
        installation,
        defaults,
    };
    if facts.workloads.len() >= MANY {
        note_on_terminal(&format!("judging {} workloads…\n", facts.workloads.len()));
    }
    let mut changes = None;
    let judged: Vec<_> = facts
        .workloads
        .iter()
        .filter_map(|workload| subject.judge(workload))
        .collect();
    findings.extend(subject.of_cluster(&judged));
    findings.extend(match arguments.pre {
        true => Box::pin(subject.before_installation()).await?,
        false => Box::pin(subject.of_installation()).await?,
    });
    if arguments.pre {
        let (found, changed) = subject.takeover();
        findings.extend(found);
        changes = Some(changed);
    }
    findings.extend(subject.of_workloads(&judged));
    if let Some(ours) = subject.injector() {
        findings = findings
            .into_iter()
            .map(|finding| finding.naming(ours.names()))
            .collect();
    }
    findings.sort_by_key(|finding| finding.code.section());
    Ok(Answer {
        findings,
        workloads: judged,
        changes,
    })
}

/// A line for each list that may not be read. Without namespaces nothing is known of any workload: that is no success.
fn unreadable(facts: &Gathered) -> Vec<Finding> {
    let line = |withheld: &Withheld| {
        let finding = match withheld.need.parts.contains(&Part::Namespaces) {
            true => Finding::failed(Code::NotReadable, withheld.message()),
            false => Finding::unknown(Code::NotReadable, withheld.message()),
        };
        finding.with([withheld.why.clone()])
    };
    facts.withheld.iter().map(line).collect()
}

impl Subject<'_> {
    fn namespaces(&self) -> &[Value] {
        self.facts.namespaces.as_deref().unwrap_or_default()
    }

    /// What could not be read of `parts`.
    fn unseen(&self, parts: &[Part]) -> Vec<&str> {
        gather::unseen(&self.facts.withheld, parts)
    }

    fn judge(&self, workload: &Value) -> Option<Judged> {
        self.known.explain(workload).map(|entry| self.judged(&entry))
    }

    /// The same as if the CNI plugin were as `declared` or, where that says nothing, as the nodes show.
    fn judge_with(&self, workload: &Value, declared: Option<&Coverage>) -> Option<Judged> {
        let entry = self.known.explain_with(workload, declared);
        entry.map(|entry| self.judged(&entry))
    }

    fn judged(&self, entry: &Entry) -> Judged {
        let namespace = self.known.namespace(&entry.namespace);
        let origin = Origin {
            labels: namespace.as_ref().map(|namespace| &namespace.labels),
            default: self.defaults.enforce,
        };
        Judged::of(entry, origin)
    }

    /// What holds before and after an installation.
    fn of_cluster(&self, judged: &[Judged]) -> Vec<Finding> {
        let Gathered { server, nodes, .. } = self.facts;
        let native = self.installation.values.proxy.native_sidecar;
        let mut findings = cluster::judge(&Hosts {
            server: self.facts.release_told.then_some(*server),
            nodes: nodes.as_deref(),
            native,
        });
        if let (false, Some(_), Some(nodes)) = (self.arguments.pre, &self.facts.daemon_sets, nodes) {
            let unredirected: Vec<_> = judged
                .iter()
                .filter(|it| it.outcome == "inject" && it.redirection == Redirection::None)
                .map(Judged::place)
                .collect();
            let declared = self.installation.values.cni_enabled;
            findings.extend(cni::judge(&self.plugins(), nodes, declared, &unredirected));
            let disbelieved = self.known.disbelieved_plugins().into_iter();
            findings.extend(cni::disbelieved(
                disbelieved.map(|(name, why)| format!("{name}: {why}")).collect(),
            ));
        }
        findings
    }

    async fn before_installation(&self) -> Result<Vec<Finding>> {
        let control_plane = &self.arguments.control_plane.linkerd_namespace;
        let levels = pre::levels(self.namespaces(), control_plane, &self.defaults, self.facts.server);
        let mut findings = vec![levels.unless_unseen(&self.unseen(&[Part::Namespaces]))];
        let policies = pre::policies(&self.facts.policies.objects);
        findings.push(policies.unless_unseen(&self.unseen(&[Part::Policies])));
        let workloads = self.facts.workloads.iter();
        let without: Vec<_> = workloads
            .filter_map(|workload| self.judge_with(workload, Some(&Coverage::None)))
            .collect();
        let needed = pre::plugin_needed(&without, &self.plugins());
        findings.push(needed.unless_unseen(&self.unseen(&WORKLOADS)));
        let ToInstall { needed, optional } = permissions::to_install(control_plane, self.facts.server.release);
        let needed = access::ask(&self.client, Who::Me, needed).await?;
        let optional = access::ask(&self.client, Who::Me, optional).await?;
        findings.push(permissions::install(&needed, &optional));
        Ok(findings)
    }

    async fn of_installation(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        if let Some(deployments) = &self.facts.deployments {
            findings.extend(installation::judge(deployments, env!("CARGO_PKG_VERSION")));
            findings.extend(self.rights().await);
        }
        findings.extend(certificates::judge(&self.certificates().await));
        if self.facts.webhooks.is_some() {
            let registration = webhook::Registration {
                webhooks: &self.webhooks,
                namespaces: self.namespaces(),
                release: self.facts.server.release,
                endpoints: self.facts.endpoints,
                whose: rules::takeover::registered(&self.webhooks, self.backends()),
            };
            findings.extend(webhook::judge(&registration));
            let unseen = self.unseen(&[Part::Injector, Part::Plugins]);
            let essential = self.essential();
            findings.extend(deadlock::judge(&self.webhooks, self.namespaces(), &essential, &unseen));
        }
        findings.extend(probe::judge(self.known.probe_standing()));
        let attempts = Attempts {
            client: &self.client,
            known: &self.known,
            webhooks: &self.webhooks,
            sees_all: self.unseen(&DECISIONS).is_empty(),
        };
        let here = |namespace: &&Value| {
            let wanted = self.arguments.namespace.as_deref();
            wanted.is_none_or(|wanted| namespace.pointer("/metadata/name").is_some_and(|it| it == wanted))
        };
        let namespaces = self.namespaces().iter().filter(here).collect();
        findings.extend(Box::pin(attempts.make(namespaces)).await);
        Ok(findings)
    }

    /// The Deployment of our webhook.
    fn injector(&self) -> Option<Injector<'_>> {
        let deployments = self.facts.deployments.iter().flatten();
        deployments
            .filter_map(Injector::read)
            .find(|injector| injector.is_ours())
    }

    /// What must start before the webhook can.
    fn essential(&self) -> Vec<&Value> {
        let deployments = self.facts.deployments.iter().flatten();
        let injectors = deployments.filter(|it| Injector::read(it).is_some());
        injectors.chain(self.plugins()).collect()
    }

    /// The `DaemonSets` of the CNI plugin, but for those that are not believed to be of it.
    fn plugins(&self) -> Vec<&Value> {
        let disbelieved = self.known.disbelieved_plugins();
        let is_believed = |plugin: Plugin| !disbelieved.contains_key(plugin.name.as_str());
        let all = self.facts.daemon_sets.iter().flatten();
        all.filter(|daemon_set| Plugin::read(daemon_set).is_some_and(is_believed))
            .collect()
    }

    /// What the webhook's account may do; nothing where one may not ask for another.
    async fn rights(&self) -> Option<Finding> {
        let ours = self.injector()?;
        let (namespace, name) = ours.account()?;
        // Where the values say that every node has the plugin, nobody looks at its pods.
        let plugins = match self.installation.values.cni_enabled {
            true => BTreeSet::new(),
            false => live::plugin_places(self.plugins()),
        };
        let rights = permissions::of_webhook(&Needs {
            control_plane: namespace,
            registration: ours.registration(),
            secret: ours.secret().filter(|_| ours.manages_certificate()),
            plugins: &plugins.into_iter().map(|place| place.namespace).collect(),
            served: &self.facts.policies.served,
        });
        let account = format!("{namespace}/{name}");
        Some(
            match access::ask(&self.client, Who::Account(namespace, name), rights).await {
                Ok(answers) => permissions::webhook(&account, &answers),
                Err(error) => {
                    let message = format!("what {account} may do cannot be asked: {}", describe(&error));
                    Finding::unknown(Code::NotReadable, message)
                }
            },
        )
    }

    async fn certificates(&self) -> Certificates {
        let injector = self.webhooks.iter().find(|webhook| webhook.is_injector());
        let host = injector.and_then(|it| it.target()?.host());
        let address = self
            .arguments
            .webhook_address
            .as_ref()
            .or(self.facts.service_address.as_ref());
        let presented = match (address, &host) {
            (Some(address), Some(host)) => Some(Box::pin(handshake::present(address, host)).await),
            _ => None,
        };
        let anchors = self.installation.trust_anchors.trim();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Certificates {
            bundle: injector.map(|it| it.ca_bundle().unwrap_or_default().to_owned()),
            host,
            secret: self.facts.secret.clone(),
            presented,
            anchors: (anchors != Installation::PLACEHOLDER && !anchors.is_empty()).then(|| anchors.to_owned()),
            now: now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX)),
        }
    }

    fn of_workloads(&self, judged: &[Judged]) -> Vec<Finding> {
        let unseen = self.unseen(&WORKLOADS);
        let workloads = workloads::judge(judged, &self.webhooks, self.namespaces());
        let mut findings: Vec<_> = workloads.into_iter().map(|it| it.unless_unseen(&unseen)).collect();
        findings.extend(users::judge(judged));
        if let Some(policies) = &self.facts.network_policies {
            let port = u16::try_from(self.installation.values.proxy.ports.inbound).unwrap_or_default();
            let unseen = self.unseen(&[Part::Namespaces, Part::Workloads]);
            let policies = network_policies::judge(policies, judged, port);
            findings.extend(policies.into_iter().map(|it| it.unless_unseen(&unseen)));
        }
        if let Some(pods) = &self.facts.pods {
            findings.extend(self.proxies(pods));
        }
        findings
    }

    fn proxies(&self, pods: &[(Running, Option<Value>)]) -> Vec<Finding> {
        let running: Vec<_> = pods.iter().map(|(running, _)| running).collect();
        let today = pods.iter().enumerate().filter_map(|(index, (_, whole))| {
            let judged = self.judge(whole.as_ref()?)?;
            Some((index, Today::of(&judged)))
        });
        let today: Vec<_> = today.collect();
        let injector = self.webhooks.iter().find(|webhook| webhook.is_injector());
        let history = |namespace: &str| History {
            registered: injector.and_then(Webhook::created),
            asks_since: self.facts.asks_since.get(namespace).map(String::as_str),
            fails_closed: injector.is_some_and(Webhook::fails_closed),
        };
        let version = self.installation.values.proxy_version();
        let version = Some(version).filter(|version| *version != Installation::PLACEHOLDER);
        let unseen = self.unseen(&[Part::Namespaces]);
        let findings = proxies::judge(&running, &today, version, history).into_iter();
        let told = findings.map(|finding| match finding.code == Code::ProxiesPresent {
            true => finding.unless_unseen(&unseen),
            false => finding,
        });
        told.collect()
    }
}
