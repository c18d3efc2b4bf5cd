//! Every code that the product has.

use outrigger::cli::{check, network_validator};
use outrigger::cluster::events::Reason;
use outrigger::cni::agent::EVENT_REASON;
use outrigger::cni::failure::Failure;
use outrigger::decide::{Caution, DenyReason, InjectReason, SkipReason};
use outrigger::egress::compile::hindrance::Hindrance;
use outrigger::egress::ruling;
use outrigger::egress::support::RefusalReason;

/// A code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Code {
    /// The code itself.
    pub(crate) word: String,
    /// What it is, in words.
    pub(crate) kind: String,
    /// Where to read on: a page of `docs/`, with its anchor.
    pub(crate) page: String,
}

/// All of them, in the order of the words.
pub(crate) fn all() -> Vec<Code> {
    let code = |word: &str, kind: &str, page: &str| Code {
        word: word.to_owned(),
        kind: kind.to_owned(),
        page: page.to_owned(),
    };
    let reasons = "decision.md#reason-codes";
    let events = "troubleshooting.md#the-pod-has-no-proxy";
    let mut all: Vec<_> = InjectReason::CODES
        .iter()
        .map(|word| code(word, "reason to inject", reasons))
        .chain(
            SkipReason::CODES
                .iter()
                .map(|word| code(word, "reason to skip", reasons)),
        )
        .chain(
            DenyReason::CODES
                .iter()
                .map(|word| code(word, "reason to deny", reasons)),
        )
        .chain(
            Caution::CODES
                .iter()
                .map(|word| code(word, "warning", "decision.md#warning-codes")),
        )
        .chain(check::codes().map(|(section, word, _)| {
            let kind = format!("line of `check`, section {section}");
            code(word, &kind, &format!("check.md#{section}"))
        }))
        .chain(
            Reason::CODES
                .iter()
                .map(|word| code(word, "event on the owner", events)),
        )
        .collect();
    let decided = ruling::Reason::CODES.iter();
    all.extend(decided.map(|word| code(word, "reason about a connection", "egress.md#reasons")));
    let refused = RefusalReason::CODES.iter();
    all.extend(refused.map(|word| code(word, "reason to refuse an egress policy", "egress.md#who-enforces-what")));
    let hindered = Hindrance::CODES.iter();
    all.extend(hindered.map(|word| {
        code(
            word,
            "reason why an egress policy is not programmed",
            "egress.md#who-enforces-what",
        )
    }));
    let repair = "cni-agent.md#repair";
    all.push(code(EVENT_REASON, "event on the pod", repair));
    let numbers = Failure::CODES.iter();
    all.extend(numbers.map(|number| code(&number.to_string(), "error of the CNI plugin", "cni.md#errors")));
    let status = network_validator::NOT_REDIRECTED.to_string();
    all.push(code(
        &status,
        "exit status of `network-validator`",
        "operations.md#exit-status",
    ));
    all.sort();
    all
}
