//! `outrigger egress`: which hosts outside of the cluster workloads may reach, by the policies of manifests.

use super::Verdict;
use super::installation;
use super::manifests::Manifests;
use super::objects::Object;
use crate::egress::compile::GLOBAL_NAMESPACE;
use crate::egress::policy::PolicyError;
use crate::egress::{Policies, Policy};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;

mod check;
mod compile;
mod observe;

pub(super) use compile::service;

/// What `egress` does.
#[derive(Subcommand, Clone, Debug)]
pub(super) enum Action {
    /// Tell whether a workload would reach a host, and by which policy
    Check(check::Arguments),
    /// Print what Linkerd's proxies are told, for kubectl apply, and what becomes of each policy
    Compile(compile::Arguments),
    /// Turn a log of decisions into policies
    Observe(observe::Arguments),
}

/// What of a cluster policies are compiled for.
#[derive(Args, Clone, Debug)]
pub(super) struct Place {
    #[arg(
        long,
        value_name = "NAME",
        default_value = GLOBAL_NAMESPACE,
        value_parser = installation::namespace,
        help = "Namespace whose EgressNetworks hold where a namespace has none: egress.globalEgressNetworkNamespace of \
                Linkerd's values"
    )]
    pub(super) global_namespace: String,
    /// Network of the cluster's pods, Services or nodes; may be repeated. With one, pods of an allowlist that the gateway
    /// enforces get a NetworkPolicy that leaves them these networks and the gateway
    #[arg(long, value_name = "CIDR")]
    pub(super) cluster_network: Vec<IpNet>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Does it.
pub(super) fn run(action: &Action) -> Result<Verdict> {
    match action {
        Action::Check(arguments) => check::run(arguments),
        Action::Compile(arguments) => compile::run(arguments),
        Action::Observe(arguments) => observe::run(arguments),
    }
}

/// The policies of manifests.
struct Read {
    policies: Policies,
    /// Policies that are none, each as messages have it.
    errors: Vec<PolicyError>,
    /// Everything that the manifests hold.
    objects: Vec<Object>,
}

/// Reads the policies of `manifests`; those without a namespace are in `namespace`.
fn read(manifests: &Manifests, namespace: &str) -> Result<Read> {
    let objects = manifests.objects()?;
    let (mut policies, mut errors) = (Vec::new(), Vec::new());
    for object in &objects {
        match Policy::read(&object.value, namespace) {
            Some(Ok(policy)) => policies.push(policy),
            Some(Err(error)) => errors.push(PolicyError {
                object: format!("{}: {}", object.place, error.object),
                ..error
            }),
            None => {}
        }
    }
    if policies.is_empty() && errors.is_empty() {
        super::note(&format!("there are no policies in {}\n", manifests.names()));
    }
    Ok(Read {
        policies: Policies::new(policies),
        errors,
        objects,
    })
}
