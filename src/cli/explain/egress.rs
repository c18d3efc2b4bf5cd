//! What egress policies say to the pods of a workload, and what they compile to.

use crate::egress::compile::{
    Compiled, GATEWAY_SERVICE, GLOBAL_NAMESPACE, GatewayService, POLICY, Surroundings, compile,
};
use crate::egress::connection::Workload;
use crate::egress::spec::Mode;
use crate::egress::{Policies, Policy};
use crate::pod::{DEFAULT_ACCOUNT, Pod};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Every egress policy that is known, and what comes of it.
pub(super) struct Egress {
    policies: Policies,
    compiled: Compiled,
    /// What the status of a policy says, where a controller has written one: it knows the whole cluster.
    written: BTreeMap<String, [Condition; 2]>,
    /// Policies that cannot be read, as messages have them, by namespace; of cluster-wide ones that is nothing.
    unreadable: Vec<(Option<String>, String)>,
}

/// What becomes of a policy: why, in a word, and in a sentence.
#[derive(Clone, Debug, Default)]
struct Condition {
    reason: String,
    message: String,
}

/// What egress policies say to one workload.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Said {
    /// What becomes of what no policy lists: `open`, `observed` or `closed`.
    pub(super) unlisted: &'static str,
    /// The policies that are for it, in the order of precedence.
    pub(super) policies: Vec<Listing>,
    /// What they compile to, `KIND NAMESPACE/NAME`.
    pub(super) objects: BTreeSet<String>,
    /// Policies that cannot be read, and why not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<String>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    policy: String,
    lists: Vec<String>,
    ports: Vec<u16>,
    accepted: String,
    programmed: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Egress {
    /// Reads the policies among `objects`; nothing where there are none. Policies for the gateway are compiled for the chart's, in
    /// `control_plane`.
    pub(super) fn read(objects: &[Value], control_plane: &str) -> Option<Self> {
        let (mut policies, mut unreadable, mut written) = (Vec::new(), Vec::new(), BTreeMap::new());
        for object in objects {
            match Policy::read(object, "default") {
                Some(Ok(policy)) => {
                    written.extend(conditions(object).map(|conditions| (policy.id.to_string(), conditions)));
                    policies.push(policy);
                }
                Some(Err(error)) => {
                    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
                    unreadable.push((namespace.map(str::to_owned), error.to_string()));
                }
                None => {}
            }
        }
        if policies.is_empty() && unreadable.is_empty() {
            return None;
        }
        let surroundings = Surroundings {
            gateway: Some(GatewayService {
                name: GATEWAY_SERVICE.to_owned(),
                namespace: control_plane.to_owned(),
            }),
            ..Surroundings::read(objects, GLOBAL_NAMESPACE, "default")
        };
        let policies = Policies::new(policies);
        Some(Self {
            compiled: compile(&policies, &surroundings),
            policies,
            written,
            unreadable,
        })
    }

    /// What they say to the pods of `namespace` like `pod`; nothing where none is for them.
    pub(super) fn of(&self, namespace: &str, pod: &Pod<'_>) -> Option<Said> {
        let labels = pod.labels().into_iter().flatten();
        let labels: BTreeMap<_, _> = labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let workload = Workload {
            namespace: namespace.to_owned(),
            service_account: pod.service_account().unwrap_or(DEFAULT_ACCOUNT).to_owned(),
            labels,
        };
        let ruling = self.policies.ruling(&workload);
        let unreadable = self.unreadable.iter();
        let unreadable: Vec<_> = unreadable
            .filter(|(of, _)| of.as_deref().is_none_or(|of| of == namespace))
            .map(|(_, error)| error.clone())
            .collect();
        if ruling.policies().is_empty() && unreadable.is_empty() {
            return None;
        }
        let counting = self.policies.enforceable();
        let counting = counting.ruling(&workload);
        let kept = counting.policies().iter().filter(|policy| policy.allowlist);
        Some(Said {
            unlisted: match kept.map(|policy| policy.mode).max() {
                None => "open",
                Some(Mode::Observe) => "observed",
                Some(Mode::Enforce) => "closed",
            },
            policies: ruling.policies().iter().map(|policy| self.listing(policy)).collect(),
            objects: self.objects(namespace, ruling.policies()),
            unreadable,
        })
    }

    fn listing(&self, policy: &Policy) -> Listing {
        let id = policy.id.to_string();
        let compiled = || {
            let verdict = self.compiled.verdicts.iter().find(|verdict| verdict.policy == id)?;
            Some(verdict.conditions.each_ref().map(|condition| Condition {
                reason: condition.reason.to_owned(),
                message: condition.message.clone(),
            }))
        };
        let conditions = self.written.get(&id).cloned().or_else(compiled).unwrap_or_default();
        let [accepted, programmed] = conditions;
        let message = match accepted.reason.as_str() {
            "Accepted" => programmed.message,
            _ => accepted.message,
        };
        Listing {
            policy: id,
            lists: policy.targets.iter().map(ToString::to_string).collect(),
            ports: policy.ports.iter().map(|port| port.port.get()).collect(),
            accepted: accepted.reason,
            programmed: programmed.reason,
            message,
        }
    }

    /// Of what is compiled for `namespace` that which is of `policies` or of all.
    fn objects(&self, namespace: &str, policies: &[&Policy]) -> BTreeSet<String> {
        let own: BTreeSet<_> = policies.iter().map(|policy| policy.id.to_string()).collect();
        let has_own = self.policies.namespaces().contains(namespace);
        let place = if has_own { namespace } else { GLOBAL_NAMESPACE };
        let text = |object: &Value, pointer: &str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let objects = self.compiled.objects.iter().filter(|object| {
            let of = object
                .pointer("/metadata/annotations")
                .and_then(|it| it.get(POLICY)?.as_str());
            text(object, "/metadata/namespace") == place && of.is_none_or(|of| own.contains(of))
        });
        let named = objects.map(|object| {
            let name = text(object, "/metadata/name");
            format!("{} {place}/{name}", text(object, "/kind"))
        });
        named.collect()
    }
}

