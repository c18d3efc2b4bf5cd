//! What became of each resource, in Linkerd's words.
//!
//! A report goes to standard error, with an empty line before and after it that keeps it apart from what a terminal or
//! `kubectl` shows beside it.

use crate::cli::paint::{Paint, Tone};
use crate::cli::printable_line;
use crate::pod::workload::Kind;
use serde_json::Value;
use std::fmt;

/// What became of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    kind: String,
    name: String,
    /// Whether it is of a kind that injection knows.
    known: bool,
    outcome: Outcome,
    findings: Vec<Finding>,
    warnings: Vec<String>,
}

/// What became of a resource, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It got the proxy, or the annotations with which it will get one.
    Injected,
    /// It got annotations that others inherit or read.
    Annotated,
    /// Injection was taken out of it.
    Uninjected,
    /// It stays as it is.
    Skipped,
}

/// What a resource has that its author should think of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Its pods share the node's network.
    HostNetwork,
    /// Its pods have a proxy already, Istio's for example.
    Sidecar,
    /// It says that it is not to be injected.
    Disabled,
    /// Its pods listen on UDP, which no proxy sees.
    Udp,
    /// Its pods have no token that the proxy could use.
    Tokenless,
}

impl Report {
    /// The report on `object`.
    pub(super) fn new(object: &Value, outcome: Outcome, findings: Vec<Finding>, warnings: Vec<String>) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = ["/metadata/name", "/metadata/generateName"]
            .map(text)
            .into_iter()
            .find(|name| !name.is_empty());
        Self {
            kind: printable_line(&text("/kind").to_lowercase()),
            name: printable_line(name.unwrap_or_default()),
            known: Kind::of(object).is_some(),
            outcome,
            findings,
            warnings,
        }
    }

    /// What its author should know, one sentence each, the resource named.
    pub(in crate::cli) fn warnings(&self) -> impl Iterator<Item = String> {
        let warning = |text| format!("{}/{}: {text}", self.kind, self.name);
        self.warnings.iter().map(warning)
    }
}

impl fmt::Display for Report {
    /// Linkerd's summary line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return f.write_str("document missing \"kind\" field, skipped");
        }
        let word = match self.outcome {
            Outcome::Injected => "injected",
            Outcome::Annotated => "annotated",
            Outcome::Uninjected => "uninjected",
            Outcome::Skipped => "skipped",
        };
        write!(f, "{} \"{}\" {word}", self.kind, self.name)
    }
}

/// Writes the report of `uninject`.
pub fn of_uninjection(reports: &[Report]) -> String {
    let mut text = "\n".to_owned();
    summarise(reports, &mut text);
    text
}

/// Writes the report of `inject`; what was looked for and not found only where it is to be `verbose`.
pub fn of_injection(reports: &[Report], verbose: bool) -> String {
    in_colour(reports, verbose, Paint::PLAIN)
}

/// The same, in colour.
pub(in crate::cli) fn in_colour(reports: &[Report], verbose: bool, paint: Paint) -> String {
    let mut text = "\n".to_owned();
    for (found, fine) in [
        found(reports, Finding::HostNetwork, |names| {
            format!("\"hostNetwork: true\" detected in {}", names.join(", "))
        }),
        found(reports, Finding::Sidecar, |names| {
            format!("known 3rd party sidecar detected in {}", names.join(", "))
        }),
        found(reports, Finding::Disabled, |names| {
            format!("\"linkerd.io/inject: disabled\" annotation set on {}", names.join(", "))
        }),
        unsupported(reports),
        found(reports, Finding::Udp, |names| {
            let verb = if names.len() > 1 { "use" } else { "uses" };
            format!("{} {verb} \"protocol: UDP\"", names.join(", "))
        }),
        tokenless(reports),
    ] {
        if let Some(found) = found {
            text += &paint.signed("\u{203c}", Tone::Yellow, &found);
        } else if let Some(fine) = fine.filter(|_| verbose) {
            text += &paint.signed("\u{221a}", Tone::Green, fine);
        }
    }
    if text != "\n" {
        text.push('\n');
    }
    summarise(reports, &mut text);
    text
}

/// What is wrong, and what is said where nothing is.
type Line = (Option<String>, Option<&'static str>);

fn found(reports: &[Report], finding: Finding, sentence: impl Fn(&[String]) -> String) -> Line {
    let fine = match finding {
        Finding::HostNetwork => "pods do not use host networking",
        Finding::Sidecar => "pods do not have a 3rd party proxy or initContainer already injected",
        Finding::Disabled => "pods are not annotated to disable injection",
        Finding::Udp => "pod specs do not include UDP ports",
        Finding::Tokenless => {
            "pods do not have automountServiceAccountToken set to \"false\" or service account token projection is enabled"
        }
    };
    let with = reports.iter().filter(|report| report.findings.contains(&finding));
    let names: Vec<_> = with.map(|report| format!("{}/{}", report.kind, report.name)).collect();
    match names.is_empty() {
        true => (None, Some(fine)),
        false => (Some(sentence(&names)), None),
    }
}

fn unsupported(reports: &[Report]) -> Line {
    match reports.iter().any(|report| report.known) {
        true => (None, Some("at least one resource can be injected or annotated")),
        false => (Some("no supported objects found".to_owned()), None),
    }
}

/// Linkerd has a word for it only where there is none.
fn tokenless(reports: &[Report]) -> Line {
    let (_, fine) = found(reports, Finding::Tokenless, |_| String::new());
    (None, fine)
}

fn summarise(reports: &[Report], text: &mut String) {
    for report in reports {
        text.push_str(&report.to_string());
        text.push('\n');
    }
    text.push('\n');
}
