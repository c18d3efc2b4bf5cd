//! Pods that must start before the webhook can, and that a webhook which fails closed would keep from starting.

use super::admission::Webhook;
use super::{name, namespace, place};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use serde_json::Value;

/// Looks for pods of `essential` workloads (objects with a pod template: the injector, the CNI plugin) that go to the
/// injector, and whether those of `kube-system` do.
pub(in crate::cli::check) fn judge(
    webhooks: &[Webhook<'_>],
    namespaces: &[Value],
    essential: &[&Value],
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
    let mut stuck = Vec::new();
    if let Some(labels) = labels_of("kube-system")
        && injector.keeps_out(labels, &Value::Null).is_none()
    {
        stuck.push("kube-system: every pod of it".to_owned());
    }
    let locked_out = essential.iter().filter(|workload| {
        let labels = workload.pointer("/spec/template/metadata/labels");
        namespace(workload) != "kube-system"
            && labels_of(namespace(workload)).is_some_and(|of_namespace| {
                injector
                    .keeps_out(of_namespace, labels.unwrap_or(&Value::Null))
                    .is_none()
            })
    });
    stuck.extend(locked_out.map(|workload| format!("{}: its own pods", place(workload))));
    Some(match stuck.len() {
        0 => Finding::ok(
            Code::NoDeadlock,
            "kube-system, the webhook and the CNI plugin start without the webhook",
        ),
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
        let finding = judge(&Webhook::all(&all), &namespaces, &[&plugin, &injector]).unwrap();
        (finding.status, finding.details)
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
