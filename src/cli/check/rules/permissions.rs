//! Who may do what: the account that installs, and the webhook's. What each needs is what the charts say.

use super::{name, namespace};
use crate::cli::chart::{CNI, Chart, OLDEST, Target, WEBHOOK};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::pod::{list, text};
use crate::policy::Release;
use crate::policy::installed::Source;
use crate::webhook::options::SERVICE;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// The namespace of the CNI plugin in what is rendered.
const PLUGIN: &str = "linkerd-cni";

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

/// What is needed to install, and what to install that which is optional.
#[derive(Debug)]
pub(in crate::cli::check) struct ToInstall {
    pub(in crate::cli::check) needed: Vec<Right>,
    pub(in crate::cli::check) optional: Vec<Right>,
}

/// Which of the webhook's rights are asked about.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Needs<'a> {
    /// The control plane's namespace.
    pub(in crate::cli::check) control_plane: &'a str,
    /// The name of its registration.
    pub(in crate::cli::check) registration: &'a str,
    /// The Secret of the certificate that the replicas look after themselves, where they do.
    pub(in crate::cli::check) secret: Option<&'a str>,
    /// Where the CNI plugin has pods that the webhook looks at.
    pub(in crate::cli::check) plugins: &'a BTreeSet<String>,
    /// Policies that not every server has, and this one has.
    pub(in crate::cli::check) served: &'a [Source],
}

/// What creating the objects of both charts takes on a server of `release`, the control plane in `namespace`.
pub(in crate::cli::check) fn to_install(namespace: &str, release: Release) -> ToInstall {
    let render = |of_webhook: Value, of_plugin: Value| {
        let mut all = objects(WEBHOOK, of_webhook, namespace, release);
        all.extend(objects(CNI, of_plugin, PLUGIN, release));
        created(&all)
    };
    let needed = render(json!({}), json!({"createNamespace": true, "startupTaint": false}));
    let probe = json!({"probe": {"enabled": true, "namespaces": [namespace]}});
    let mut optional = render(probe, json!({"startupTaint": true}));
    optional.retain(|right| !needed.contains(right));
    ToInstall { needed, optional }
}

/// What creating `objects` takes, once each.
fn created(objects: &[Value]) -> Vec<Right> {
    let mut rights = Vec::new();
    for object in objects {
        let field = |key| text(object, key).unwrap_or_default();
        let group = field("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let place = Some(namespace(object)).filter(|place| !place.is_empty());
        let right = Right::create(group, plural(field("kind")), place.map(str::to_owned));
        if !rights.contains(&right) {
            rights.push(right);
        }
    }
    rights
}

/// What the webhook's account needs: all that the charts bind to it, but for what only some servers have where this one
/// has it not, and for the pods of a plugin that is not there.
pub(in crate::cli::check) fn of_webhook(needs: &Needs<'_>) -> Vec<Right> {
    let certificates = match needs.secret {
        Some(secret) => json!({"mode": "self", "secretName": secret}),
        None => json!({"mode": "secret"}),
    };
    let values = json!({"certificates": certificates});
    let mut objects = objects(WEBHOOK, values, needs.control_plane, Release::NEWEST);
    let values = json!({"linkerdNamespace": needs.control_plane});
    objects.extend(self::objects(CNI, values, PLUGIN, Release::NEWEST));
    let mut rights = Vec::new();
    for binding in objects.iter().filter(|object| is_bound(object, needs.control_plane)) {
        let reference = binding.get("roleRef").unwrap_or(&Value::Null);
        let place = namespace(binding);
        let is_role = |object: &&Value| {
            object.get("kind") == reference.get("kind")
                && text(reference, "name") == Some(name(object))
                && namespace(object) == place
        };
        for rule in objects.iter().filter(is_role).flat_map(|role| list(role, "rules")) {
            match place {
                "" => rights.extend(granted(rule, None)),
                PLUGIN => rights.extend(needs.plugins.iter().flat_map(|place| granted(rule, Some(place)))),
                place => rights.extend(granted(rule, Some(place))),
            }
        }
    }
    let has = |source: Source| needs.served.contains(&source);
    rights.retain(|right| match right.group.as_str() {
        "policy" => has(Source::PodSecurityPolicy),
        "security.openshift.io" => has(Source::Constraint),
        "rbac.authorization.k8s.io" => has(Source::PodSecurityPolicy) || has(Source::Constraint),
        _ => true,
    });
    for right in &mut rights {
        if right.resource == "mutatingwebhookconfigurations" {
            right.name = Some(needs.registration.to_owned());
        }
    }
    rights
}

/// Whether a binding is for the webhook's account.
fn is_bound(object: &Value, control_plane: &str) -> bool {
    let mut subjects = list(object, "subjects");
    subjects.any(|subject| text(subject, "name") == Some(SERVICE) && text(subject, "namespace") == Some(control_plane))
}

/// What a rule of a role grants.
fn granted(rule: &Value, namespace: Option<&str>) -> Vec<Right> {
    let texts = |key| list(rule, key).filter_map(Value::as_str);
    let mut names: Vec<_> = texts("resourceNames").map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for verb in texts("verbs") {
                rights.extend(names.iter().map(|name| Right {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    name: name.map(str::to_owned),
                    namespace: namespace.map(str::to_owned),
                }));
            }
        }
    }
    rights
}

/// The objects of a chart, which tests render too: with what it says where nothing else is said by `values`.
fn objects(chart: Chart, values: Value, namespace: &str, release: Release) -> Vec<Value> {
    let target = Target {
        namespace: namespace.to_owned(),
        release: release.max(OLDEST),
        namespace_object: None,
    };
    let manifests = chart.render(values, &target).unwrap_or_default();
    manifests.into_iter().map(|manifest| manifest.object).collect()
}

