//! Which dry runs are tried: one for each level of Pod Security that meshed namespaces name, and one where none is named.
//!
//! The last shows a default of the cluster that no API tells.

use super::code::Code;
use super::finding::Finding;
use super::gather::dry_run;
use super::rules::admission::Webhook;
use super::rules::dry_run::{Expected, is_about_the_call, judge};
use super::rules::webhook::asks;
use crate::cli::describe;
use crate::cli::explain::Known;
use kube::Client;
use serde_json::Value;
use std::collections::BTreeSet;

/// What dry runs need.
pub(super) struct Attempts<'a> {
    pub(super) client: &'a Client,
    pub(super) known: &'a Known,
    pub(super) webhooks: &'a [Webhook<'a>],
    /// Whether as much is seen here as the webhook sees, so that both must decide alike.
    pub(super) sees_all: bool,
}

impl Attempts<'_> {
    /// Tries a plain pod in some of `namespaces`.
    pub(super) async fn make(&self, mut namespaces: Vec<&Value>) -> Vec<Finding> {
        namespaces.retain(|namespace| asks(namespace));
        // Where the webhook is not asked about a namespace, that has a line of its own already.
        if !namespaces.iter().all(|namespace| self.is_left_out(namespace)) {
            namespaces.retain(|namespace| !self.is_left_out(namespace));
        }
        let mut levels = BTreeSet::new();
        let mut findings: Vec<Finding> = Vec::new();
        let injectors = self.webhooks.iter().filter(|webhook| webhook.is_injector());
        let injectors: Vec<_> = injectors.map(Webhook::name).collect();
        for namespace in namespaces {
            let labels = namespace.pointer("/metadata/labels");
            let level = labels.and_then(|labels| labels.get("pod-security.kubernetes.io/enforce")?.as_str());
            let Some((name, redirection)) = self.expected(namespace).filter(|_| !levels.contains(&level)) else {
                continue;
            };
            levels.insert(level);
            let expected = Expected {
                webhooks: &injectors,
                redirection: Some(redirection).filter(|_| self.sees_all),
            };
            let finding = match Box::pin(dry_run::ask(self.client, name)).await {
                Ok(answer) => judge(&answer, &expected),
                Err(error) => {
                    let message = format!(
                        "the API server does not answer a dry run in {name}: {}",
                        describe(&error)
                    );
                    Finding::unknown(Code::DryRunUnanswered, message)
                }
            };
            let done = is_about_the_call(finding.code);
            findings.push(finding);
            // In other namespaces the same would be said, after as long a wait.
            if done {
                break;
            }
        }
        if findings.is_empty() {
            let message = "no namespace in which a plain pod would be injected: nothing to try";
            findings.push(Finding::unknown(Code::DryRunNotTried, message));
        }
        findings
    }

    /// Name of the namespace and redirection of the pod, where it would be injected.
    fn expected<'n>(&self, namespace: &'n Value) -> Option<(&'n str, &'static str)> {
        let name = namespace.pointer("/metadata/name")?.as_str()?;
        let decision = self.known.explain(&dry_run::pod(name))?.decision;
        (decision.word() == "inject").then(|| (name, decision.redirection().word()))
    }

    /// Whether the injector is not asked about pods of the namespace.
    fn is_left_out(&self, namespace: &Value) -> bool {
        let labels = namespace.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let injector = self.webhooks.iter().find(|webhook| webhook.is_injector());
        injector.is_none_or(|injector| !injector.namespace_selector().matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;
    use crate::cluster::Cluster;
    use crate::decide::Setup;
    use crate::policy::Release;
    use hyper::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use std::io;
    use std::slice;

    #[tokio::test]
    async fn an_api_server_that_does_not_answer_says_nothing_of_the_webhook() {
        let metadata = json!({"name": "shop", "annotations": {"linkerd.io/inject": "enabled"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let server = Release::NEWEST.into();
        let cluster = Cluster::of_manifests(slice::from_ref(&namespace), Some(server)).unwrap();
        let setup = Setup::read(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap();
        let reset = |_: Request<Body>| async { Err::<Response<Body>, _>(io::Error::other("connection reset")) };
        let attempts = Attempts {
            client: &Client::new(tower::service_fn(reset), "default"),
            known: &Known::of_cluster(cluster, setup, server, None),
            webhooks: &[],
            sees_all: true,
        };
        let findings = attempts.make(vec![&namespace]).await;
        let said: Vec<_> = findings.iter().map(|finding| (finding.code, finding.status)).collect();
        assert_eq!(said, [(Code::DryRunUnanswered, Status::Unknown)]);
    }
}
