//! Live workloads as `kubectl` has them named: `TYPE/NAME…`, `TYPE NAME…`, or `TYPE[,TYPE…]` for all of them.

use crate::cli::live::Resource;
use crate::cli::live::resource::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS,
};
use crate::cli::names::is_subdomain;
use crate::pod::workload::Kind;
use anyhow::{Result, anyhow, bail, ensure};
use std::path::Path;

/// A type of objects whose pods can be explained.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) kind: Kind,
    pub(super) resource: Resource,
    /// Its API group; of each the version is `v1`.
    group: &'static str,
    /// What people type; empty where there is no such name.
    short: &'static str,
}

/// What `kubectl` has for all of them.
const ALL: &str = "all";

static TYPES: [Type; 9] = [
    known(Kind::Pod, PODS, "", "po"),
    known(Kind::ReplicationController, REPLICATION_CONTROLLERS, "", "rc"),
    known(Kind::Deployment, DEPLOYMENTS, "apps", "deploy"),
    known(Kind::ReplicaSet, REPLICA_SETS, "apps", "rs"),
    known(Kind::DaemonSet, DAEMON_SETS, "apps", "ds"),
    known(Kind::StatefulSet, STATEFUL_SETS, "apps", "sts"),
    known(Kind::Job, JOBS, "batch", ""),
    known(Kind::CronJob, CRON_JOBS, "batch", "cj"),
    known(Kind::Service, SERVICES, "", "svc"),
];

const fn known(kind: Kind, resource: Resource, group: &'static str, short: &'static str) -> Type {
    Type {
        kind,
        resource,
        group,
        short,
    }
}

/// Which objects are meant.
#[derive(Debug)]
pub(super) enum Selection {
    /// These.
    Named(Vec<(&'static Type, String)>),
    /// All of these types.
    Listed(Vec<&'static Type>),
}

impl Type {
    /// The type of objects of `kind`.
    pub(super) fn of(kind: Kind) -> Option<&'static Self> {
        TYPES.iter().find(|known| known.kind == kind)
    }

    /// Whether `text` names it: plural, singular or short, alone or with its group, and its version before that.
    fn is_called(&self, text: &str) -> bool {
        let (name, rest) = text.split_once('.').unwrap_or((text, self.group));
        let of_group = rest == self.group || rest.strip_prefix("v1.") == Some(self.group);
        of_group && !name.is_empty() && [self.resource.plural, self.kind.lower_case(), self.short].contains(&name)
    }
}

impl Selection {
    /// Reads arguments, of which there is one at least.
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let with_slash = arguments.iter().filter(|argument| argument.contains('/')).count();
        let (Some((first, names)), true) = (arguments.split_first(), with_slash == 0) else {
            ensure!(
                with_slash == arguments.len(),
                "either each argument is TYPE/NAME, or none is: {}",
                arguments.join(" ")
            );
            return Ok(Self::Named(
                arguments.iter().map(|it| named(it)).collect::<Result<_>>()?,
            ));
        };
        let types = types(first).map_err(|error| unless_file(first, error))?;
        if names.is_empty() {
            return Ok(Self::Listed(types));
        }
        ensure!(
            !all_are_meant(first),
            "{ALL} takes no names: say of which type {} is",
            names.join(", ")
        );
        let each = types
            .iter()
            .flat_map(|known| names.iter().map(|name| Ok((*known, checked(name)?))));
        Ok(Self::Named(each.collect::<Result<_>>()?))
    }
}

/// `TYPE/NAME`
fn named(argument: &str) -> Result<(&'static Type, String)> {
    let (of_type, name) = argument.split_once('/').unwrap_or_default();
    let found = types(of_type).map_err(|error| unless_file(argument, error))?;
    match found.as_slice() {
        [known] => Ok((known, checked(name)?)),
        _ => bail!("{argument}: a name has one type"),
    }
}

/// `error`, or what is wrong with an argument that is a file.
fn unless_file(argument: &str, error: anyhow::Error) -> anyhow::Error {
    match Path::new(argument).exists() {
        true => anyhow!("{argument}: manifests are given with -f"),
        false => error,
    }
}

/// A name goes into the path of a request: nothing else may.
fn checked(name: &str) -> Result<String> {
    ensure!(is_subdomain(name), "{name:?} is no name of an object");
    Ok(name.to_owned())
}

fn all_are_meant(text: &str) -> bool {
    text.split(',').any(|part| part.eq_ignore_ascii_case(ALL))
}

/// `TYPE[,TYPE…]`
fn types(text: &str) -> Result<Vec<&'static Type>> {
    if all_are_meant(text) {
        return Ok(TYPES.iter().collect());
    }
    let find = |part: &str| {
        let called = part.to_ascii_lowercase();
        let found = TYPES.iter().find(|known| known.is_called(&called));
        found.ok_or_else(|| {
            anyhow!(
                "{part:?} is no type whose pods can be explained; expected {}",
                expected()
            )
        })
    };
    let mut found: Vec<&Type> = Vec::new();
    for part in text.split(',') {
        let known = find(part)?;
        if !found.iter().any(|it| it.kind == known.kind) {
            found.push(known);
        }
    }
    Ok(found)
}

