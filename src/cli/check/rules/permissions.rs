//! Who may do what: the account that installs, and the webhook's.

use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::pod::{list, manifest};
use serde_json::Value;
use std::fmt;

/// What the webhook may do is what its manifest says.
const WEBHOOK: &str = include_str!("../../../../webhook-config/rbac.yaml");

/// A right that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Right {
    pub(in crate::cli::check) verb: String,
    /// Empty for the core group.
    pub(in crate::cli::check) group: String,
    pub(in crate::cli::check) resource: String,
    /// The only object that it is about, where it is about one.
    pub(in crate::cli::check) name: Option<String>,
    /// Nothing for all namespaces, or for what has none.
    pub(in crate::cli::check) namespace: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            name,
            namespace,
        } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(name) = name {
            write!(f, "/{name}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// What creating the objects of `webhook-config` and `cni-config` takes, the control plane in `namespace`.
pub(in crate::cli::check) fn to_install(namespace: &str) -> Vec<Right> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    const PLUGIN: &str = "linkerd-cni";
    let created = [
        ("", "serviceaccounts", Some(namespace)),
        ("", "services", Some(namespace)),
        ("", "secrets", Some(namespace)),
        ("apps", "deployments", Some(namespace)),
        (RBAC, "clusterroles", None),
        (RBAC, "clusterrolebindings", None),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", None),
        ("", "namespaces", None),
        ("", "serviceaccounts", Some(PLUGIN)),
        (RBAC, "roles", Some(PLUGIN)),
        (RBAC, "rolebindings", Some(PLUGIN)),
        ("apps", "daemonsets", Some(PLUGIN)),
    ];
    let right = |(group, resource, namespace): (&str, &str, Option<&str>)| Right {
        verb: "create".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: None,
        namespace: namespace.map(str::to_owned),
    };
    created.into_iter().map(right).collect()
}

/// What the webhook's account needs: all that its manifest grants, but for what only some servers have, where this one has
/// no policies of that kind.
pub(in crate::cli::check) fn of_webhook(has_policies: bool) -> Vec<Right> {
    const OPTIONAL: [&str; 3] = ["policy", "security.openshift.io", "rbac.authorization.k8s.io"];
    let documents = manifest::read(WEBHOOK).unwrap_or_default();
    let roles = documents
        .iter()
        .map(|document| &document.value)
        .filter(|object| object.get("kind").is_some_and(|kind| kind == "ClusterRole"));
    let mut rights = Vec::new();
    for rule in roles.flat_map(|role| list(role, "rules")) {
        let texts = |key| list(rule, key).filter_map(Value::as_str);
        let name = texts("resourceNames").next();
        for group in texts("apiGroups").filter(|group| has_policies || !OPTIONAL.contains(group)) {
            for resource in texts("resources") {
                rights.extend(texts("verbs").map(|verb| Right {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    name: name.map(str::to_owned),
                    namespace: None,
                }));
            }
        }
    }
    rights
}

/// Judges whether whoever asks may install: `answers` are those of the API server.
pub(in crate::cli::check) fn install(answers: &[(Right, bool)]) -> Finding {
    let missing: Vec<_> = missing(answers);
    match missing.len() {
        0 => Finding::ok(Code::MayInstall, "you may create all that an installation consists of"),
        number => {
            let message = format!("{} to install are missing", count(number, "right"));
            Finding::failed(Code::MayNotInstall, message).with(missing)
        }
    }
}

/// Judges what the webhook's account may do.
pub(in crate::cli::check) fn webhook(account: &str, answers: &[(Right, bool)]) -> Finding {
    let lacks_namespaces = answers
        .iter()
        .any(|(right, allowed)| !allowed && right.resource == "namespaces");
    let missing = missing(answers);
    if missing.is_empty() {
        let message = format!("{account} may read all that decisions depend on");
        return Finding::ok(Code::WebhookRights, message);
    }
    let message = format!("{account} lacks {}", count(missing.len(), "right"));
    // Without namespaces the webhook never gets ready; all else is unknown to it, and it works.
    match lacks_namespaces {
        true => Finding::failed(Code::WebhookLacksRights, message),
        false => Finding::warning(Code::WebhookLacksRights, message),
    }
    .with(missing)
}

fn missing(answers: &[(Right, bool)]) -> Vec<String> {
    let refused = answers.iter().filter(|(_, allowed)| !allowed);
    refused.map(|(right, _)| right.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;

    #[test]
    fn the_rights_of_the_webhook_are_those_of_its_manifest() {
        let rights: Vec<_> = of_webhook(false).iter().map(Right::to_string).collect();
        for right in [
            "list namespaces",
            "watch daemonsets.apps",
            "get jobs.batch",
            "create events",
            "patch mutatingwebhookconfigurations.admissionregistration.k8s.io/linkerd-proxy-injector-webhook-config",
        ] {
            assert!(rights.contains(&right.to_owned()), "{rights:?}");
        }
        assert!(!rights.iter().any(|right| right.contains("clusterroles")), "{rights:?}");
        assert!(of_webhook(true).len() > rights.len());
    }

    #[test]
    fn what_is_missing_is_named() {
        let answers = |refused: &str| -> Vec<_> {
            let all = of_webhook(false).into_iter();
            all.map(|right| {
                let allowed = right.to_string() != refused;
                (right, allowed)
            })
            .collect()
        };
        assert_eq!(webhook("sa", &answers("")).status, Status::Ok);
        let finding = webhook("sa", &answers("list nodes"));
        assert_eq!(
            (finding.status, finding.details),
            (Status::Warning, vec!["list nodes".to_owned()])
        );
        assert_eq!(webhook("sa", &answers("watch namespaces")).status, Status::Failed);
        let all = to_install("mesh");
        let refused: Vec<_> = all.into_iter().map(|right| (right, false)).collect();
        let finding = install(&refused);
        assert!(finding.details.contains(&"create deployments.apps in mesh".to_owned()));
        assert_eq!(install(&[]).status, Status::Ok);
    }
}
