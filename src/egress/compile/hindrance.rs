//! What keeps compiled objects out of a cluster, and what that means for their policies.

use super::status::{Condition, Verdict};
use super::{Compiled, POLICY};
use crate::egress::policy::{CLUSTER_KIND, KIND};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why an object is not in the cluster as it was compiled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hindrance {
    /// The API server has no such kind.
    KindMissing {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The object's namespace is not there, or is being deleted.
    NamespaceMissing {
        /// The namespace.
        namespace: String,
    },
    /// Somebody else's object has its name, and is left alone.
    ForeignObject {
        /// That object.
        object: String,
    },
    /// A policy that counts there cannot be read, and nothing is opened or deleted of what is half understood.
    Held {
        /// That policy.
        policy: String,
    },
    /// The API server does not take it.
    Refused {
        /// The object.
        object: String,
        /// What the API server says.
        message: String,
    },
}

coded! { Hindrance, self: &Self => &'static str {
    Self::KindMissing { .. } => "KindMissing",
    Self::NamespaceMissing { .. } => "NamespaceMissing",
    Self::ForeignObject { .. } => "ForeignObject",
    Self::Held { .. } => "Held",
    Self::Refused { .. } => "Refused",
} }

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KindMissing { kind, api_version } => {
                write!(f, "the API server has no {kind} of {api_version}")
            }
            Self::NamespaceMissing { namespace } => write!(f, "there is no namespace {namespace}"),
            Self::ForeignObject { object } => {
                write!(f, "{object} is not Outrigger's, and is left as it is")
            }
            Self::Held { policy } => write!(
                f,
                "{policy} cannot be read, and nothing is opened or deleted until it can"
            ),
            Self::Refused { object, message } => write!(f, "{object}: {message}"),
        }
    }
}

impl Compiled {
    /// Says of the policies that `hindrances` concern that they are not programmed: the policy that an object is compiled
    /// from, or every one that counts in the object's namespace.
    pub fn hinder<'o>(&mut self, hindrances: impl IntoIterator<Item = (&'o Value, Hindrance)>) {
        let mut by_policy: BTreeMap<&str, BTreeSet<Hindrance>> = BTreeMap::new();
        let mut by_namespace: BTreeMap<&str, BTreeSet<Hindrance>> = BTreeMap::new();
        for (object, hindrance) in hindrances {
            let metadata = object.get("metadata");
            let text = |value: Option<&'o Value>| value.and_then(Value::as_str);
            let policy = metadata.and_then(|metadata| text(metadata.get("annotations")?.get(POLICY)));
            if let Some(policy) = policy {
                by_policy.entry(policy).or_default().insert(hindrance);
            } else {
                let namespace = metadata.and_then(|metadata| text(metadata.get("namespace")));
                by_namespace
                    .entry(namespace.unwrap_or_default())
                    .or_default()
                    .insert(hindrance);
            }
        }
        for verdict in &mut self.verdicts {
            let here = by_namespace
                .iter()
                .filter(|(namespace, _)| verdict.counts_in(namespace))
                .flat_map(|(_, found)| found);
            let own = by_policy.get(verdict.policy.as_str());
            let all: BTreeSet<_> = here.chain(own.into_iter().flatten()).cloned().collect();
            verdict.hinder(&all);
        }
    }
}

impl Verdict {
    /// Whether the policy counts in `namespace`, as far as its name tells.
    fn counts_in(&self, namespace: &str) -> bool {
        match self.policy.split('/').collect::<Vec<_>>()[..] {
            [CLUSTER_KIND, _] => true,
            [KIND, own, _] => own == namespace,
            _ => false,
        }
    }

    /// Of a policy that is not accepted there is nothing to be hindered.
    fn hinder(&mut self, hindrances: &BTreeSet<Hindrance>) {
        let [accepted, programmed] = &mut self.conditions;
        let Some(first) = hindrances.first() else { return };
        if accepted.status != "True" {
            return;
        }
        let texts: Vec<_> = hindrances.iter().map(Hindrance::to_string).collect();
        let mut message = texts.join("; ");
        if programmed.status != "True" {
            message = format!("{}; {message}", programmed.message);
        }
        let reason = match programmed.status {
            "False" => programmed.reason,
            _ => first.code(),
        };
        *programmed = Condition {
            kind: programmed.kind,
            status: "False",
            reason,
            message,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::compile::{Surroundings, compile};
    use crate::egress::{Policies, Policy};
    use serde_json::json;

    fn policy(kind: &str, namespace: &str, name: &str) -> Policy {
        let object = json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [format!("{name}.example")]},
        });
        Policy::read(&object, "default").unwrap().unwrap()
    }

    fn reasons(compiled: &Compiled) -> Vec<(String, &'static str)> {
        let reason = |verdict: &Verdict| (verdict.policy.clone(), verdict.conditions[1].reason);
        compiled.verdicts.iter().map(reason).collect()
    }

    #[test]
    fn a_route_concerns_its_policy_and_a_network_everybody_there() {
        let all = [
            policy(CLUSTER_KIND, "", "wide"),
            policy(KIND, "bank", "a"),
            policy(KIND, "shop", "b"),
            policy(KIND, "shop", "c"),
        ];
        let mut compiled = compile(&Policies::new(all), &Surroundings::default());
        let objects = compiled.objects.clone();
        let of = |kind: &str, pointer: &str, text: &str| {
            let is_it = |object: &&Value| object["kind"] == kind && object.pointer(pointer) == Some(&text.into());
            objects.iter().find(is_it).unwrap()
        };
        let network = of("EgressNetwork", "/metadata/namespace", "shop");
        let annotation = "/metadata/annotations/outrigger.linkerd.io~1egress-policy";
        let route = of("HTTPRoute", annotation, "EgressPolicy/bank/a");
        let missing = Hindrance::KindMissing {
            kind: "EgressNetwork".to_owned(),
            api_version: "policy.linkerd.io/v1alpha1".to_owned(),
        };
        let refused = Hindrance::Refused {
            object: "HTTPRoute bank/x".to_owned(),
            message: "no".to_owned(),
        };
        compiled.hinder([(network, missing), (route, refused)]);
        let expected = [
            ("ClusterEgressPolicy/wide", "KindMissing"),
            ("EgressPolicy/bank/a", "Refused"),
            ("EgressPolicy/shop/b", "KindMissing"),
            ("EgressPolicy/shop/c", "KindMissing"),
        ];
        assert_eq!(
            reasons(&compiled),
            expected.map(|(policy, reason)| (policy.to_owned(), reason))
        );
        let message = &compiled.verdicts[2].conditions[1].message;
        assert_eq!(
            message,
            "the API server has no EgressNetwork of policy.linkerd.io/v1alpha1"
        );
    }

    #[test]
    fn what_waits_for_the_gateway_can_be_hindered_too() {
        let object = json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1",
            "kind": "EgressPolicy",
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"hosts": ["a.example"], "placement": "Gateway"},
        });
        let policy = Policy::read(&object, "default").unwrap().unwrap();
        let mut compiled = compile(&Policies::new([policy]), &Surroundings::default());
        assert_eq!(compiled.verdicts[0].conditions[1].reason, "Pending");
        let network = compiled.objects[0].clone();
        let namespace = "shop".to_owned();
        compiled.hinder([(&network, Hindrance::NamespaceMissing { namespace })]);
        let programmed = &compiled.verdicts[0].conditions[1];
        assert_eq!((programmed.status, programmed.reason), ("False", "NamespaceMissing"));
        assert!(programmed.message.contains("no gateway") && programmed.message.contains("no namespace shop"));
    }
}
