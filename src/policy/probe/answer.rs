//! What came of one dry run.

use crate::policy::pod_security::Policy;
use std::fmt;

/// Longest text of the API server's that is kept, in characters: what two thousand namespaces have to say must fit into one
/// ConfigMap of 1 MiB.
const LONGEST: usize = 300;

/// What came of one dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod would be created.
    Admitted,
    /// A policy refuses it.
    Refused(Refusal),
    /// The dry run says nothing of policies.
    Unknown(Doubt),
}

/// A policy's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose.
    pub by: Refuser,
    /// Its words.
    pub message: String,
}

/// Who refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// Pod Security, at this level and version.
    PodSecurity(Policy),
    /// The `ValidatingAdmissionPolicy` of this name.
    ValidatingAdmissionPolicy(String),
    /// The webhook of this name.
    Webhook(String),
    /// The API's own validation.
    Validation,
    /// Another admission plugin of the API server.
    Plugin,
}

/// Why a dry run says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What happened.
    pub cause: Cause,
    /// The words for it.
    pub message: String,
}

/// What happened to a dry run that says nothing of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A `ResourceQuota` is used up, or demands figures: the webhook reads quotas itself. See [`Answer::but_for_quotas`].
    Quota,
    /// A `LimitRange`: likewise.
    LimitRange,
    /// A `PodSecurityPolicy` or OpenShift's constraints, which go by who creates the pod: likewise.
    Grant,
    /// A webhook that has side effects is not asked in a dry run, and so the API server refuses every one.
    NoDryRun,
    /// A webhook did not answer.
    WebhookFails,
    /// The namespace is going away.
    Terminating,
    /// The namespace is not there.
    NoNamespace,
    /// The namespace has no service account `default` yet.
    NoAccount,
    /// The probe may not create pods there.
    Forbidden,
    /// The API server is busy, or in trouble itself.
    Busy,
    /// The API server cannot be reached.
    Unreachable,
    /// No answer came in time.
    Timeout,
    /// The pod cannot be made from the configuration.
    Unmade,
    /// Anything else.
    Other,
}

impl Answer {
    /// The policy `by` refuses, in the words of `message`.
    pub fn refused(by: Refuser, message: &str) -> Self {
        Self::Refused(Refusal {
            by,
            message: short(message),
        })
    }

    /// Nothing is said, for `cause`, in the words of `message`.
    pub fn unknown(cause: Cause, message: &str) -> Self {
        Self::Unknown(Doubt {
            cause,
            message: short(message),
        })
    }

    /// `admitted`, `refused` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
        }
    }

    /// What happened, where it says nothing.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Unknown(doubt) => Some(doubt.cause),
            Self::Admitted | Self::Refused(_) => None,
        }
    }

    /// The same, a quota's refusal taken for an admission: quotas are asked after every policy, so all of those admit the pod.
    #[must_use]
    pub fn but_for_quotas(self) -> Self {
        match self.cause() == Some(Cause::Quota) {
            true => Self::Admitted,
            false => self,
        }
    }

    /// The same without the words.
    #[must_use]
    pub(super) fn wordless(&self) -> Self {
        match self {
            Self::Admitted => Self::Admitted,
            Self::Refused(refusal) => Self::refused(refusal.by.clone(), ""),
            Self::Unknown(doubt) => Self::unknown(doubt.cause, ""),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted => f.write_str("admitted"),
            Self::Refused(refusal) => write!(f, "refused by {refusal}"),
            Self::Unknown(doubt) => write!(f, "unknown: {doubt}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_words(f, &self.by, &self.message)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_words(f, &self.cause.word(), &self.message)
    }
}

fn with_words(f: &mut fmt::Formatter<'_>, what: &dyn fmt::Display, words: &str) -> fmt::Result {
    match words {
        "" => what.fmt(f),
        words => write!(f, "{what}: {words}"),
    }
}

impl Refuser {
    /// The kind, as findings and metrics have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PodSecurity(_) => "pod-security",
            Self::ValidatingAdmissionPolicy(_) => "validating-admission-policy",
            Self::Webhook(_) => "webhook",
            Self::Validation => "validation",
            Self::Plugin => "admission-plugin",
        }
    }

    /// Which of its kind: a level with its version, or a name; empty where there is but one.
    pub fn policy(&self) -> String {
        match self {
            Self::PodSecurity(policy) => policy.to_string(),
            Self::ValidatingAdmissionPolicy(name) | Self::Webhook(name) => name.clone(),
            Self::Validation | Self::Plugin => String::new(),
        }
    }

    /// The refuser of that kind and policy; nothing where there is none.
    pub(super) fn named(kind: &str, policy: &str) -> Option<Self> {
        match kind {
            "pod-security" => {
                let (level, version) = policy.split_once(':')?;
                Some(Self::PodSecurity(Policy {
                    level: level.parse().ok()?,
                    version: version.parse().ok()?,
                }))
            }
            "validating-admission-policy" => Some(Self::ValidatingAdmissionPolicy(policy.to_owned())),
            "webhook" => Some(Self::Webhook(policy.to_owned())),
            "validation" => Some(Self::Validation),
            "admission-plugin" => Some(Self::Plugin),
            _ => None,
        }
    }
}

impl fmt::Display for Refuser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Validation | Self::Plugin => f.write_str(self.kind()),
            Self::PodSecurity(_) | Self::ValidatingAdmissionPolicy(_) | Self::Webhook(_) => {
                write!(f, "{} {}", self.kind(), self.policy())
            }
        }
    }
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 14] = [
        Self::Quota,
        Self::LimitRange,
        Self::Grant,
        Self::NoDryRun,
        Self::WebhookFails,
        Self::Terminating,
        Self::NoNamespace,
        Self::NoAccount,
        Self::Forbidden,
        Self::Busy,
        Self::Unreachable,
        Self::Timeout,
        Self::Unmade,
        Self::Other,
    ];

    /// A stable snake-case word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::LimitRange => "limit_range",
            Self::Grant => "grant",
            Self::NoDryRun => "no_dry_run",
            Self::WebhookFails => "webhook_fails",
            Self::Terminating => "terminating",
            Self::NoNamespace => "no_namespace",
            Self::NoAccount => "no_account",
            Self::Forbidden => "forbidden",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Unmade => "unmade",
            Self::Other => "other",
        }
    }

    /// Whether it is likely to be over in a minute.
    pub fn passes(self) -> bool {
        match self {
            Self::NoAccount | Self::Busy | Self::Unreachable | Self::Timeout | Self::WebhookFails => true,
            Self::Quota
            | Self::LimitRange
            | Self::Grant
            | Self::NoDryRun
            | Self::Terminating
            | Self::NoNamespace
            | Self::Forbidden
            | Self::Unmade
            | Self::Other => false,
        }
    }
}

/// `text` on one line, cut where it is too long.
fn short(text: &str) -> String {
    let mut line: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if let Some((end, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(end);
        line.push('…');
    }
    line
}
