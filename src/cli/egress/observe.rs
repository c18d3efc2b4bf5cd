//! `egress observe`: a log of decisions, turned into policies.

use crate::cli::{Verdict, input, note, print};
use crate::egress::learn::{Scope, learn};
use crate::egress::record::Record;
use crate::pod::manifest;
use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;

/// Arguments of `egress observe`.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Arguments {
    /// Logs with a JSON object a line: a file, or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Make policies for whole namespaces, which the proxies enforce, instead of one service account each
    #[arg(long)]
    whole_namespace: bool,
}

/// Reads, and prints the policies.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let mut records: Vec<Record> = Vec::new();
    for log in input::read(&arguments.filename)? {
        for (number, line) in (1..).zip(log.text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let place = || format!("{}, line {number}", log.name);
            let object: Value = serde_json::from_str(line).with_context(place)?;
            // The gateway's log has other lines among its decisions.
            if object.is_object() && object.get("outcome").is_none() {
                continue;
            }
            records.push(Record::deserialize(&object).with_context(place)?);
        }
    }
    let scope = if arguments.whole_namespace {
        Scope::Namespace
    } else {
        Scope::ServiceAccount
    };
    let learned = learn(&records, scope);
    let documents: Result<Vec<_>, _> = learned.policies.iter().map(manifest::to_yaml).collect();
    print(&documents?.join("---\n"))?;
    for (reason, count) in &learned.left {
        let lines = if *count == 1 {
            "1 line".to_owned()
        } else {
            format!("{count} lines")
        };
        note(&format!("{lines} with the reason {reason}: of none a policy is made\n"));
    }
    if records.is_empty() {
        note("there are no decisions among these lines: expected the gateway's log, a JSON object a line\n");
    } else if learned.policies.is_empty() {
        note("nothing went out that no policy lists\n");
    }
    Ok(Verdict::Yes)
}
