//! What `outrigger explain -o json` says to a situation.

use crate::situation::{Expectation, Situation};
use outrigger::pod::manifest;
use outrigger::pod::workload::Kind;
use outrigger::policy::Release;
use outrigger::policy::pod_security::Server;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::process::Command;

/// The answers so far, by flags.
#[derive(Default)]
pub(crate) struct Answers(RefCell<HashMap<Vec<String>, Vec<Value>>>);

/// The answer on one workload.
pub(crate) struct Answer {
    /// The entry of `explain`.
    pub(crate) entry: Value,
    /// The pod or pod template.
    pub(crate) before: Value,
    /// The same, patched.
    pub(crate) after: Value,
    /// The server that was assumed.
    pub(crate) server: Server,
}

impl Answers {
    /// The answer on the workload that `expectation` names; nothing where `explain` has none.
    pub(crate) fn find(&self, situation: &Situation, expectation: &Expectation) -> Option<Answer> {
        let flags = situation.flags(expectation.text("variant"));
        let workload = expectation.text("workload")?;
        let mut asked = self.0.borrow_mut();
        let entries = asked.entry(flags.clone()).or_insert_with(|| explain(situation, &flags));
        let entry = entries.iter().find(|entry| entry["workload"] == workload)?.clone();
        let before = template(situation, workload)?;
        let patch: json_patch::Patch = serde_json::from_value(entry["patch"].clone()).unwrap();
        let mut after = before.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        let release = flags
            .iter()
            .skip_while(|flag| *flag != "--server-version")
            .nth(1)
            .map_or(Release::NEWEST, |text| text.parse().unwrap());
        Some(Answer {
            entry,
            before,
            after,
            server: release.into(),
        })
    }
}

fn explain(situation: &Situation, flags: &[String]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["explain", "-o", "json", "-f"])
        .arg(&situation.path)
        .args(flags)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let list: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}: {complaint}", situation.name));
    let refused = list.iter().any(|entry| {
        let last = entry["policies"].as_array().and_then(|policies| policies.last());
        entry["outcome"] == "deny" || last.is_some_and(|policy| policy["verdict"] == "denied")
    });
    assert_eq!(
        output.status.code(),
        Some(i32::from(refused)),
        "{} {flags:?}: {complaint}",
        situation.name
    );
    list
}

/// The pod, or the template of the pods, of the object called `workload`.
fn template(situation: &Situation, workload: &str) -> Option<Value> {
    let text = fs::read_to_string(&situation.path).unwrap();
    let documents = manifest::read(&text).unwrap();
    documents.iter().find_map(|document| {
        let object = &document.value;
        let kind = Kind::of(object)?;
        let metadata = &object["metadata"];
        let name = metadata["name"]
            .as_str()
            .or_else(|| metadata["generateName"].as_str())?;
        let template = object.pointer(kind.template_pointer()?)?;
        (format!("{}/{name}", kind.name()) == workload).then(|| template.clone())
    })
}
