//! One line of the answer.

use super::code::{Code, Section};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// Nobody can tell from here.
    Unknown,
    /// Somebody should look at it.
    Warning,
    /// Something does not work, or would be refused.
    Failed,
}

/// A line: what was found, where, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) code: Code,
    pub(super) status: Status,
    /// What was found, in a sentence.
    pub(super) message: String,
    /// The objects that it is about, or what is said of each.
    pub(super) details: Vec<String>,
    /// What to do about it; empty where there is nothing to do.
    pub(super) hint: Cow<'static, str>,
}

impl Status {
    /// The word in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

impl Finding {
    /// All is well.
    pub(super) fn ok(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Status::Ok, message)
    }

    /// Nobody can tell.
    pub(super) fn unknown(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Status::Unknown, message)
    }

    /// Something to look at.
    pub(super) fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Status::Warning, message)
    }

    /// Something that does not work.
    pub(super) fn failed(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Status::Failed, message)
    }

    fn new(code: Code, status: Status, message: impl Into<String>) -> Self {
        Self {
            code,
            status,
            message: message.into(),
            details: Vec::new(),
            hint: code.cure().into(),
        }
    }

    /// The same where the webhook's Deployment is known, which a hint may be about.
    #[must_use]
    pub(super) fn naming(mut self, (namespace, deployment): (&str, &str)) -> Self {
        if self.hint.contains("DEPLOYMENT") {
            let named = self
                .hint
                .replace("DEPLOYMENT", deployment)
                .replace("NAMESPACE", namespace);
            self.hint = named.into();
        }
        self
    }

    /// The same where something that it depends on was not looked at: a tick is for what was.
    #[must_use]
    pub(super) fn unless_unseen(mut self, unseen: &[&str]) -> Self {
        if self.status == Status::Ok && !unseen.is_empty() {
            self.status = Status::Unknown;
            self.message = format!("{}; not looked at: {}", self.message, unseen.join(", "));
        }
        self
    }

    /// The same with what is said of single objects.
    #[must_use]
    pub(super) fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}

/// `3 nodes`, `1 node`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o']));
    match (number, stem) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            section: Section,
            code: Code,
            status: &'static str,
            message: &'a str,
            details: &'a [String],
            hint: &'a str,
        }
        let hint = match self.status {
            Status::Ok => "",
            Status::Unknown | Status::Warning | Status::Failed => &self.hint,
        };
        Fields {
            section: self.code.section(),
            code: self.code,
            status: self.status.word(),
            message: &self.message,
            details: &self.details,
            hint,
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_for_what_was_looked_at() {
        let well = Finding::ok(Code::WorkloadsAdmitted, "each is admitted");
        assert_eq!(well.clone().unless_unseen(&[]), well);
        let unseen = well.unless_unseen(&["jobs", "quotas"]);
        assert_eq!(
            unseen,
            Finding::unknown(Code::WorkloadsAdmitted, "each is admitted; not looked at: jobs, quotas")
        );
        let failed = Finding::failed(Code::WorkloadRefused, "one is refused");
        assert_eq!(
            failed.clone().unless_unseen(&["jobs"]),
            failed,
            "what was seen does not get better"
        );
    }

    #[test]
    fn a_hint_names_the_deployment_that_was_found() {
        let finding = Finding::failed(Code::InjectorNotReady, "none is ready").naming(("mesh", "linkerd-outrigger"));
        let wanted = "kubectl -n mesh describe deployment linkerd-outrigger";
        assert!(finding.hint.ends_with(wanted), "{}", finding.hint);
        let other = Finding::failed(Code::ServingCertificateNotTrusted, "not trusted");
        assert_eq!(other.clone().naming(("mesh", "linkerd-outrigger")), other);
    }

    #[test]
    fn nouns_are_counted() {
        assert_eq!(count(1, "node"), "1 node");
        assert_eq!(count(0, "node"), "0 nodes");
        assert_eq!(count(2, "proxy"), "2 proxies");
        assert_eq!(count(2, "day"), "2 days");
    }
}