/// The resource of a kind that stands in a manifest.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

impl Right {
    fn create(group: &str, resource: String, namespace: Option<String>) -> Self {
        Self {
            verb: "create".to_owned(),
            group: group.to_owned(),
            resource,
            name: None,
            namespace,
        }
    }
}

/// Judges whether whoever asks may install: what the API server says of the rights for that, and of those for what is
/// optional.
pub(in crate::cli::check) fn install(needed: &[(Right, bool)], optional: &[(Right, bool)]) -> Finding {
    let (needed, optional) = (missing(needed), missing(optional));
    let lacks = |rights: &[String]| match rights.len() {
        1 => "1 right is missing".to_owned(),
        number => format!("{number} rights are missing"),
    };
    if !needed.is_empty() {
        let message = format!("{} to install", lacks(&needed));
        return Finding::failed(Code::MayNotInstall, message).with(needed);
    }
    if !optional.is_empty() {
        let message = format!(
            "{} to install what is optional: the probe, or node-restriction.yaml",
            lacks(&optional)
        );
        return Finding::warning(Code::MayNotInstall, message).with(optional);
    }
    Finding::ok(Code::MayInstall, "you may create all that an installation consists of")
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

    fn texts(needs: &Needs<'_>) -> Vec<String> {
        of_webhook(needs).iter().map(Right::to_string).collect()
    }

    fn plain(plugins: &BTreeSet<String>) -> Needs<'_> {
        Needs {
            control_plane: "mesh",
            registration: "ours",
            secret: None,
            plugins,
            served: &[],
        }
    }

    #[test]
    fn the_rights_of_the_webhook_are_those_of_its_manifests() {
        let (nowhere, plugins) = (BTreeSet::new(), ["cni".to_owned()].into());
        let rights = texts(&plain(&nowhere));
        for right in [
            "list namespaces",
            "watch daemonsets.apps",
            "get jobs.batch",
            "create events",
            "list configmaps/outrigger-probe-findings in mesh",
            "get mutatingwebhookconfigurations.admissionregistration.k8s.io/ours",
        ] {
            assert!(rights.contains(&right.to_owned()), "{right}: {rights:?}");
        }
        // Who does not look after its certificate need not write it.
        assert!(
            !rights
                .iter()
                .any(|right| right.contains("secrets") || right.contains("patch mutating")),
            "{rights:?}"
        );
        let managing = texts(&Needs {
            secret: Some("pair"),
            ..plain(&nowhere)
        });
        let more: Vec<_> = managing.iter().filter(|right| !rights.contains(right)).collect();
        let expected = [
            "watch mutatingwebhookconfigurations.admissionregistration.k8s.io/ours",
            "patch mutatingwebhookconfigurations.admissionregistration.k8s.io/ours",
            "get secrets/pair in mesh",
            "watch secrets/pair in mesh",
            "patch secrets/pair in mesh",
        ];
        assert_eq!(more, expected);
        let others = ["clusterroles", "podsecuritypolicies", "securitycontext", " pods"];
        let is_other = |right: &String| others.iter().any(|other| right.contains(other));
        assert!(!rights.iter().any(is_other), "{rights:?}");
        let found = texts(&plain(&plugins));
        let found: Vec<_> = found.iter().filter(|right| is_other(right)).collect();
        assert_eq!(found, ["list pods in cni", "watch pods in cni"]);
        let openshift = Needs {
            served: &[Source::Constraint],
            ..plain(&nowhere)
        };
        let rights = texts(&openshift);
        let has = |part: &str| rights.iter().any(|right| right.contains(part));
        assert!(has("clusterroles") && has("securitycontextconstraints") && !has("podsecuritypolicies"));
    }

    #[test]
    fn what_creating_takes_is_told_by_the_manifests() {
        let of = |release| {
            let ToInstall { needed, optional } = to_install("mesh", Release(release));
            [needed, optional].map(|rights| rights.iter().map(Right::to_string).collect::<Vec<_>>())
        };
        let [needed, optional] = of(36);
        for right in [
            "create deployments.apps in mesh",
            "create roles.rbac.authorization.k8s.io in mesh",
            "create roles.rbac.authorization.k8s.io in linkerd-cni",
            "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "create secrets in mesh",
            "create namespaces",
        ] {
            assert!(needed.contains(&right.to_owned()), "{right}: {needed:?}");
        }
        let policies = "create validatingadmissionpolicies.admissionregistration.k8s.io";
        let expected = [
            "create configmaps in mesh",
            policies,
            "create validatingadmissionpolicybindings.admissionregistration.k8s.io",
        ];
        assert_eq!(optional, expected);
        assert_eq!(of(29), [needed, vec!["create configmaps in mesh".to_owned()]]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = BTreeSet::new();
        let answers = |refused: &str| -> Vec<_> {
            let all = of_webhook(&plain(&nowhere)).into_iter();
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
        let ToInstall { needed, optional } = to_install("mesh", Release(36));
        let answered =
            |rights: Vec<Right>, allowed| rights.into_iter().map(|right| (right, allowed)).collect::<Vec<_>>();
        let (granted, refused) = (answered(needed.clone(), true), answered(needed, false));
        let optional = answered(optional, false);
        assert_eq!(install(&refused, &optional).status, Status::Failed);
        let finding = install(&granted, &optional);
        assert_eq!(
            (finding.status, finding.details.len()),
            (Status::Warning, optional.len())
        );
        assert_eq!(install(&granted, &[]).status, Status::Ok);
    }
}
