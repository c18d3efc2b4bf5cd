//! What decisions are made of: the installation's configuration and the cluster, as far as they could be read.

use crate::cli::check::Arguments;
use crate::cli::check::code::Code;
use crate::cli::check::finding::Finding;
use crate::cli::check::gather::{Gathered, Values};
use crate::cli::explain::Known;
use crate::cluster::{Cluster, NodeList};
use crate::config::Installation;
use crate::decide::coverage::Plugin;
use crate::decide::{Coverage, Setup};
use crate::policy::pod_security::Configuration;
use anyhow::{Context, Result};

/// The installation's configuration as far as it can be used: the chart's defaults stand for what cannot.
pub(super) fn configuration(arguments: &Arguments, facts: &Gathered) -> Result<(Option<Finding>, Setup, Installation)> {
    let namespace = &arguments.control_plane.linkerd_namespace;
    let parse = |documents: &[&str]| Installation::parse(documents, facts.anchors.as_deref(), namespace);
    let fallback = || parse(&[]).map(Installation::with_placeholders);
    let overrides = facts.overrides.as_deref().unwrap_or_default();
    let (finding, installation) = match &facts.values {
        Values::Withheld => (None, fallback()),
        Values::Missing => {
            let message = format!("namespace {namespace} has no ConfigMap linkerd-config with values");
            (Some(Finding::failed(Code::LinkerdMissing, message)), fallback())
        }
        Values::Document(values) => match parse(&[values, overrides]).and_then(|it| it.check().map(|()| it)) {
            Ok(installation) => {
                let version = installation.values.proxy_version();
                let message = format!("{namespace}/linkerd-config can be used: proxies are {version}");
                let finding = Finding::ok(Code::LinkerdConfiguration, message);
                (Some(finding), Ok(installation))
            }
            Err(error) => {
                let message = format!("{namespace}/linkerd-config: {error}");
                let installation = parse(&[values, overrides]).map(Installation::with_placeholders);
                let finding = Finding::failed(Code::ConfigurationInvalid, message);
                (Some(finding), installation.or_else(|_| fallback()))
            }
        },
    };
    let installation = installation?;
    match Setup::of(installation.clone()) {
        Ok(setup) => Ok((finding, setup, installation)),
        Err(error) => {
            let message = format!("{namespace}/linkerd-config: outrigger.podSecurity: {error}");
            let setup = Setup {
                installation: installation.clone().into(),
                pod_security: Configuration::default(),
            };
            let finding = Finding::failed(Code::ConfigurationInvalid, message);
            Ok((Some(finding), setup, installation))
        }
    }
}

/// What decisions are made of. Before an installation nobody relies on a plugin that is not there.
pub(super) fn known(arguments: &Arguments, facts: &Gathered, setup: Setup) -> Result<Known> {
    let lists = [&facts.namespaces, &facts.nodes, &facts.daemon_sets];
    let objects = lists.into_iter().flatten().flatten();
    let objects = objects
        .chain(&facts.plugin_pods)
        .chain(&facts.policies.objects)
        .chain(&facts.probe);
    let cluster = Cluster::of_manifests(objects, Some(facts.server)).context("what the cluster says")?;
    for (source, why) in &facts.policies.withheld {
        cluster.withhold(*source, why);
    }
    let lists = [(&facts.nodes, NodeList::Nodes), (&facts.daemon_sets, NodeList::Plugins)];
    for (_, unseen) in lists.into_iter().filter(|(list, _)| list.is_none()) {
        cluster.withhold_nodes(unseen, "they cannot be read");
    }
    let plugins = facts.daemon_sets.iter().flatten().filter_map(Plugin::read);
    let declared = (arguments.pre && plugins.count() == 0).then_some(Coverage::None);
    Ok(Known::of_cluster(cluster, setup, facts.server, declared))
}
