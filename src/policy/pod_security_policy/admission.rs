//! A pod on its way through the plugin: which policies its requester may use, and the first that takes it.

use std::fmt;

use serde_json::Value;

use super::contexts::Contexts;
use super::policies::Policy;
use super::{NO_POLICIES, POLICY_ANNOTATION, Policies, patching};
use crate::pod::Pod;
use crate::policy::Release;
use crate::policy::grants::{Grants, Requester};

/// Who creates pods where.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The release of the server, 1.19 to 1.24.
    pub release: Release,
    /// The cluster's policies.
    pub policies: &'q Policies,
    /// Who may use which.
    pub grants: &'q Grants,
    /// The pods' namespace.
    pub namespace: &'q str,
    /// Who creates the pods themselves; for a workload's pods, its controller.
    pub requester: &'q Requester,
    /// The pods' service account, as [`Pod::service_account`] reads it.
    pub service_account: Option<&'q str>,
}

/// The policies of one requester in one namespace, ready for any number of pods.
#[derive(Clone, Debug)]
pub struct Admission<'q> {
    release: Release,
    policies: Policed<'q>,
}

/// Which policies there are to ask.
#[derive(Clone, Debug)]
enum Policed<'q> {
    /// The cluster has none that could take a pod, whoever asks.
    Nowhere,
    /// Those that may be used, by name.
    By(Vec<&'q Policy>),
}

/// A pod that a policy takes.
#[derive(Clone, Debug)]
pub struct Admitted<'a> {
    policy: &'a Policy,
    given: Contexts<'a>,
    defaulted: Contexts<'a>,
}

/// The two rounds of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The first, in which a policy may change the pod.
    Admit,
    /// The second, in which none may.
    Validate,
}

/// No policy takes the pod. [`fmt::Display`] is the API server's message, from `PodSecurityPolicy:` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster has no policy that could take any pod.
    NoPolicies,
    /// No policy that may be used takes it; where there are no objections, none may be used.
    Refused {
        /// In which round.
        phase: Phase,
        /// What each policy says, in the order of names.
        objections: Vec<Objection>,
    },
}

/// One thing that one policy holds against a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The policy's name.
    pub policy: String,
    /// Field and reason, in the API server's words.
    pub error: String,
}

impl<'q> Question<'q> {
    /// Picks the policies that the requester or the service account may use.
    pub fn admission(&self) -> Admission<'q> {
        let account = self
            .service_account
            .map(|account| Requester::service_account(self.namespace, account));
        let granted: Vec<_> = account
            .iter()
            .chain([self.requester])
            .map(|who| self.grants.of(who, self.namespace))
            .collect();
        let policies = &self.policies.policies;
        let usable = |policy: &&Policy| granted.iter().any(|granted| granted.includes(&policy.name));
        Admission {
            release: self.release,
            policies: match policies.as_slice() {
                [] => Policed::Nowhere,
                _ => Policed::By(policies.iter().filter(usable).collect()),
            },
        }
    }
}

impl Admission<'_> {
    /// Both rounds on `pod`, a pod after the API's defaulting that nobody else changes in between: the name of the policy
    /// that takes it in the end.
    pub fn review<'a>(&'a self, pod: &Pod<'a>) -> Result<&'a str, Refusal> {
        let admitted = self.admit(pod)?;
        self.validate_admitted(pod, &admitted)
    }

    /// The first round on `pod`, a pod after the API's defaulting: the first policy by name that takes it unchanged,
    /// else the first that takes it.
    pub fn admit<'a>(&'a self, pod: &Pod<'a>) -> Result<Admitted<'a>, Refusal> {
        let given = Contexts::read(pod);
        let (mut taken, mut objections) = (None, Vec::new());
        for policy in self.policies()? {
            // Whatever it says, one that changes the pod comes after the one that does so already.
            if taken.is_some() && policy.changes_pod(&given) {
                continue;
            }
            let defaulted = policy.defaulted(&given);
            if taken.is_some() && defaulted != given {
                continue;
            }
            let errors = policy.check(pod, &defaulted, self.release);
            if !errors.is_empty() {
                objections.extend(policy.objections(errors));
                continue;
            }
            if defaulted == given {
                taken = Some((*policy, defaulted));
                break;
            }
            taken.get_or_insert((*policy, defaulted));
        }
        let (policy, defaulted) = taken.ok_or(Refusal::Refused {
            phase: Phase::Admit,
            objections,
        })?;
        Ok(Admitted {
            policy,
            given,
            defaulted,
        })
    }

    /// The second round on `pod` as it stands: the policy that its annotation names if it takes the pod unchanged,
    /// else the first by name that does.
    pub fn validate<'a>(&'a self, pod: &Pod<'a>) -> Result<&'a str, Refusal> {
        let hint = pod.annotation(POLICY_ANNOTATION).unwrap_or_default();
        self.take_unchanged(pod, &Contexts::read(pod), hint)
    }

    /// The second round on what the API server makes of `admitted`, the first round's answer to `pod`.
    pub fn validate_admitted<'a>(&'a self, pod: &Pod<'a>, admitted: &Admitted<'a>) -> Result<&'a str, Refusal> {
        self.take_unchanged(pod, &admitted.defaulted.clone().stored(), admitted.policy())
    }

    fn take_unchanged<'a>(&'a self, pod: &Pod<'_>, given: &Contexts<'_>, hint: &str) -> Result<&'a str, Refusal> {
        let policies = self.policies()?;
        let hinted = policies.iter().filter(|policy| policy.name == hint);
        let others = policies.iter().filter(|policy| policy.name != hint);
        let mut objections = Vec::new();
        for policy in hinted.chain(others) {
            let defaulted = policy.defaulted(given);
            let errors = policy.check(pod, &defaulted, self.release);
            if errors.is_empty() && defaulted == *given {
                return Ok(&policy.name);
            }
            objections.extend(policy.objections(errors));
        }
        Err(Refusal::Refused {
            phase: Phase::Validate,
            objections,
        })
    }

    fn policies(&self) -> Result<&[&Policy], Refusal> {
        match &self.policies {
            Policed::Nowhere => Err(Refusal::NoPolicies),
            Policed::By(policies) => Ok(policies),
        }
    }
}

impl<'a> Admitted<'a> {
    /// The name of the policy that took the pod.
    pub fn policy(&self) -> &'a str {
        &self.policy.name
    }

    /// Whether the policy set something in the pod, beside its own name.
    pub fn mutates(&self) -> bool {
        self.defaulted != self.given
    }

    /// Writes what the policy set, and its name, into `pod`: the very pod that was asked about, as JSON.
    pub fn apply(&self, pod: &mut Value) {
        patching::apply(pod, &self.given, &self.defaulted, self.policy());
    }
}

impl Policy {
    fn objections(&self, errors: Vec<String>) -> impl Iterator<Item = Objection> {
        errors.into_iter().map(|error| Objection {
            policy: self.name.clone(),
            error,
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicies => write!(f, "PodSecurityPolicy: {NO_POLICIES}"),
            Self::Refused { phase, objections } => {
                let errors: Vec<_> = objections.iter().map(|objection| objection.error.as_str()).collect();
                let errors = errors.join(" ");
                write!(f, "PodSecurityPolicy: unable to {phase} pod: [{errors}]")
            }
        }
    }
}
