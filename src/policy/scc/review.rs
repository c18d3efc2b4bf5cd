//! A pod's creation before the constraints of a cluster.

use serde_json::{Map, Value};

use super::constraint::Constraint;
use super::judge::judge;
use super::namespace::Allotment;
use super::provider::Provider;
use super::setting::{Setting, Settings};
use super::wording::forbidden;
use super::{REQUIRED, Release, SUBJECT, TAKEN_BY};
use crate::pod::{self, DEFAULT_ACCOUNT, Pod};
use crate::policy::aggregate::join;
use crate::policy::grants::{Granted, Grants, Requester};
use crate::policy::quoting::go_quoted;
use crate::policy::{UserIds, Verdict};

/// The label that keeps constraints away from a namespace's pods, where it is 0 or 1.
const RUN_LEVEL: &str = "openshift.io/run-level";

/// The constraints of a cluster, in the order in which they are tried; read once when they change.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    ordered: Vec<Constraint>,
}

/// Who creates pods where.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The constraints.
    pub constraints: &'q Constraints,
    /// Who RBAC lets use them.
    pub grants: &'q Grants,
    /// The release of Kubernetes that the server is built from: messages differ.
    pub server: Release,
    /// The namespace's name.
    pub namespace: &'q str,
    /// The namespace's `metadata.labels`.
    pub labels: Option<&'q Map<String, Value>>,
    /// The namespace's `metadata.annotations`, which hold what it has been allotted.
    pub annotations: Option<&'q Map<String, Value>>,
    /// Who creates the pod itself; for a workload's pods, its controller.
    pub requester: &'q Requester,
}

/// The constraints as they stand in one namespace for one requester, ready for any number of pods.
#[derive(Clone, Debug)]
pub struct Admission<'q> {
    question: Question<'q>,
    granted: Granted<'q>,
    standing: Standing<'q>,
}

/// The constraints in a namespace.
#[derive(Clone, Debug)]
enum Standing<'q> {
    /// They do not count.
    Exempt,
    /// They refuse every pod, with OpenShift's words.
    Refused(String),
    /// It cannot be told yet.
    Unknown(String),
    Ready(Vec<Provider<'q>>),
}

/// The answer to one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review<'r> {
    /// Constraints do not count: there are none, or the namespace or the pod is none of theirs.
    Exempt,
    /// The first constraint that the pod fits and that may be used.
    Admitted(Admitted<'r>),
    /// No constraint takes the pod.
    Refused {
        /// The API server's words, from `unable to validate` on.
        message: String,
    },
    /// It cannot be told.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// A constraint that takes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted<'r> {
    /// Its name.
    pub constraint: &'r str,
    /// The users that it admits in this namespace.
    pub users: UserIds,
    /// What it writes into the pod; applied in order, they make the pod that is stored.
    pub settings: Vec<Setting>,
}

impl Constraints {
    /// Compiles `SecurityContextConstraints`; objects of other kinds are passed over, and so are those without a name.
    pub fn compile<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Self {
        let objects = objects.into_iter();
        let constraints = objects.filter(|object| pod::text(object, "kind").is_none_or(|kind| kind == super::KIND));
        let mut ordered: Vec<_> = constraints
            .map(Constraint::read)
            .filter(|constraint| !constraint.name.is_empty())
            .collect();
        ordered.sort_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
        Self { ordered }
    }

    /// Whether there are none: the cluster is not OpenShift's.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Their names, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|constraint| constraint.name.as_str())
    }
}

impl<'q> Question<'q> {
    /// Reads what is the same for every pod of the namespace and requester.
    pub fn admission(self) -> Admission<'q> {
        Admission {
            granted: self.grants.of(self.requester, self.namespace),
            standing: self.standing(),
            question: self,
        }
    }

    fn standing(&self) -> Standing<'q> {
        let run_level = self.labels.and_then(|labels| labels.get(RUN_LEVEL)?.as_str());
        if self.constraints.is_empty() || matches!(run_level, Some("0" | "1")) {
            return Standing::Exempt;
        }
        let allotment = match Allotment::read(self.annotations) {
            Ok(allotment) => allotment,
            // The server waits ten seconds for it before it refuses.
            Err(fault) => {
                let namespace = go_quoted(self.namespace);
                return Standing::Unknown(format!(
                    "error fetching namespace {namespace}: {fault}, which OpenShift writes soon after it is created"
                ));
            }
        };
        let constraints = self.constraints.ordered.iter();
        let providers = constraints.map(|constraint| Provider::new(constraint, self.namespace, &allotment));
        let (mut ready, mut faults) = (Vec::new(), Vec::new());
        for provider in providers {
            match provider {
                Ok(provider) => ready.push(provider),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.is_empty() {
            true => Standing::Ready(ready),
            // One that cannot be used keeps every pod out, whoever may use it.
            false => Standing::Refused(join(faults)),
        }
    }
}