fn expected() -> String {
    let names = TYPES.iter().map(|known| match known.short {
        "" => known.resource.plural.to_owned(),
        short => format!("{} ({short})", known.resource.plural),
    });
    format!("{}, or {ALL}", names.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> Result<Vec<String>> {
        let arguments: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
        Ok(match Selection::parse(&arguments)? {
            Selection::Named(all) => all
                .iter()
                .map(|(known, name)| format!("{}/{name}", known.resource.plural))
                .collect(),
            Selection::Listed(all) => all.iter().map(|known| known.resource.plural.to_owned()).collect(),
        })
    }

    #[test]
    fn types_have_the_names_that_kubectl_knows() {
        for (arguments, expected) in [
            ("deploy/web", "deployments/web"),
            ("Deployment web", "deployments/web"),
            ("deployments.apps/web", "deployments/web"),
            ("deployments.v1.apps/web sts/db", "deployments/web statefulsets/db"),
            ("po a b.c", "pods/a pods/b.c"),
            ("deploy,sts web", "deployments/web statefulsets/web"),
            ("cj", "cronjobs"),
            ("rc,svc,rc", "replicationcontrollers services"),
            (
                "all",
                "pods replicationcontrollers deployments replicasets daemonsets statefulsets jobs cronjobs services",
            ),
        ] {
            assert_eq!(read(arguments).unwrap().join(" "), expected, "{arguments}");
        }
    }

    #[test]
    fn other_arguments_are_said_to_be_none() {
        for (arguments, expected) in [
            (
                "rollout/web",
                "\"rollout\" is no type whose pods can be explained; expected pods (po), ",
            ),
            ("", "\"\" is no type"),
            ("deploy,", "\"\" is no type"),
            ("deployments.extensions/web", "is no type"),
            ("jobs.apps/web", "is no type"),
            (".apps", "is no type"),
            ("deploy/", "\"\" is no name of an object"),
            ("deploy/a/b", "\"a/b\" is no name of an object"),
            ("deploy/..", "\"..\" is no name of an object"),
            ("deploy a%2fb", "\"a%2fb\" is no name of an object"),
            ("deploy A", "\"A\" is no name of an object"),
            (
                "deploy/web db",
                "either each argument is TYPE/NAME, or none is: deploy/web db",
            ),
            ("deploy,sts/web", "deploy,sts/web: a name has one type"),
            ("all web", "all takes no names: say of which type web is"),
            ("all/web", "all/web: a name has one type"),
            ("Cargo.toml", "Cargo.toml: manifests are given with -f"),
            ("src/lib.rs", "src/lib.rs: manifests are given with -f"),
        ] {
            let error = read(arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
}
