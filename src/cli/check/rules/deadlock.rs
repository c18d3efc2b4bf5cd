//! Pods that must start before the webhook can, and that a webhook which fails closed would keep from starting.

use super::admission::Webhook;
use super::{name, namespace, place};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use serde_json::Value;
use std::iter;

/// What is not looked at where the labels of a namespace are not known.
const NAMESPACES: &str = "namespaces";

/// Looks for pods of `essential` workloads (objects with a pod template: the injector, the CNI plugin) that go to the
/// injector, and whether those of `kube-system` do. Lists among which there may be more of them, and that could not be looked
/// at, are `unseen`.
pub(in crate::cli::check) fn judge(
    webhooks: &[Webhook<'_>],
    namespaces: &[Value],
    essential: &[&Value],
    unseen: &[&str],
) -> Option<Finding> {
    let injector = webhooks.iter().find(|webhook| webhook.is_injector())?;
    if !injector.fails_closed() {
        return Some(Finding::ok(
            Code::NoDeadlock,
            "while the webhook is away, pods start without a proxy (failurePolicy Ignore)",
        ));
    }
    let labels_of = |wanted: &str| {
        let found = namespaces.iter().find(|namespace| name(namespace) == wanted)?;
        Some(found.pointer("/metadata/labels").unwrap_or(&Value::Null))
    };
    let (mut stuck, mut unseen) = (Vec::new(), unseen.to_vec());
    let others = essential.iter().filter(|workload| namespace(workload) != "kube-system");
    let others = others.map(|workload| {
        let labels = workload.pointer("/spec/template/metadata/labels");
        let title = format!("{}: its own pods", place(workload));
        (namespace(workload), labels.unwrap_or(&Value::Null), title)
    });
    let all = ("kube-system", &Value::Null, "kube-system: every pod of it".to_owned());
    for (namespace, labels, title) in iter::once(all).chain(others) {
        match labels_of(namespace) {
            Some(of_namespace) if injector.keeps_out(of_namespace, labels).is_none() => stuck.push(title),
            Some(_) => {}
            None => unseen.push(NAMESPACES),
        }
    }
    unseen.sort_unstable();
    unseen.dedup();
    Some(match stuck.len() {
        0 => Finding::ok(
            Code::NoDeadlock,
            "kube-system, the webhook and the CNI plugin start without the webhook",
        )
        .unless_unseen(&unseen),
        number => {
            let message = format!("failurePolicy Fail locks {} out", count(number, "place"));
            Finding::failed(Code::FailurePolicyDeadlock, message).with(stuck)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;
    use serde_json::json;

    fn judged(policy: &str, selector: &Value) -> (Status, Vec<String>) {
        let all = [json!({"metadata": {"name": "a"}, "webhooks": [{
            "name": "linkerd-proxy-injector.linkerd.io", "failurePolicy": policy, "namespaceSelector": selector,
            "objectSelector": {"matchExpressions": [{"key": "linkerd.io/cni-resource", "operator": "DoesNotExist"}]},
        }]})];
        let namespace =
            |name: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}});
        let workload = |namespace: &str, name: &str, labels: Value| json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"template": {"metadata": {"labels": labels}}}});
        let plugin = workload(
            "linkerd-cni",
            "outrigger-cni",
            json!({"linkerd.io/cni-resource": "true"}),
        );
        let injector = workload("linkerd", "linkerd-proxy-injector", json!({"app": "injector"}));
        let namespaces = ["kube-system", "linkerd", "linkerd-cni"].map(namespace);
        let finding = judge(&Webhook::all(&all), &namespaces, &[&plugin, &injector], &[]).unwrap();
        (finding.status, finding.details)
    }

    #[test]
    fn nobody_knows_of_what_was_not_looked_at() {
        let all = [json!({"metadata": {"name": "a"}, "webhooks": [{
            "name": "linkerd-proxy-injector.linkerd.io", "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"mesh": "yes"}}}]})];
        let webhooks = Webhook::all(&all);
        let system = [json!({"metadata": {"name": "kube-system", "labels": {}}})];
        let judged = |namespaces: &[Value], unseen: &[&str]| {
            let finding = judge(&webhooks, namespaces, &[], unseen).unwrap();
            (finding.status, finding.message)
        };
        let well = "kube-system, the webhook and the CNI plugin start without the webhook";
        assert_eq!(judged(&system, &[]), (Status::Ok, well.to_owned()));
        let unknown = |what: &str| (Status::Unknown, format!("{well}; not looked at: {what}"));
        assert_eq!(judged(&[], &[]), unknown("namespaces"));
        assert_eq!(judged(&system, &["deployments"]), unknown("deployments"));
    }

    #[test]
    fn what_the_webhook_needs_must_not_need_the_webhook() {
        let all = json!({});
        assert_eq!(judged("Ignore", &all), (Status::Ok, vec![]));
        let stuck = [
            "kube-system: every pod of it",
            "linkerd/linkerd-proxy-injector: its own pods",
        ];
        assert_eq!(
            judged("Fail", &all),
            (Status::Failed, stuck.map(str::to_owned).to_vec())
        );
        let excluding = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "linkerd"]}]});
        assert_eq!(judged("Fail", &excluding), (Status::Ok, vec![]));
    }
}
