//! `outrigger policy evaluate`: what Pod Security or PodSecurityPolicies say to a pod, without injection and without a
//! cluster.
//!
//! With `--json-lines` a question a line in, an answer a line out, for tools; else manifests at one level of Pod
//! Security, for people.

use crate::cli::{Verdict, manifests, note, print, printable_line};
use crate::pod::Pod;
use crate::pod::workload::Kind;
use crate::policy::Release;
use crate::policy::pod_security::question::{Defaulting, answer};
use crate::policy::pod_security::{Level, Policy, Server, Version, default, evaluate};
use crate::policy::pod_security_policy;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// Arguments of `policy evaluate`.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Arguments {
    /// Manifests: files, folders (every .yaml, .yml and .json file below them), https:// URLs, or - for standard input
    #[arg(value_name = "FILE", conflicts_with = "json_lines")]
    files: Vec<PathBuf>,
    /// A folder with a kustomization, which kubectl renders
    #[arg(short, long, value_name = "FOLDER", conflicts_with_all = ["files", "json_lines"])]
    kustomize: Option<PathBuf>,
    /// Level to judge by: privileged, baseline or restricted
    #[arg(long, default_value = "restricted", conflicts_with = "json_lines")]
    level: Level,
    /// Version of the level: latest, or v1.N
    #[arg(
        long,
        default_value = "latest",
        value_name = "VERSION",
        conflicts_with = "json_lines"
    )]
    version: Version,
    /// Release of the API server that judges, 1.N [default: the newest known]
    #[arg(long, value_name = "RELEASE")]
    server_version: Option<Release>,
    /// Read questions from standard input, one a line, and answer each on a line: {id, level, version, pod} about Pod
    /// Security, {id, namespace, user, groups, policies, grants, pod} about PodSecurityPolicies
    #[arg(long)]
    json_lines: bool,
    /// With --json-lines, apply the API's defaulting to each pod first; manifests and pods before PodSecurityPolicies
    /// always get it
    #[arg(long, requires = "json_lines", conflicts_with = "files")]
    default: bool,
}

/// Judges, and prints.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let release = arguments.server_version.unwrap_or(Release::NEWEST);
    let server = release.into();
    if !arguments.json_lines {
        return arguments.judge(server);
    }
    let defaulting = if arguments.default {
        Defaulting::Defaulted
    } else {
        Defaulting::AsGiven
    };
    answer_lines(io::stdin().lock(), io::stdout().lock(), |question| {
        if pod_security_policy::question::is_asked(&question) {
            pod_security_policy::question::answer(question, release)
        } else {
            answer(question, server, defaulting)
        }
    })
}

impl Arguments {
    /// Judges every pod of the manifests, one line each.
    fn judge(&self, server: Server) -> Result<Verdict> {
        let policy = Policy {
            level: self.level,
            version: self.version,
        };
        if self.server_version.is_none() {
            note(&format!(
                "judged as by Kubernetes {}, the newest release known\n",
                server.release
            ));
        }
        let (mut verdict, mut lines) = (Verdict::Yes, Vec::new());
        for object in manifests::objects(&self.files, self.kustomize.as_deref())? {
            let Some((name, mut pod)) = pod_of(&object.value) else {
                continue;
            };
            default(&mut pod);
            let evaluation = evaluate(policy, server, &Pod::new(&pod));
            if evaluation.allowed {
                lines.push(format!("{name}: allowed by {policy}"));
            } else {
                lines.push(format!("{name}: refused by {policy}: {}", evaluation.detail));
                verdict = Verdict::No;
            }
        }
        ensure!(
            !lines.is_empty(),
            "no pods, and nothing that makes pods, in {}",
            names(self.files.iter().chain(&self.kustomize))
        );
        let lines: Vec<_> = lines.iter().map(|line| printable_line(line)).collect();
        print(&format!("{}\n", lines.join("\n")))?;
        Ok(verdict)
    }
}

fn names<'f>(files: impl Iterator<Item = &'f PathBuf>) -> String {
    let names: Vec<_> = files.map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// The pod, or the template of pods, with the name of its object.
fn pod_of(object: &Value) -> Option<(String, Value)> {
    let kind = Kind::of(object)?;
    let template = object.pointer(kind.template_pointer()?)?;
    let name = Pod::new(object).name().unwrap_or_default();
    Some((format!("{}/{name}", kind.name()), template.clone()))
}

/// Answers a question a line. Lines end at line feeds alone: strings may hold other separators.
fn answer_lines(mut input: impl BufRead, mut output: impl Write, answer: impl Fn(Value) -> Value) -> Result<Verdict> {
    let mut verdict = Verdict::Yes;
    let (mut line, mut number) = (Vec::new(), 0);
    while input.read_until(b'\n', &mut line).context("standard input")? != 0 {
        number += 1;
        if !line.trim_ascii().is_empty() {
            let answer = match serde_json::from_slice(&line) {
                Ok(question) => answer(question),
                Err(error) => json!({"error": format!("line {number}: {error}")}),
            };
            if answer.get("error").is_some() {
                verdict = Verdict::BadInput;
            }
            writeln!(output, "{answer}")?;
        }
        line.clear();
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_answered_and_the_next_one_too() {
        let input = "{\"id\": \"a\u{2028}b\"}\n\nnonsense\n{\"id\": 2}";
        let mut output = Vec::new();
        let verdict = answer_lines(
            input.as_bytes(),
            &mut output,
            |question| json!({"id": question["id"], "allowed": false}),
        );
        let lines = String::from_utf8(output).unwrap();
        let answers: Vec<_> = lines.split('\n').collect();
        assert_eq!(answers[0], "{\"allowed\":false,\"id\":\"a\u{2028}b\"}");
        assert_eq!(answers[1], "{\"error\":\"line 3: expected ident at line 1 column 2\"}");
        assert_eq!(answers[2], "{\"allowed\":false,\"id\":2}");
        assert_eq!(verdict.unwrap(), Verdict::BadInput);
    }
}
