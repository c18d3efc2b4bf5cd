//! Pod Security against upstream: its own fixtures, and its own code on random pods.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads its cases and starts the program it compares with"
)]

#[cfg(test)]
#[path = "conformance/folder.rs"]
mod folder;
#[cfg(test)]
#[path = "conformance/mutants.rs"]
mod mutants;
#[cfg(test)]
#[path = "conformance/oracle.rs"]
mod oracle;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::{BufRead, BufReader, BufWriter, Write};
    use std::path::Path;
    use std::{env, thread};

    use flate2::read::GzDecoder;
    use outrigger::pod::Pod;
    use outrigger::policy::Release;
    use outrigger::policy::pod_security::question::{Defaulting, answer};
    use outrigger::policy::pod_security::{Policy, Server, default, evaluate};
    use serde_json::{Value, json};

    use crate::folder::conformance;
    use crate::mutants::{Dice, Mutator};
    use crate::oracle::Oracle;

    /// Every policy version at which an answer can change, the newest by its other name, and one that is too new.
    const VERSIONS: [&str; 15] = [
        "v1.0", "v1.8", "v1.19", "v1.22", "v1.23", "v1.25", "v1.27", "v1.29", "v1.31", "v1.32", "v1.34", "v1.35",
        "v1.37", "latest", "v1.99",
    ];
    const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

    fn fixtures(folder: &Path) -> Vec<Value> {
        let file = File::open(folder.join("pod-security/fixtures.jsonl.gz")).unwrap();
        let lines = BufReader::new(GzDecoder::new(file)).lines();
        lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn upstreams_fixtures_are_judged_as_upstream_does() {
        let Some(folder) = conformance() else {
            return;
        };
        let server = Server::from(Release(37));
        let mut counts = BTreeMap::new();
        let mut wrong = Vec::new();
        for fixture in fixtures(&folder) {
            let text = |key: &str| fixture[key].as_str().unwrap_or_default();
            let mut pod = fixture["pod"].clone();
            default(&mut pod);
            let pod = Pod::new(&pod);
            for version in fixture["versions"].as_array().unwrap() {
                let version = version.as_str().unwrap();
                let policy = Policy {
                    level: text("level").parse().unwrap(),
                    version: version.parse().unwrap(),
                };
                let evaluation = evaluate(policy, server, &pod);
                let passes = text("outcome") == "pass";
                if evaluation.allowed != passes || !passes && !evaluation.detail.contains(text("expect")) {
                    wrong.push(format!(
                        "{policy} {} {}: {}",
                        text("outcome"),
                        text("name"),
                        evaluation.detail
                    ));
                }
                *counts
                    .entry(format!("{} {}", text("level"), text("outcome")))
                    .or_insert(0) += 1;
            }
        }
        let judged: i32 = counts.values().sum();
        println!(
            "pod security fixtures: {judged} judged {counts:?}, {} wrong",
            wrong.len()
        );
        assert!(judged > 0 && wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn random_pods_are_judged_as_upstream_does() {
        let Some(folder) = conformance() else {
            return;
        };
        let oracle = Oracle::build(&folder.join("../tools/psa-oracle"));
        let number = |name, unset| env::var(name).map_or(unset, |value| value.parse().unwrap());
        let pods = Pods {
            seeds: fixtures(&folder)
                .into_iter()
                .map(|fixture| fixture["pod"].clone())
                .collect(),
            mutator: Mutator::new(),
            seed: number("OUTRIGGER_SEED", 20_261_130),
            count: number("OUTRIGGER_MUTANTS", 2_000),
        };
        compare(&oracle, &pods, Defaulting::AsGiven);
        compare(&oracle, &pods, Defaulting::Defaulted);
    }

    /// A reproducible run of random pods.
    struct Pods {
        seeds: Vec<Value>,
        mutator: Mutator,
        seed: u64,
        count: u64,
    }

    impl Pods {
        fn pod(&self, number: u64, defaulting: Defaulting) -> Value {
            let mut dice = Dice::new(self.seed, number);
            let mut pod = self.seeds[dice.below(self.seeds.len())].clone();
            self.mutator.mutate(&mut pod, &mut dice);
            // A typed reader takes a source that it does not know for none; here it stays what it is.
            if let (Defaulting::Defaulted, Some(volumes)) = (defaulting, pod["spec"]["volumes"].as_array_mut()) {
                volumes.retain(|volume| volume.get("futureSource").is_none() && !volume.is_null());
            }
            pod
        }

        fn questions(&self, defaulting: Defaulting) -> impl Iterator<Item = Value> {
            (0..self.count).flat_map(move |number| {
                let pod = self.pod(number, defaulting);
                LEVELS.into_iter().flat_map(move |level| {
                    let pod = pod.clone();
                    let versions = if level == "privileged" {
                        &VERSIONS[..1]
                    } else {
                        &VERSIONS[..]
                    };
                    versions
                        .iter()
                        .map(move |version| json!({"id": number, "level": level, "version": version, "pod": pod}))
                })
            })
        }
    }

    /// Asks both about every pod, level and version; 1.36 is the release of the oracle's code.
    fn compare(oracle: &Oracle, pods: &Pods, defaulting: Defaulting) {
        let arguments: &[&str] = if defaulting == Defaulting::Defaulted {
            &["-default"]
        } else {
            &[]
        };
        let mut child = oracle.start(arguments);
        let mut stdin = BufWriter::new(child.stdin.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut compared, mut refused, mut different) = (0, 0, Vec::new());
        thread::scope(|scope| {
            let mut answers = stdout.lines();
            scope.spawn(move || {
                pods.questions(defaulting)
                    .for_each(|question| writeln!(stdin, "{question}").unwrap());
                stdin.flush().unwrap();
            });
            for question in pods.questions(defaulting) {
                let right: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
                let ours = answer(question.clone(), Release(36).into(), defaulting);
                compared += 1;
                refused += i32::from(right["allowed"] == json!(false));
                if ours != right {
                    different.push(format!("{question}\n  right: {right}\n  ours:  {ours}"));
                }
            }
        });
        assert!(child.wait().unwrap().success());
        println!(
            "pod security oracle ({defaulting:?}): {} pods of seed {}, {compared} answers compared, {refused} refusals, {} different",
            pods.count,
            pods.seed,
            different.len()
        );
        different.truncate(3);
        assert!(compared > 0 && different.is_empty(), "{}", different.join("\n"));
    }
}
