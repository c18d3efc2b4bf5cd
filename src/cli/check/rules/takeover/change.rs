//! What becomes of the next pod of a workload today, and what would where ours has taken over.

use super::super::admission::Webhook;
use super::super::workloads::Judged;
use crate::cli::check::code::Code;
use crate::decide::linkerd::Linkerds;
use crate::inject::Redirection;
use serde_json::Value;

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Fate {
    /// It gets no proxy.
    LeftAlone,
    /// It gets one.
    Injected(Redirection),
    /// It is not admitted.
    Refused,
}

/// A workload whose next pod has another fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) struct Change {
    pub(in crate::cli::check) namespace: String,
    /// `Kind/name`
    pub(in crate::cli::check) workload: String,
    pub(in crate::cli::check) today: Fate,
    pub(in crate::cli::check) then: Fate,
    /// Our reason as a word, and as a sentence.
    pub(in crate::cli::check) reason: &'static str,
    pub(in crate::cli::check) message: String,
}

/// Who is asked about the pods of a workload.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Registrations<'a> {
    /// Linkerd's.
    pub(in crate::cli::check) today: &'a Webhook<'a>,
    /// Ours.
    pub(in crate::cli::check) then: &'a Webhook<'a>,
}

/// The reason where our registration does not select the pod.
const NOT_SELECTED: &str = "not_selected";

impl Fate {
    /// The word in JSON and in the table.
    pub(in crate::cli::check) fn word(self) -> &'static str {
        match self {
            Self::LeftAlone => "no-proxy",
            Self::Injected(Redirection::None) => "no-redirection",
            Self::Injected(redirection) => redirection.word(),
            Self::Refused => "refused",
        }
    }
}

impl Change {
    /// Compares what `linkerds` makes of a workload's pods with `judged`; nothing where it comes to the same.
    pub(in crate::cli::check) fn between(
        linkerds: &Linkerds,
        judged: &Judged,
        registrations: Registrations<'_>,
        namespace_labels: &Value,
    ) -> Option<Self> {
        // A pod that policies refuse as it comes stays refused, whoever is asked.
        if judged.refused && judged.outcome != "deny" {
            return None;
        }
        let Registrations { today, then } = registrations;
        let today = match (today.keeps_out(namespace_labels, &judged.labels), linkerds) {
            (Some(_), _) | (None, Linkerds::LeftAlone(_)) => Fate::LeftAlone,
            (None, Linkerds::Injected(redirection)) => Fate::Injected(*redirection),
            (None, Linkerds::Refused(_)) => Fate::Refused,
        };
        let (then, reason, message) = match then.keeps_out(namespace_labels, &judged.labels) {
            Some(unmet) => {
                let message = format!("our registration does not select it, which wants {unmet}");
                (Fate::LeftAlone, NOT_SELECTED, message)
            }
            None => (of(judged), judged.reason, judged.message.clone()),
        };
        (today != then).then(|| Self {
            namespace: judged.namespace.clone(),
            workload: judged.workload.clone(),
            today,
            then,
            reason,
            message,
        })
    }

    /// The line that tells of it.
    pub(in crate::cli::check) fn code(&self) -> Code {
        match (self.today, self.then) {
            (_, Fate::Refused) => Code::TakeoverDenied,
            (Fate::Refused, _) => Code::TakeoverAdmitted,
            (_, Fate::LeftAlone) => Code::TakeoverLeftAlone,
            (Fate::LeftAlone, Fate::Injected(_)) => Code::TakeoverMeshed,
            (Fate::Injected(_), Fate::Injected(_)) => Code::TakeoverRedirected,
        }
    }

    /// What is said of it below that line.
    pub(super) fn describe(&self) -> String {
        let Self {
            namespace,
            workload,
            reason,
            message,
            ..
        } = self;
        format!("{namespace}/{workload}: {message} ({reason})")
    }
}

fn of(judged: &Judged) -> Fate {
    match judged.outcome {
        "inject" => Fate::Injected(judged.redirection),
        "deny" => Fate::Refused,
        _ => Fate::LeftAlone,
    }
}
