//! What the demonstration prints: a table of decisions, the words of a refusal, and one pod's diff.

use crate::Answer;
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger::pod::manifest;
use serde_json::Value;
use similar::TextDiff;
use std::fmt::Write;

/// Renders the answers: the longest part first, so that a terminal is left with the table.
pub(crate) fn render(answers: &[Answer], cluster: &[Value]) -> Result<String> {
    let mut text = String::new();
    if let Some(answer) = answers.iter().find(|answer| audit(answer, "redirection") == "cni") {
        text.push_str(&diff(answer)?);
        text.push('\n');
    }
    text.push_str(&table(answers, cluster));
    for answer in answers {
        if let Some(message) = answer.response.pointer("/status/message").and_then(Value::as_str) {
            let (gist, reasons) = message.split_once(": ").unwrap_or(("", message));
            writeln!(text, "\n{} in {} is denied: {gist}", answer.workload, answer.namespace)?;
            for reason in reasons.split("; ") {
                writeln!(text, "  {}", reason.replace(", or ", "\n    or "))?;
            }
        }
    }
    Ok(text)
}

/// One line an answer.
fn table(answers: &[Answer], cluster: &[Value]) -> String {
    let heading = ["NAMESPACE", "ENFORCES", "WORKLOAD", "OUTCOME", "REDIRECTION", "REASON"].map(str::to_owned);
    let rows = answers.iter().map(|answer| {
        let [outcome, redirection, reason] = ["decision", "redirection", "reason"].map(|key| audit(answer, key));
        let level = level(cluster, &answer.namespace);
        [
            answer.namespace.clone(),
            level,
            answer.workload.clone(),
            outcome,
            redirection,
            reason,
        ]
    });
    let rows: Vec<_> = [heading].into_iter().chain(rows).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |row: &[String; 6]| {
        let cells: Vec<_> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// What the audit log would get, without the webhook's name before the key.
fn audit(answer: &Answer, key: &str) -> String {
    let annotations = answer.response.get("auditAnnotations");
    annotations
        .and_then(|it| it.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The Pod Security level that a namespace of the cluster enforces.
fn level(cluster: &[Value], namespace: &str) -> String {
    let named = |object: &&Value| {
        object.get("kind").is_some_and(|kind| kind == "Namespace")
            && object.pointer("/metadata/name").is_some_and(|name| name == namespace)
    };
    let labels = cluster
        .iter()
        .find(named)
        .and_then(|object| object.pointer("/metadata/labels"));
    let level = labels
        .and_then(|labels| labels.get("pod-security.kubernetes.io/enforce"))
        .and_then(Value::as_str);
    level.unwrap_or("nothing").to_owned()
}

/// What the patch does to the pod.
fn diff(answer: &Answer) -> Result<String> {
    let patch = answer.response.get("patch").and_then(Value::as_str).unwrap_or_default();
    let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(patch)?)?;
    let mut after = answer.pod.clone();
    json_patch::patch(&mut after, &patch)?;
    let (before, after) = (manifest::to_yaml(&answer.pod)?, manifest::to_yaml(&after)?);
    let name = format!("a pod of {} in {}", answer.workload, answer.namespace);
    Ok(TextDiff::from_lines(&before, &after)
        .unified_diff()
        .header(&name, "the same, injected")
        .to_string())
}
