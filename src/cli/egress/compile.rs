//! `egress compile`: what Linkerd's proxies are told, and what becomes of each policy.

use super::{Format, Place, Read, read};
use crate::cli::manifests::Manifests;
use crate::cli::names::is_label;
use crate::cli::paint::{Tone, stderr_paint};
use crate::cli::table::Table;
use crate::cli::{Verdict, installation, note_as_is, print};
use crate::egress::compile::status::{Condition, Verdict as Outcome};
use crate::egress::compile::{GatewayService, Surroundings, compile};
use crate::pod::manifest;
use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;

/// Arguments of `egress compile`.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    manifests: Manifests,
    /// Namespace of policies that name none
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = installation::namespace)]
    namespace: String,
    #[command(flatten)]
    place: Place,
    /// Service of the egress gateway, to which its policies send what they list
    #[arg(long, value_name = "NAME.NAMESPACE", default_value = "outrigger-egress-gateway.linkerd", value_parser = service)]
    gateway: GatewayService,
    /// text: YAML on standard output, a table of the policies on standard error; json: both in one object
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// Compiles, and prints. A policy that is not enforced as it is written is the answer "no"; where one cannot be read, nothing is
/// compiled.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let Read {
        policies,
        errors,
        objects,
    } = read(&arguments.manifests, &arguments.namespace)?;
    let values = objects.iter().map(|object| &object.value);
    let surroundings = Surroundings {
        gateway: Some(arguments.gateway.clone()),
        cluster_networks: arguments.place.cluster_network.clone(),
        ..Surroundings::read(values, &arguments.place.global_namespace, &arguments.namespace)
    };
    let mut compiled = compile(&policies, &surroundings);
    let is_readable = errors.is_empty();
    if !is_readable {
        // Nothing is applied of what is half understood.
        compiled.objects.clear();
    }
    compiled.refuse(errors);
    match arguments.output {
        Format::Json => {
            let answer = json!({"objects": compiled.objects, "policies": compiled.verdicts});
            print(&manifest::to_json(&answer))?;
        }
        Format::Text => {
            let documents: Result<Vec<_>, _> = compiled.objects.iter().map(manifest::to_yaml).collect();
            print(&documents?.join("---\n"))?;
            note_as_is(&table(&compiled.verdicts));
        }
    }
    Ok(match (is_readable, compiled.verdicts.iter().all(Outcome::is_good)) {
        (false, _) => Verdict::BadInput,
        (true, false) => Verdict::No,
        (true, true) => Verdict::Yes,
    })
}

/// Reads `NAME.NAMESPACE`.
pub(in crate::cli) fn service(text: &str) -> Result<GatewayService> {
    let parts = text.split_once('.').filter(|(name, _)| is_label(name));
    let (name, namespace) = parts.ok_or_else(|| anyhow!("{text:?} is no Service: expected NAME.NAMESPACE"))?;
    Ok(GatewayService {
        name: name.to_owned(),
        namespace: installation::namespace(namespace)?,
    })
}

/// A line for each policy, and below it what there is to say.
fn table(outcomes: &[Outcome]) -> String {
    let paint = stderr_paint();
    let mut table = Table::new(&["POLICY", "ACCEPTED", "PROGRAMMED"]);
    let mut details = String::new();
    for outcome in outcomes {
        let tone = if outcome.is_good() { Tone::Green } else { Tone::Red };
        let [accepted, programmed] = outcome.conditions.each_ref().map(word);
        table.add(vec![outcome.policy.clone(), accepted, programmed], tone);
        for condition in outcome
            .conditions
            .iter()
            .filter(|condition| !condition.message.is_empty())
        {
            let line = format!("{}: {}: {}", outcome.policy, condition.reason, condition.message);
            let tone = if condition.status == "False" {
                Tone::Red
            } else {
                Tone::Plain
            };
            details.push_str(&paint.line(&line, tone));
        }
    }
    let gap = if details.is_empty() { "" } else { "\n" };
    format!("{}{gap}{details}", table.render(paint, ""))
}

/// `yes`, or the reason.
fn word(condition: &Condition) -> String {
    match condition.status {
        "True" if condition.reason == condition.kind => "yes".to_owned(),
        "True" => format!("yes, {}", condition.reason),
        "False" => format!("no, {}", condition.reason),
        _ => condition.reason.to_owned(),
    }
}
