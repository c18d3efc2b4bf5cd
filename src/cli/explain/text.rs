//! The answer for people: a table, then each workload with its reasons.
//!
//! What somebody wants first is which workloads will not run, then why, and what to do about it. Every fact that led there
//! is for those who doubt it, on demand.

use super::egress::Said;
use super::entry::{Entry, Policy};
use crate::cli::paint::{Paint, Tone};
use crate::cli::table::Table;
use crate::decide::{DenyReason, Outcome, Refusal};
use crate::pod::manifest;
use anyhow::Result;
use similar::TextDiff;

/// How much is told of each workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    /// Every fact that was looked at.
    pub(super) trace: bool,
    /// How the pod is changed.
    pub(super) diff: bool,
}

/// The answer under construction.
pub(super) struct Text {
    detail: Detail,
    paint: Paint,
    table: Table,
    details: String,
}

impl Text {
    /// A table with nothing but its head.
    pub(super) fn new(detail: Detail, paint: Paint) -> Self {
        let head = ["NAMESPACE", "WORKLOAD", "OUTCOME", "REDIRECTION", "ADMITTED", "REASON"];
        Self {
            detail,
            paint,
            table: Table::new(&head),
            details: String::new(),
        }
    }

    /// Adds a workload: one line in the table, and below it what there is to say.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<()> {
        let (row, tone) = row(entry);
        self.table.add(row.to_vec(), tone);
        if entry.goes_without_saying() && !self.detail.trace {
            return Ok(());
        }
        self.details.push('\n');
        tell(&mut self.details, entry, self.paint);
        if self.detail.trace {
            self.details.push_str("  trace:\n");
            let facts = entry.decision.trace.facts().iter();
            let line = |fact| self.paint.line(&format!("    - {fact}"), Tone::Plain);
            self.details.extend(facts.map(line));
        }
        if self.detail.diff {
            self.details.push_str(&changes(entry, self.paint)?);
        }
        Ok(())
    }

    /// The whole.
    pub(super) fn render(&self) -> String {
        self.table.render(self.paint, "") + &self.details
    }
}

/// One line of the table.
fn row(entry: &Entry) -> ([String; 6], Tone) {
    let decision = &entry.decision;
    let (admitted, tone) = match (decision.would_be_refused(), &decision.outcome) {
        (true, _) => ("no", Tone::Red),
        (false, Outcome::Inject { .. }) => ("yes", Tone::Green),
        (false, Outcome::Skip(_) | Outcome::Deny(_)) => ("yes", Tone::Plain),
    };
    let row = [
        entry.namespace.as_str(),
        entry.workload.as_str(),
        decision.word(),
        decision.redirection().word(),
        admitted,
        decision.code(),
    ];
    (row.map(str::to_owned), tone)
}

/// The reason, what the policies say, and warnings.
fn tell(text: &mut String, entry: &Entry, paint: Paint) {
    let decision = &entry.decision;
    let mut say = |line: &str, tone| text.push_str(&paint.line(line, tone));
    let heading = format!("{} in {}: {}", entry.workload, entry.namespace, decision.word());
    say(&heading, Tone::Bold);
    if let Outcome::Deny(DenyReason::NoRedirection(refusal)) = &decision.outcome {
        say(&format!("  {} ({})", Refusal::GIST, decision.code()), Tone::Red);
        let settings = refusal.obstacles.iter().map(|obstacle| &obstacle.setting);
        let obstacles = refusal.attempts.iter().chain(settings);
        obstacles.for_each(|obstacle| say(&format!("    - {obstacle}"), Tone::Plain));
        say("  ways out, each enough by itself:", Tone::Plain);
        let ways_out = refusal.ways_out.iter();
        ways_out.for_each(|way| say(&format!("    - {way}"), Tone::Plain));
    } else if !entry.is_service() {
        let tone = if matches!(decision.outcome, Outcome::Deny(_)) {
            Tone::Red
        } else {
            Tone::Plain
        };
        say(&format!("  {} ({})", decision.message(), decision.code()), tone);
        for line in decision.policies.iter().flat_map(|opinion| Policy::of(opinion).lines()) {
            say(&format!("  {line}"), Tone::Plain);
        }
        if decision.would_be_refused() && !matches!(decision.outcome, Outcome::Deny(_)) {
            say(
                "  the pod is refused as it came, whether it is injected or not",
                Tone::Red,
            );
        }
    }
    if let Some(ports) = entry.opaque_ports() {
        say(
            &format!("  it gets the annotation config.linkerd.io/opaque-ports: {ports}"),
            Tone::Plain,
        );
    }
    for line in entry.egress.iter().flat_map(Said::lines) {
        say(&format!("  {line}"), Tone::Plain);
    }
    for warning in &decision.warnings {
        say(&format!("  warning: {warning}"), Tone::Yellow);
    }
}

impl Policy<'_> {
    /// The verdict, and what else the API server will say, a line each.
    fn lines(&self) -> Vec<String> {
        let exempt = self.exempt.map_or_else(String::new, |what| format!(", exempt: {what}"));
        let message = match self.message {
            "" => String::new(),
            message => format!(": {message}"),
        };
        let mut lines = vec![format!(
            "{} {}: {}{exempt}{message}",
            self.by, self.policy, self.verdict
        )];
        lines.extend(match (self.warning, self.audit) {
            (Some(warning), Some(audit)) if warning == audit => vec![format!("  warns and audits: {warning}")],
            (warning, audit) => [("warns", warning), ("audits", audit)]
                .into_iter()
                .filter_map(|(verb, text)| Some(format!("  {verb}: {}", text?)))
                .collect(),
        });
        lines
    }
}

/// How the pod is changed, as a unified diff of its YAML.
fn changes(entry: &Entry, paint: Paint) -> Result<String> {
    if entry.decision.patch.is_empty() {
        return Ok(String::new());
    }
    let (before, after) = (manifest::to_yaml(&entry.before)?, manifest::to_yaml(&entry.after()?)?);
    let diff = TextDiff::from_lines(&before, &after);
    let name = format!("{}/{}", entry.namespace, entry.workload);
    let unified = diff
        .unified_diff()
        .header(&format!("{name} (pod)"), &format!("{name} (pod, injected)"))
        .to_string();
    let tone = |line: &str| match line.chars().next() {
        Some('+') => Tone::Green,
        Some('-') => Tone::Red,
        _ => Tone::Plain,
    };
    Ok(unified.lines().map(|line| paint.line(line, tone(line))).collect())
}