impl Admission<'_> {
    /// What the server will say to the creation of `pod`, a pod after the API's defaulting.
    ///
    /// A pod that other webhooks or injection changed goes through the same choice again, as if it had come like that:
    /// what the first pass filled in counts as the pod's own.
    pub fn review(&self, pod: &Pod<'_>) -> Review<'_> {
        let windows = pod.spec().get("os").and_then(|os| pod::text(os, "name")) == Some("windows");
        match &self.standing {
            _ if windows => Review::Exempt,
            Standing::Exempt => Review::Exempt,
            Standing::Refused(message) => Review::Refused {
                message: message.clone(),
            },
            Standing::Unknown(why) => Review::Unknown { why: why.clone() },
            Standing::Ready(providers) => match pod.annotation(REQUIRED).filter(|name| !name.is_empty()) {
                None => self.choose(providers, pod),
                Some(name) => match providers.iter().position(|provider| provider.constraint.name == name) {
                    Some(index) => self.choose(providers.get(index..=index).unwrap_or_default(), pod),
                    None => Review::Refused {
                        message: format!(
                            "failed to retrieve the required SCC {0}: {1} {0} not found",
                            go_quoted(name),
                            "securitycontextconstraints.security.openshift.io"
                        ),
                    },
                },
            },
        }
    }

    /// The first of `providers` that may be used and that `pod` fits.
    fn choose<'r>(&'r self, providers: &'r [Provider<'_>], pod: &Pod<'_>) -> Review<'r> {
        let Question {
            server,
            namespace,
            grants,
            requester,
            ..
        } = self.question;
        let account = Requester::service_account(namespace, pod.service_account().unwrap_or(DEFAULT_ACCOUNT));
        let rights = [
            ("serviceaccount", &account, &grants.of(&account, namespace)),
            ("user", requester, &self.granted),
        ];
        let mut errors = Vec::new();
        let mut unusable = None;
        for provider in providers {
            let name = &provider.constraint.name;
            let usable = |(_, who, granted): &&(&str, &Requester, &Granted<'_>)| {
                provider.constraint.is_for(who) || granted.includes(name)
            };
            let Some((subject, ..)) = rights.iter().find(usable) else {
                if name == "restricted" {
                    unusable = Some(provider);
                }
                let path = format_args!("provider {}", go_quoted(name));
                errors.push(forbidden(path, "not usable by user or serviceaccount"));
                continue;
            };
            match judge(provider, pod, server) {
                Ok(settings) => return Review::Admitted(Admitted::new(provider, subject, settings)),
                Err(found) => errors.extend(found),
            }
        }
        let has_newer = providers
            .iter()
            .any(|provider| provider.constraint.name == "restricted-v2");
        if has_newer && unusable.is_some_and(|restricted| judge(restricted, pod, server).is_ok()) {
            errors.push(forbidden(
                "no access to scc/restricted",
                "the pod fails to validate against the `restricted-v2` security context constraint, but would validate \
                 successfully against the `restricted` security context constraint",
            ));
        }
        let errors = join(errors);
        Review::Refused {
            message: format!("unable to validate against any security context constraint: {errors}"),
        }
    }
}

impl<'r> Admitted<'r> {
    fn new(provider: &'r Provider<'_>, subject: &str, settings: Vec<Setting>) -> Self {
        let mut settings = Settings(settings);
        settings.annotation(TAKEN_BY, &provider.constraint.name);
        settings.annotation(SUBJECT, subject);
        Self {
            constraint: &provider.constraint.name,
            users: provider.users.ids(),
            settings: settings.0,
        }
    }

    /// Writes into `pod`, the one that was judged, what the constraint fills in.
    pub fn apply(&self, pod: &mut Value) {
        for setting in &self.settings {
            setting.apply(pod);
        }
    }
}

impl Review<'_> {
    /// The answer without its particulars.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Exempt | Self::Admitted(_) => Verdict::Allowed,
            Self::Refused { message } => Verdict::Denied {
                message: message.clone(),
            },
            Self::Unknown { why } => Verdict::Unknown { why: why.clone() },
        }
    }
}
