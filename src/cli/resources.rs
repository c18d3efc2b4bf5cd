//! What `inject` and `uninject` have in common: documents in, each resource changed on its own, documents out.
//!
//! One document at a time is in memory. What comes out waits in a `spool` until the last document is
//! through: as with Linkerd, nothing is printed where anything is wrong.

mod output;
mod progress;
pub mod report;

pub use report::{Finding, Outcome, Report};

use super::input::Sources;
use anyhow::Result;
use clap::ValueEnum;
use output::{Output, Written};
use progress::Progress;
use serde_json::Value;
use std::io;

/// How documents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML, each document followed by a separator; what nothing changed is written as it came.
    Yaml,
    /// JSON, one document a line.
    Json,
}

/// A resource after the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The resource.
    pub value: Value,
    /// What became of it.
    pub outcome: Outcome,
    /// What its author should think of.
    pub findings: Vec<Finding>,
    /// What its author should know, one sentence each.
    pub warnings: Vec<String>,
}

impl Changed {
    /// A change that nobody need be warned of.
    pub fn new(value: Value, outcome: Outcome) -> Self {
        Self {
            value,
            outcome,
            findings: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// A resource after the change, or why it cannot be changed.
pub type Change = Result<Changed, String>;

/// Everything that came of the sources.
pub(super) struct Transformed {
    /// The documents.
    output: Written,
    /// One report a resource.
    pub(super) reports: Vec<Report>,
    /// What could not be changed, one sentence a resource.
    pub(super) errors: Vec<String>,
}

impl Transformed {
    /// Prints the documents, then warnings, then `report`.
    pub(super) fn print(mut self, report: impl FnOnce(&[Report]) -> String) -> Result<()> {
        let Written { start, rest } = &mut self.output;
        super::print_with(|output| {
            output.write_all(start.as_bytes())?;
            io::copy(rest, output).map(|_| ())
        })?;
        for warning in self.reports.iter().flat_map(Report::warnings) {
            super::warn(&warning);
        }
        super::note_as_is(&report(&self.reports));
        Ok(())
    }
}

/// Applies `change` to every resource of `sources`.
pub(super) fn transform(sources: &Sources, format: Format, change: impl Fn(&Value) -> Change) -> Result<Transformed> {
    let mut output = Output::new(format);
    let mut progress = Progress::new();
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for source in &sources.all {
        let mut first = true;
        source.each_piece(|piece| {
            let mut changed = Vec::new();
            for document in piece.documents()? {
                match change_document(&document.value, &change, &mut reports) {
                    Ok(value) => changed.push((document, value)),
                    Err(more) => errors.extend(more),
                }
            }
            progress.tell(reports.len());
            // What will not be printed need not be written.
            if errors.is_empty() {
                output.write(piece, &changed, first)?;
            }
            first = false;
            Ok(())
        })?;
    }
    drop(progress);
    Ok(Transformed {
        output: output.finish()?,
        reports,
        errors,
    })
}

/// Changes a document, the items of a `List` one by one. What is no resource stays as it is.
pub fn change_document(
    value: &Value,
    change: &impl Fn(&Value) -> Change,
    reports: &mut Vec<Report>,
) -> Result<Value, Vec<String>> {
    let is_list = value.get("kind").is_some_and(|kind| kind == "List");
    let fields = value.as_object().filter(|_| is_list);
    let list = fields.and_then(|fields| Some((fields, fields.get("items")?.as_array()?)));
    let Some((fields, items)) = list else {
        let changed = change(value).map_err(|error| vec![error])?;
        reports.push(Report::new(value, changed.outcome, changed.findings, changed.warnings));
        return Ok(changed.value);
    };
    let (mut changed, mut errors) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        match change_document(item, change, reports) {
            Ok(item) => changed.push(item),
            Err(more) => errors.extend(more),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let others = fields.iter().filter(|(key, _)| *key != "items");
    let mut list: serde_json::Map<_, _> = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    list.insert("items".to_owned(), changed.into());
    Ok(list.into())
}

#[cfg(test)]
mod tests;