/// The conditions that stand in the status of a policy, where they are about what it says now.
fn conditions(object: &Value) -> Option<[Condition; 2]> {
    let generation = object.pointer("/metadata/generation");
    let all = object.pointer("/status/conditions")?.as_array()?;
    let find = |kind: &str| {
        let is_it = |it: &&Value| it.get("type").is_some_and(|it| it == kind);
        let found = all.iter().find(is_it)?;
        let text = |key| found.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        (found.get("observedGeneration") == generation).then(|| Condition {
            reason: text("reason"),
            message: text("message"),
        })
    };
    Some([find("Accepted")?, find("Programmed")?])
}

impl Said {
    /// For people, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("egress: what no policy lists is {}", self.unlisted)];
        for listing in &self.policies {
            let ports: Vec<_> = listing.ports.iter().map(ToString::to_string).collect();
            let Listing {
                policy,
                lists,
                accepted,
                programmed,
                message,
                ..
            } = listing;
            let separator = if message.is_empty() { "" } else { ": " };
            lines.push(format!(
                "  {policy} lists {} on {} ({accepted}, {programmed}){separator}{message}",
                lists.join(", "),
                ports.join(", ")
            ));
        }
        lines.extend(self.unreadable.iter().map(|error| format!("  {error}")));
        if !self.objects.is_empty() {
            let objects: Vec<_> = self.objects.iter().map(String::as_str).collect();
            lines.push(format!("  compiled: {}", objects.join(", ")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(name: &str, spec: &Value, status: &Value) -> Value {
        json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "EgressPolicy",
            "metadata": {"name": name, "namespace": "agents", "generation": 2}, "spec": spec, "status": status,
        })
    }

    fn said(objects: &[Value], namespace: &str) -> Option<Said> {
        let pod = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"serviceAccountName": "agent"}});
        Egress::read(objects, "linkerd")?.of(namespace, &Pod::new(&pod))
    }

    #[test]
    fn those_are_told_that_are_for_the_workload() {
        let closed = json!({"hosts": ["a.example"], "allowlist": "Enabled"});
        let others = json!({
            "hosts": ["b.example"], "ports": [{"port": 8443}], "placement": "Gateway",
            "workloads": {"serviceAccounts": ["web"]},
        });
        let objects = [policy("a", &closed, &Value::Null), policy("b", &others, &Value::Null)];
        let here = said(&objects, "agents").unwrap();
        assert_eq!((here.unlisted, here.policies.len()), ("closed", 1));
        assert!(
            here.objects
                .iter()
                .any(|it| it.starts_with("TLSRoute agents/outrigger-a-"))
        );
        assert!(!here.objects.iter().any(|it| it.starts_with("TCPRoute")), "{here:?}");
        assert!(said(&objects, "shop").is_none() && said(&[], "agents").is_none());
    }

    #[test]
    fn the_status_of_the_cluster_counts_where_it_is_of_today() {
        let listed = json!({"hosts": ["a.example"]});
        let status = |generation: u8| {
            let condition = |kind: &str, reason: &str| json!({"type": kind, "reason": reason, "message": "it is so", "observedGeneration": generation});
            json!({"conditions": [condition("Programmed", "Held"), condition("Accepted", "Accepted")]})
        };
        let programmed = |generation| {
            let said = said(&[policy("a", &listed, &status(generation))], "agents").unwrap();
            (said.policies[0].programmed.clone(), said.unlisted)
        };
        assert_eq!(programmed(2), ("Held".to_owned(), "open"));
        assert_eq!(programmed(1), ("Programmed".to_owned(), "open"));
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_told_to_those_of_its_namespace() {
        let objects = [policy("bad", &json!({"hosts": ["*"]}), &Value::Null)];
        let here = said(&objects, "agents").unwrap();
        assert!(here.policies.is_empty() && here.unreadable[0].contains("EgressPolicy/agents/bad"));
        assert!(said(&objects, "shop").is_none());
    }
}
