//! A pod's creation, on its whole way through the plugin: exemptions, then enforcement, audit and warning.

use serde_json::{Map, Value};

use super::evaluation::judge;
use super::{Configuration, Evaluation, Exemptions, NamespacePolicies, Policy, Server};
use crate::pod::{self, Pod};
use crate::policy::{Release, Verdict};

/// Who creates pods where.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The server that will judge.
    pub server: Server,
    /// What it was started with.
    pub configuration: &'q Configuration,
    /// The namespace's name.
    pub namespace: &'q str,
    /// The namespace's `metadata.labels`.
    pub labels: Option<&'q Map<String, Value>>,
    /// The name of the user who creates the pod itself; for a workload's pods, of its controller.
    pub user: &'q str,
}

/// Pod Security for one namespace and one requester, ready for any number of pods.
#[derive(Clone, Debug)]
pub struct Admission<'q> {
    server: Server,
    policies: NamespacePolicies,
    exemption: Option<Exemption>,
    exemptions: &'q Exemptions,
    remarks: bool,
}

/// What spares a pod every judgement, warnings included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exemption {
    /// Its namespace.
    Namespace,
    /// Its creator.
    User,
    /// Its runtime class.
    RuntimeClass,
}

/// The answer to one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The policy in force, [`Policy::PRIVILEGED`] where nothing restricts; that of the namespace for an exempt pod.
    pub policy: Policy,
    /// What spares the pod.
    pub exempt: Option<Exemption>,
    /// The answer; a denial's message is the API server's, from `violates PodSecurity` on.
    pub verdict: Verdict,
    /// The warning that the pod's creator gets, from `would violate PodSecurity` on; none beside a denial.
    pub warning: Option<String>,
    /// The same sentence for the audit log, by the policy audited.
    pub audit: Option<String>,
}

impl Exemption {
    /// The word that the audit log has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::User => "user",
            Self::RuntimeClass => "runtimeClass",
        }
    }
}

impl<'q> Question<'q> {
    /// Reads what is the same for every pod of the namespace and requester.
    pub fn admission(&self) -> Admission<'q> {
        let Self {
            server,
            configuration: Configuration { defaults, exemptions },
            ..
        } = *self;
        let listed = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
        let exemption = if listed(&exemptions.namespaces, self.namespace) {
            Some(Exemption::Namespace)
        } else {
            listed(&exemptions.usernames, self.user).then_some(Exemption::User)
        };
        let policies = NamespacePolicies::read(self.labels, defaults, server);
        Admission {
            server,
            policies,
            exemption,
            exemptions,
            remarks: true,
        }
    }
}

impl Admission<'_> {
    /// The same for who reads nothing but verdicts: no review has a warning or an audit.
    #[must_use]
    pub fn without_remarks(self) -> Self {
        Self { remarks: false, ..self }
    }

    /// The same where the server was seen to enforce `policy` in the namespace, whatever its labels and the configuration say.
    #[must_use]
    pub fn seen_to_enforce(mut self, policy: Policy) -> Self {
        self.policies.enforce = policy;
        self.exemption = self.exemption.filter(|exemption| *exemption != Exemption::Namespace);
        self
    }

    /// The same where the server was seen to spare the namespace.
    #[must_use]
    pub fn seen_to_exempt(self) -> Self {
        Self {
            exemption: Some(Exemption::Namespace),
            ..self
        }
    }

    /// What spares every pod, whatever it is.
    pub fn exemption(&self) -> Option<Exemption> {
        self.exemption
    }

    /// The namespace's policies.
    pub fn policies(&self) -> &NamespacePolicies {
        &self.policies
    }

    /// What the server will say to the creation of `pod`, a pod after the API's defaulting.
    pub fn review(&self, pod: &Pod<'_>) -> Review {
        // No release before 1.22 has the plugin.
        if !self.server.since(22) {
            return Self::pass(Policy::PRIVILEGED, None);
        }
        if self.exemption.is_some() {
            return Self::pass(self.policies.enforce, self.exemption);
        }
        if self.policies.are_privileged() {
            return Self::pass(Policy::PRIVILEGED, None);
        }
        let class = pod::text(pod.spec(), "runtimeClassName");
        if class.is_some_and(|class| self.exemptions.runtime_classes.iter().any(|exempt| exempt == class)) {
            return Self::pass(self.policies.enforce, Some(Exemption::RuntimeClass));
        }
        self.judge(pod)
    }

    fn pass(policy: Policy, exempt: Option<Exemption>) -> Review {
        Review {
            policy,
            exempt,
            verdict: Verdict::Allowed,
            warning: None,
            audit: None,
        }
    }

    fn judge(&self, pod: &Pod<'_>) -> Review {
        let NamespacePolicies {
            enforce,
            audit,
            warn,
            errors: _,
        } = &self.policies;
        let enforced = judge(*enforce, self.server, pod, true);
        if !self.remarks {
            return Review {
                verdict: self.verdict(*enforce, enforced),
                ..Self::pass(*enforce, None)
            };
        }
        // Mostly the three are one policy, and the pod is judged once.
        let spoken = |policy: Policy, same: &[(Policy, &Evaluation)]| {
            let known = same
                .iter()
                .find(|(known, _)| *known == policy)
                .map(|&(_, evaluation)| evaluation.clone());
            known.unwrap_or_else(|| judge(policy, self.server, pod, true))
        };
        let audited = spoken(*audit, &[(*enforce, &enforced)]);
        let warned = if enforced.allowed {
            spoken(*warn, &[(*enforce, &enforced), (*audit, &audited)])
        } else {
            Evaluation {
                allowed: true,
                ..Evaluation::default()
            }
        };
        Review {
            policy: *enforce,
            exempt: None,
            audit: self.would_violate(*audit, &audited),
            warning: self.would_violate(*warn, &warned),
            verdict: self.verdict(*enforce, enforced),
        }
    }

    fn verdict(&self, policy: Policy, evaluation: Evaluation) -> Verdict {
        let Evaluation { allowed, detail, .. } = evaluation;
        match self.server.release {
            _ if allowed => Verdict::Allowed,
            Release(22) => Verdict::Unknown {
                why: format!("Kubernetes 1.22 refuses the pod only where its feature gate PodSecurity is on: {detail}"),
            },
            _ => Verdict::Denied {
                message: format!("violates PodSecurity \"{policy}\": {detail}"),
            },
        }
    }

    fn would_violate(&self, policy: Policy, evaluation: &Evaluation) -> Option<String> {
        let (Policy { level, version }, detail) = (policy, &evaluation.detail);
        (!evaluation.allowed).then(|| match self.server.release {
            Release(22) => format!("would violate \"{version}\" version of \"{level}\" PodSecurity profile: {detail}"),
            _ => format!("would violate PodSecurity \"{policy}\": {detail}"),
        })
    }
}
