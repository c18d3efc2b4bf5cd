//! `outrigger check`: what the next pod of every meshed workload would meet, and whether what it needs is there.
//!
//! Facts are gathered once (`gather`), judged by pure functions (`rules`), and printed (`text`). Nothing is created: the
//! API server is asked for lists, for reviews of access, and for dry runs.

use super::installation::{self, Connection, ControlPlane};
use super::{Verdict, print};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

mod attempts;
mod code;
mod examination;
mod finding;
mod gather;
mod rules;
mod text;

use finding::{Finding, Status};
use rules::takeover::change::Change;
use rules::workloads::Judged;

/// Arguments of `check`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Before an installation: whether you may install, what would change, whether nodes need the CNI plugin
    #[arg(long)]
    pre: bool,
    /// Running pods too: proxies that are missing, and why, old, not ready, or passed by
    #[arg(long, conflicts_with = "pre")]
    proxy: bool,
    /// Workloads of this namespace alone [default: of all]
    #[arg(short, long, value_name = "NAME", value_parser = installation::namespace)]
    namespace: Option<String>,
    /// text for people, json for machines
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
    /// Where the webhook is reached from here, for a look at its certificate [default: its Service's address]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    webhook_address: Option<String>,
    #[command(flatten)]
    control_plane: ControlPlane,
    #[command(flatten)]
    cluster: Connection,
}

/// Every code that a line can have: its section, its word, and what to do about it, which is empty where there is nothing to do.
pub fn codes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let all = code::Code::ALL.iter();
    all.map(|code| (code.section().word(), code.word(), code.cure()))
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each check, in sections.
    Text,
    /// An object with `checks` and `workloads`.
    Json,
}

/// Everything that is printed.
#[derive(Debug)]
struct Answer {
    findings: Vec<Finding>,
    workloads: Vec<Judged>,
    /// Before an installation, the workloads whose next pod has another fate than with Linkerd's injector.
    changes: Option<Vec<Change>>,
}

/// Checks, and says whether something does not work.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(Box::pin(examination::examine(arguments)))?;
    match arguments.output {
        Format::Text => print(&text::render(&answer, super::paint::stdout_paint()))?,
        Format::Json => print(&format!("{}\n", answer.to_json()))?,
    }
    Ok(match answer.status() {
        Status::Failed => Verdict::No,
        Status::Ok | Status::Unknown | Status::Warning => Verdict::Yes,
    })
}

/// Reads an address.
fn address(text: &str) -> Result<String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let valid = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0);
    ensure!(valid, "expected HOST:PORT");
    Ok(text.to_owned())
}

impl Answer {
    /// The worst of all.
    fn status(&self) -> Status {
        let all = self.findings.iter().map(|finding| finding.status);
        all.max().unwrap_or(Status::Ok)
    }

    fn to_json(&self) -> Value {
        let workloads: Vec<_> = self
            .workloads
            .iter()
            .filter(|it| it.asked)
            .map(Judged::to_json)
            .collect();
        let mut answer = json!({
            "status": self.status().word(),
            "checks": self.findings,
            "workloads": workloads,
        });
        if let (Some(changes), Some(answer)) = (&self.changes, answer.as_object_mut()) {
            let changes = changes.iter().map(Change::to_json).collect();
            answer.insert("takeover".to_owned(), changes);
        }
        answer
    }
}

impl Judged {
    fn to_json(&self) -> Value {
        let warnings: Vec<_> = self
            .warnings
            .iter()
            .map(|(caution, text)| format!("{}: {text}", caution.code()))
            .collect();
        json!({
            "workload": self.workload,
            "namespace": self.namespace,
            "outcome": self.outcome,
            "reason": self.reason,
            "message": self.message,
            "redirection": self.redirection.word(),
            "admitted": !self.refused,
            "policy": self.policy,
            "learned_from": self.learned_from,
            "objections": self.objections,
            "warnings": warnings,
        })
    }
}

impl Change {
    fn to_json(&self) -> Value {
        json!({
            "workload": self.workload,
            "namespace": self.namespace,
            "today": self.today.word(),
            "then": self.then.word(),
            "change": self.code(),
            "reason": self.reason,
            "message": self.message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for text in ["localhost:8443", "[::1]:1", "10.0.0.1:443"] {
            assert_eq!(address(text).unwrap(), text);
        }
        for text in ["", ":1", "a:", "a:0", "a:65536", "a", "https://a/"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
