//! The answer for people: a table, then each workload with its reasons.

use super::entry::{Entry, Policy};
use crate::cli::paint::{Paint, Tone};
use crate::pod::manifest;
use anyhow::Result;
use similar::TextDiff;
use std::fmt::Write;

/// Renders `entries`, with diffs where they are asked for.
pub(in crate::cli) fn render(entries: &[Entry], diff: bool, paint: Paint) -> Result<String> {
    let mut text = table(entries, paint);
    for entry in entries {
        text.push('\n');
        details(&mut text, entry, paint)?;
        if diff {
            text.push_str(&changes(entry, paint)?);
        }
    }
    Ok(text)
}

/// One line a workload.
pub(in crate::cli) fn table(entries: &[Entry], paint: Paint) -> String {
    let mut rows = vec![["NAMESPACE", "WORKLOAD", "OUTCOME", "REDIRECTION", "REASON"].map(str::to_owned)];
    rows.extend(entries.iter().map(|entry| {
        let decision = &entry.decision;
        let words = [decision.word(), decision.redirection().word(), decision.code()].map(str::to_owned);
        let [outcome, redirection, reason] = words;
        [
            entry.namespace.clone(),
            entry.workload.clone(),
            outcome,
            redirection,
            reason,
        ]
    }));
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|it| it.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let tone = match row.get(2).map(String::as_str) {
            Some("OUTCOME") => Tone::Bold,
            Some("inject") => Tone::Green,
            Some("deny") => Tone::Red,
            _ => Tone::Plain,
        };
        text.push_str(&paint.line(line.trim_end(), tone));
    }
    text
}

fn details(text: &mut String, entry: &Entry, paint: Paint) -> Result<()> {
    let decision = &entry.decision;
    let heading = format!("{} in {}: {}", entry.workload, entry.namespace, decision.word());
    text.push_str(&paint.line(&heading, Tone::Bold));
    writeln!(text, "  {} ({})", decision.message(), decision.code())?;
    for policy in decision.policies.iter().map(Policy::of) {
        let exempt = policy
            .exempt
            .map_or_else(String::new, |what| format!(", exempt: {what}"));
        let message = if policy.message.is_empty() {
            String::new()
        } else {
            format!(": {}", policy.message)
        };
        writeln!(
            text,
            "  {} {}: {}{exempt}{message}",
            policy.by, policy.policy, policy.verdict
        )?;
    }
    for warning in &decision.warnings {
        text.push_str(&paint.line(&format!("  warning: {warning}"), Tone::Yellow));
    }
    for fact in &decision.trace {
        writeln!(text, "    - {fact}")?;
    }
    Ok(())
}

/// How the pod is changed, as a unified diff of its YAML.
pub(in crate::cli) fn changes(entry: &Entry, paint: Paint) -> Result<String> {
    if entry.decision.patch.is_empty() {
        return Ok(String::new());
    }
    let (before, after) = (manifest::to_yaml(&entry.before)?, manifest::to_yaml(&entry.after())?);
    let diff = TextDiff::from_lines(&before, &after);
    let name = format!("{}/{}", entry.namespace, entry.workload);
    let unified = diff
        .unified_diff()
        .header(&name, &format!("{name} injected"))
        .to_string();
    let tone = |line: &str| match line.chars().next() {
        Some('+') => Tone::Green,
        Some('-') => Tone::Red,
        _ => Tone::Plain,
    };
    Ok(unified.lines().map(|line| paint.line(line, tone(line))).collect())
}
