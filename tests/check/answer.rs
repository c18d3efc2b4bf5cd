//! Running the program, and what it answers.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::poll;

/// The API server learns of a configuration by a watch, in well under a second; a busy machine takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// What `outrigger check -o json` answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Option<i32>,
    pub(crate) json: Value,
    pub(crate) said: String,
}

/// Runs `outrigger check` with `flags`.
pub(crate) fn run(kubeconfig: &Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .arg("check")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(flags)
        .env_remove("LINKERD_NAMESPACE")
        .output()
        .unwrap()
}

/// The answer in text, and the exit status.
pub(crate) fn text(kubeconfig: &Path, flags: &[&str]) -> (Option<i32>, String) {
    let output = run(kubeconfig, flags);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing to say beside it");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

impl Answer {
    /// The answer to `flags`.
    pub(crate) fn to(kubeconfig: &Path, flags: &[&str]) -> Self {
        let output = run(kubeconfig, &[&["-o", "json"], flags].concat());
        Self {
            status: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The first answer that has a line `code`.
    pub(crate) async fn until(kubeconfig: &Path, flags: &[&str], code: &str) -> Self {
        let asked = async || Some(Self::to(kubeconfig, flags)).filter(|answer| answer.has(code));
        let answer = poll(LIMIT, asked).await;
        answer.unwrap_or_else(|| panic!("no {code}: {:#?}", Self::to(kubeconfig, flags)))
    }

    /// Whether there is a line `code`.
    pub(crate) fn has(&self, code: &str) -> bool {
        self.lines().any(|line| line["code"] == code)
    }

    /// The line `code`.
    pub(crate) fn line(&self, code: &str) -> &Value {
        let found = self.lines().find(|line| line["code"] == code);
        found.unwrap_or_else(|| panic!("no {code}: {self:#?}"))
    }

    /// Status and message of the line `code`, and what it says of single objects, in one text.
    pub(crate) fn says(&self, code: &str) -> String {
        let line = self.line(code);
        let details: Vec<_> = line["details"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        let text = |key: &str| line[key].as_str().unwrap();
        format!("{}: {}\n{}", text("status"), text("message"), details.join("\n"))
    }

    /// The codes of lines that are not well, in order.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let faults = self.lines().filter(|line| line["status"] != "ok");
        faults.map(|line| line["code"].as_str().unwrap()).collect()
    }

    fn lines(&self) -> impl Iterator<Item = &Value> {
        self.json["checks"].as_array().into_iter().flatten()
    }
}
