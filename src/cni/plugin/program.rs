//! The API server, asked by way of `outrigger-cni-api`, which lies beside the plugin.
//!
//! TLS is larger than everything else that the plugin does, and is needed only while there is no agent: so it is a program
//! of its own. It reads a [`Question`] on standard input and writes an [`Answer`] on standard output, both JSON.

use crate::cni::call::PodName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Which pod, and by when.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// Path of the credentials.
    pub(super) kubeconfig: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// How long an answer may take.
    pub(super) milliseconds: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    /// The pod; null where the API server has none of that name.
    Pod(Option<Value>),
    Refusal(Refusal),
}

/// Why the API server told nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// Whom was asked, and what came of it.
    pub(super) why: String,
    /// Whether it may be otherwise in a moment.
    pub(super) passing: bool,
}

impl From<Result<Option<Value>, Refusal>> for Answer {
    fn from(asked: Result<Option<Value>, Refusal>) -> Self {
        asked.map_or_else(Self::Refusal, Self::Pod)
    }
}

/// The name of the program.
const NAME: &str = "outrigger-cni-api";

/// The pod called `name`; `None` where there is none.
pub(super) fn pod(kubeconfig: &str, name: &PodName, end: Instant) -> Result<Option<Value>, Refusal> {
    let left = end.saturating_duration_since(Instant::now());
    let question = Question {
        kubeconfig: kubeconfig.to_owned(),
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        milliseconds: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    };
    match run(&question) {
        Ok(Answer::Pod(pod)) => Ok(pod),
        Ok(Answer::Refusal(refusal)) => Err(refusal),
        Err(why) => Err(Refusal { why, passing: false }),
    }
}

fn run(question: &Question) -> Result<Answer, String> {
    let path = std::env::current_exe()
        .map_err(|error| error.to_string())?
        .with_file_name(NAME);
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    #[expect(clippy::disallowed_methods, reason = "the one program that the plugin runs")]
    let mut command = Command::new(&path);
    // Nothing in the runtime's environment is meant for it.
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| said(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        let question = serde_json::to_vec(question).map_err(|error| said(&error))?;
        // A program that ends before it has read everything says why itself.
        let _written = stdin.write_all(&question);
    }
    let output = child.wait_with_output().map_err(|error| said(&error))?;
    serde_json::from_slice(&output.stdout).map_err(|_not_ours| said(&"it told nothing; standard error may say why"))
}
