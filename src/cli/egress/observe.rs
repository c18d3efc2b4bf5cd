//! `egress observe`: a log of decisions, turned into policies.

use crate::cli::names::{is_label, is_subdomain};
use crate::cli::{Verdict, input, note, print};
use crate::egress::learn::{Scope, learn};
use crate::egress::record::Record;
use crate::pod::manifest;
use anyhow::{Context, Result, ensure};
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
            let record = Record::deserialize(&object).with_context(place)?;
            workload(&record).with_context(place)?;
            records.push(record);
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

/// Checks the names that policies are made with.
fn workload(record: &Record) -> Result<()> {
    let Record {
        namespace,
        service_account,
        ..
    } = record;
    ensure!(
        is_label(namespace),
        "namespace: {namespace:?} is no name of a namespace"
    );
    ensure!(
        is_subdomain(service_account),
        "serviceAccount: {service_account:?} is no name of a service account"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn policies_are_made_with_names_that_an_api_server_takes() {
        let read = |namespace: &str, account: &str, host: &str| {
            let record = json!({"time": "", "namespace": namespace, "serviceAccount": account, "host": host, "port": 443,
                "traffic": "tls", "outcome": "observed", "reason": "host_not_listed"});
            Record::deserialize(&record)
                .context("record")
                .and_then(|record| workload(&record))
        };
        assert!(read("agents", "a.b", "api.github.com").is_ok());
        for (namespace, account, host) in [
            ("Agents", "a", "a.example"),
            ("agents", "", "a.example"),
            ("agents", "a", "a b.example"),
            ("agents", "a", "*.example.com"),
            ("agents", "a", "192.0.2.1"),
        ] {
            assert!(read(namespace, account, host).is_err(), "{namespace} {account} {host}");
        }
    }
}
