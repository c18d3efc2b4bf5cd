//! The pods that Kubernetes' own tests of Pod Security hold to be clean at a level and version, as questions to a server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use futures::{StreamExt, stream};
use kube::Client;
use outrigger::policy::Release;
use serde::Deserialize;
use serde_json::Value;

use crate::announce;
use crate::cluster::{Namespace, Reply, Verb, call};
use crate::scene::ENFORCE;

/// Requests under way at once: enough to keep the server's cores busy.
const CONCURRENCY: usize = 16;

/// The version that a label asks for where it wants the newest rules that the server has.
pub(crate) const LATEST: &str = "latest";

#[derive(Deserialize)]
struct Fixture {
    level: String,
    versions: Vec<String>,
    outcome: String,
    name: String,
    pod: Value,
}

/// May this pod be created in a namespace that enforces this level at this version?
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) level: String,
    pub(crate) version: String,
    pub(crate) pod: Value,
}

impl Question {
    /// Whether a server of `release` has the rules of this version; of a newer one it applies the newest it has.
    pub(crate) fn is_known_to(&self, release: Release) -> bool {
        self.version == LATEST || self.version.parse::<Release>().unwrap() <= release
    }

    /// Whether the pod says that it runs on Windows.
    pub(crate) fn is_for_windows(&self) -> bool {
        self.pod["spec"]["os"]["name"] == "windows"
    }
}

/// A question for each clean pod and version it is clean at, and for `latest`: on a server of `release`, that version.
pub(crate) fn questions(folder: &Path, release: Release) -> Vec<Question> {
    let file = File::open(folder.join("pod-security/fixtures.jsonl.gz")).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let fixtures = lines.map(|line| serde_json::from_str::<Fixture>(&line.unwrap()).unwrap());
    let questions: Vec<_> = fixtures
        .filter(|fixture| fixture.outcome == "pass")
        .flat_map(|fixture| about(fixture, release))
        .collect();
    assert!(
        questions.iter().any(|question| question.version == LATEST),
        "no fixture is of {release}"
    );
    questions
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

/// The release that the server tells.
pub(crate) async fn release(client: &Client) -> Release {
    let version = call(client, Verb::Get, "/version", None).await.unwrap().body;
    version["gitVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates each pod in a namespace that enforces what its question says and also has `labels` and `annotations`.
pub(crate) async fn ask(
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
        let version_key = format!("{ENFORCE}-version");
        let labels = [labels, &[(ENFORCE, level), (&version_key, version)]].concat();
        (
            (level, version),
            Namespace::create(client, level, &labels, annotations).await,
        )
    });
    let namespaces: BTreeMap<_, _> = enforcing.buffer_unordered(CONCURRENCY).collect().await;
    let ask = async |question: &Question| {
        namespaces[&(&*question.level, &*question.version)]
            .create_pod(&question.pod)
            .await
    };
    stream::iter(questions).map(ask).buffered(CONCURRENCY).collect().await
}

/// Prints, past the capture of the test runner, for how many questions `holds`: `WHAT: 38 of 38 at latest, …`.
pub(crate) fn report(what: &str, questions: &[Question], replies: &[Reply], holds: impl Fn(&Question, &Reply) -> bool) {
    let all: Vec<_> = questions.iter().zip(replies).collect();
    let (latest, _): (Vec<_>, Vec<_>) = all.iter().partition(|(question, _)| question.version == LATEST);
    let tally = |answers: &[(&Question, &Reply)]| {
        let held = answers
            .iter()
            .filter(|(question, reply)| holds(question, reply))
            .count();
        format!("{held} of {}", answers.len())
    };
    let (latest, all) = (tally(&latest), tally(&all));
    announce(&format!("{what}: {latest} at latest, {all} at every version"));
}

/// Prints which pods are refused, and in which words.
pub(crate) fn report_refusals(questions: &[Question], replies: &[Reply]) {
    for (question, reply) in questions.iter().zip(replies).filter(|(_, reply)| !reply.accepted()) {
        let Question {
            level, version, name, ..
        } = question;
        announce(&format!("  {level}:{version} refuses {name}: {}", reply.message()));
    }
}
