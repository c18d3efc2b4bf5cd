//! Before an installation: what would change, what would refuse it, and whether the nodes need the CNI plugin.

use super::name;
use super::workloads::Judged;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::decide::coverage::Plugin;
use crate::inject::Redirection;
use crate::policy::pod_security::{Defaults, Level, NamespacePolicies, Server};
use serde_json::Value;
use std::collections::BTreeMap;

/// The namespace of our CNI plugin.
const PLUGIN_NAMESPACE: &str = "linkerd-cni";

/// Whether the level of the namespaces that are installed into admits the installation: that of the webhook is clean at any
/// level, the CNI plugin's agent needs `privileged`.
pub(in crate::cli::check) fn levels(
    namespaces: &[Value],
    control_plane: &str,
    defaults: &Defaults,
    server: Server,
) -> Finding {
    let level = |wanted: &str| {
        let found = namespaces.iter().find(|namespace| name(namespace) == wanted);
        let labels = found.and_then(|namespace| namespace.pointer("/metadata/labels")?.as_object());
        NamespacePolicies::read(labels, defaults, server).enforce
    };
    let (control_plane_level, plugin) = (level(control_plane), level(PLUGIN_NAMESPACE));
    if plugin.level == Level::Privileged {
        let message = format!(
            "{control_plane} enforces {control_plane_level}, which admits the webhook; {PLUGIN_NAMESPACE} admits the CNI plugin"
        );
        return Finding::ok(Code::PluginNamespaceLevel, message);
    }
    let message = format!("{PLUGIN_NAMESPACE} enforces {plugin}, which refuses the CNI plugin's pods");
    Finding::warning(Code::PluginNamespaceLevel, message)
}

/// Which policies the cluster has beside Pod Security.
pub(in crate::cli::check) fn policies(objects: &[Value]) -> Finding {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if [
            "PodSecurityPolicy",
            "SecurityContextConstraints",
            "LimitRange",
            "ResourceQuota",
        ]
        .contains(&kind)
        {
            *kinds.entry(kind).or_default() += 1;
        }
    }
    let counted: Vec<_> = kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let message = match counted.is_empty() {
        true => "Pod Security is the only policy that is looked at here".to_owned(),
        false => format!("beside Pod Security the decision asks {}", counted.join(", ")),
    };
    Finding::ok(Code::PoliciesPresent, message)
}

/// Whether the CNI plugin is needed: `workloads` were judged as if there were none.
pub(in crate::cli::check) fn plugin_needed(workloads: &[Judged], daemon_sets: &[&Value]) -> Finding {
    let asking: Vec<_> = workloads.iter().filter(|it| it.asked && !it.rightly_alone).collect();
    let by_init = asking
        .iter()
        .filter(|it| it.redirection == Redirection::InitContainer)
        .count();
    let needing: Vec<_> = asking
        .iter()
        .filter(|it| it.reason == "no_redirection_admitted")
        .map(|it| format!("{}: {}", it.place(), it.policy))
        .collect();
    let there = daemon_sets.iter().find_map(|it| Plugin::read(it));
    let all = count(asking.len(), "workload");
    match (needing.len(), there) {
        (0, _) => {
            let message =
                format!("no CNI plugin is needed: {by_init} of {all} that ask for the mesh may have linkerd-init");
            Finding::ok(Code::CniNotNeeded, message)
        }
        (number, Some(plugin)) => {
            let message = format!("{number} of {all} need the CNI plugin; {} is there", plugin.name);
            Finding::ok(Code::CniNotNeeded, message)
        }
        (number, None) => {
            let message = format!("{number} of {all} that ask for the mesh need the CNI plugin on their nodes");
            Finding::warning(Code::CniNeeded, message).with(needing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;
    use crate::policy::Release;
    use crate::policy::pod_security::Configuration;
    use serde_json::json;
    use std::slice;

    #[test]
    fn the_plugins_namespace_must_be_privileged() {
        let namespace = |name: &str, level: &str| json!({"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}});
        let judged = |namespaces: &[Value], default: &str| {
            let document = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration", "defaults": {"enforce": default}});
            let configuration = Configuration::read(&document).unwrap();
            levels(namespaces, "linkerd", &configuration.defaults, Release(36).into()).status
        };
        assert_eq!(judged(&[], "privileged"), Status::Ok);
        assert_eq!(judged(&[], "baseline"), Status::Warning);
        let opened = [
            namespace("linkerd-cni", "privileged"),
            namespace("linkerd", "restricted"),
        ];
        assert_eq!(judged(&opened, "baseline"), Status::Ok);
        assert_eq!(
            judged(&[namespace("linkerd-cni", "baseline")], "privileged"),
            Status::Warning
        );
    }

    #[test]
    fn workloads_that_need_the_plugin_are_counted() {
        let denied = Judged {
            outcome: "deny",
            reason: "no_redirection_admitted",
            redirection: Redirection::None,
            ..Judged::sample("bank", "Deployment/web")
        };
        let well = Judged::sample("shop", "Deployment/web");
        assert_eq!(plugin_needed(slice::from_ref(&well), &[]).code, Code::CniNotNeeded);
        let finding = plugin_needed(&[denied.clone(), well], &[]);
        assert_eq!((finding.code, finding.details.len()), (Code::CniNeeded, 1));
        let plugin = json!({"metadata": {"namespace": "x", "name": "y", "labels": {"k8s-app": "linkerd-cni"}},
            "spec": {"template": {"spec": {"volumes": [{"name": "net", "hostPath": {"path": "/etc/cni"}}]}}}});
        assert_eq!(plugin_needed(&[denied], &[&plugin]).code, Code::CniNotNeeded);
    }

    #[test]
    fn what_is_there_is_told() {
        let kinds = ["PodSecurityPolicy", "ResourceQuota", "ResourceQuota", "Role"];
        let objects = kinds.map(|kind| json!({"kind": kind}));
        assert!(
            policies(&objects)
                .message
                .ends_with("1 PodSecurityPolicy, 2 ResourceQuota")
        );
    }
}
