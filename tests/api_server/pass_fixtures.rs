//! The property that names the product: what a level admits without the proxy, it admits with it.
//!
//! The pods are the ones that Kubernetes' own tests of Pod Security hold to be clean at a level and version. The control
//! group asks a real server about each as it is; what the server refuses then is not injection's doing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write, stderr};
use std::path::Path;

use flate2::read::GzDecoder;
use futures::{StreamExt, stream};
use kube::Client;
use outrigger::policy::Release;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{Namespace, Reply, Verb, call, shared};
use crate::conformance_folder::conformance;

/// Requests under way at once: enough to keep the server's cores busy.
const CONCURRENCY: usize = 16;

/// The version that a label asks for where it wants the newest rules that the server has.
const LATEST: &str = "latest";

#[derive(Deserialize)]
struct Fixture {
    level: String,
    versions: Vec<String>,
    outcome: String,
    name: String,
    pod: Value,
}

/// May this pod be created in a namespace that enforces this level at this version?
struct Question {
    name: String,
    level: String,
    version: String,
    pod: Value,
}

impl Question {
    /// Whether a server of `release` has the rules of this version; of a newer one it applies the newest it has.
    fn is_known_to(&self, release: Release) -> bool {
        self.version == LATEST || self.version.parse::<Release>().unwrap() <= release
    }
}

#[tokio::test]
async fn what_a_level_admits_it_admits_injected() {
    let Some(folder) = conformance() else { return };
    let client = shared().await.client().await;
    let release = release(&client).await;
    let questions = questions(&folder, release);
    assert!(
        questions.iter().any(|question| question.version == LATEST),
        "no fixture is of {release}"
    );

    let control = ask(&client, &questions, &[], &[]).await;
    report("un-injected", &questions, &control).unwrap();
    for (question, reply) in questions
        .iter()
        .zip(&control)
        .filter(|(question, _)| question.is_known_to(release))
    {
        assert!(reply.accepted(), "at {}: {}", question.version, reply.message());
    }
}

/// A question for each clean pod and version it is clean at, and for `latest`: on a server of `release`, that version.
fn questions(folder: &Path, release: Release) -> Vec<Question> {
    let file = File::open(folder.join("pod-security/fixtures.jsonl.gz")).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let fixtures = lines.map(|line| serde_json::from_str::<Fixture>(&line.unwrap()).unwrap());
    fixtures
        .filter(|fixture| fixture.outcome == "pass")
        .flat_map(|fixture| about(fixture, release))
        .collect()
}

fn about(mut fixture: Fixture, release: Release) -> Vec<Question> {
    // The fixtures never meet an API server, which takes no underscore in a name.
    let name = fixture.name.replace('_', "-");
    fixture.pod["metadata"]["name"] = name.clone().into();
    if fixture.versions.contains(&format!("v{release}")) {
        fixture.versions.push(LATEST.to_owned());
    }
    let question = |version| Question {
        name: name.clone(),
        level: fixture.level.clone(),
        version,
        pod: fixture.pod.clone(),
    };
    fixture.versions.into_iter().map(question).collect()
}

async fn release(client: &Client) -> Release {
    let version = call(client, Verb::Get, "/version", None).await.unwrap().body;
    version["gitVersion"].as_str().unwrap().parse().unwrap()
}

/// What the server answers to each question, in namespaces that also have `labels` and `annotations`.
async fn ask(
    client: &Client,
    questions: &[Question],
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Vec<Reply> {
    let policies: BTreeSet<_> = questions
        .iter()
        .map(|question| (&*question.level, &*question.version))
        .collect();
    let enforcing = stream::iter(policies).map(async |(level, version)| {
        let prefix = "pod-security.kubernetes.io/enforce";
        let version_key = format!("{prefix}-version");
        let labels = [labels, &[(prefix, level), (&version_key, version)]].concat();
        (
            (level, version),
            Namespace::create(client, level, &labels, annotations).await,
        )
    });
    let namespaces: BTreeMap<_, _> = enforcing.buffer_unordered(CONCURRENCY).collect().await;
    let ask = async |question: &Question| {
        namespaces[&(&*question.level, &*question.version)]
            .try_pod(&question.pod)
            .await
    };
    stream::iter(questions).map(ask).buffered(CONCURRENCY).collect().await
}

/// Prints how many pods were admitted, past the capture of the test runner, and which were not.
fn report(group: &str, questions: &[Question], replies: &[Reply]) -> io::Result<()> {
    let all: Vec<_> = questions.iter().zip(replies).collect();
    let (latest, _): (Vec<_>, Vec<_>) = all.iter().partition(|(question, _)| question.version == LATEST);
    let tally = |answers: &[(&Question, &Reply)]| {
        let admitted = answers.iter().filter(|(_, reply)| reply.accepted()).count();
        format!("{admitted} of {}", answers.len())
    };
    let mut out = stderr().lock();
    writeln!(
        out,
        "clean pods admitted {group}: {} at latest, {} at every version",
        tally(&latest),
        tally(&all)
    )?;
    for (question, reply) in all.iter().filter(|(_, reply)| !reply.accepted()) {
        writeln!(
            out,
            "  {}:{} refuses {}: {}",
            question.level,
            question.version,
            question.name,
            reply.message()
        )?;
    }
    Ok(())
}
