//! PodSecurityPolicy against upstream: recorded answers of its plugin, and its own code on random questions.

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
#[path = "conformance/policies.rs"]
mod policies;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::io::{BufRead, BufReader, BufWriter, Read, Write};
    use std::path::Path;
    use std::{env, thread};

    use flate2::read::GzDecoder;
    use outrigger::policy::Release;
    use outrigger::policy::pod_security_policy::question::answer;
    use serde_json::{Map, Value, json};

    use crate::folder::conformance;
    use crate::oracle::Oracle;
    use crate::policies::Questions;

    /// The release of the plugin that was asked.
    const RELEASE: Release = Release(24);

    fn cases(folder: &Path) -> Vec<Value> {
        let file = File::open(folder.join("pod-security-policy/cases.jsonl.gz")).unwrap();
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        // Strings hold other line separators.
        let lines = text.split('\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// An answer with its errors as a set.
    fn comparable(answer: &Value, phase: &str) -> Value {
        let mut phase = answer[phase].clone();
        if let Some(errors) = phase.get_mut("errors") {
            let set: BTreeSet<_> = errors.as_array().unwrap().iter().map(ToString::to_string).collect();
            *errors = json!(set);
        }
        phase
    }

    #[test]
    fn recorded_questions_are_answered_as_upstream_does() {
        let Some(folder) = conformance() else {
            return;
        };
        let (mut compared, mut admitted, mut different) = (0, 0, Vec::new());
        for case in cases(&folder) {
            let mut question = case.clone();
            let question_fields = question.as_object_mut().unwrap();
            question_fields.retain(|key, _| !matches!(key.as_str(), "admit" | "validate"));
            let ours = answer(question, RELEASE);
            compared += 1;
            admitted += i32::from(case["admit"]["allowed"] == json!(true));
            let differs = |phase| comparable(&ours, phase) != comparable(&case, phase);
            if ours["id"] != case["id"] || differs("admit") || differs("validate") {
                different.push(format!("{case}\n  ours: {ours}"));
            }
        }
        println!(
            "pod security policy cases: {compared} cases compared, {admitted} admitted, {} different",
            different.len()
        );
        different.truncate(3);
        assert!(compared > 0 && different.is_empty(), "{}", different.join("\n"));
    }

    #[test]
    fn random_questions_are_answered_as_upstream_does() {
        let Some(folder) = conformance() else {
            return;
        };
        let oracle = Oracle::build(&folder.join("../tools/psp-oracle"));
        let number = |name, unset| env::var(name).map_or(unset, |value| value.parse().unwrap());
        let (seed, count) = (
            number("OUTRIGGER_SEED", 20_261_130),
            number("OUTRIGGER_QUESTIONS", 2_000),
        );
        let pods = cases(&folder).into_iter().map(|case| case["pod"].clone()).collect();
        let questions = Questions::about(pods);
        let mut child = oracle.start(&[]);
        let mut stdin = BufWriter::new(child.stdin.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut compared, mut admitted, mut refused_late, mut different) = (0, 0, 0, Vec::new());
        thread::scope(|scope| {
            let mut answers = stdout.lines();
            scope.spawn(|| {
                for number in 0..count {
                    writeln!(stdin, "{}", questions.question(seed, number)).unwrap();
                }
                // Dropped, so that the program sees the end.
                drop(stdin);
            });
            for number in 0..count {
                let right: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
                let question = questions.question(seed, number);
                let ours = answer(question.clone(), RELEASE);
                compared += 1;
                admitted += i32::from(right["admit"]["allowed"] == json!(true));
                refused_late += i32::from(right["validate"]["allowed"] == json!(false));
                if !agree(&ours, &right) {
                    different.push(format!("{question}\n  right: {right}\n  ours:  {ours}"));
                }
            }
        });
        assert!(child.wait().unwrap().success());
        println!(
            "pod security policy oracle, seed {seed}: {compared} cases compared, {admitted} admitted ({refused_late} of them refused in the second round), {} different",
            different.len()
        );
        different.truncate(3);
        assert!(compared > 0 && different.is_empty(), "{}", different.join("\n"));
    }

    /// Whether our answer is the program's, which prints whole pods, and errors in one text.
    fn agree(ours: &Value, right: &Value) -> bool {
        let phase = |phase: &str| {
            let (ours, right) = (&ours[phase], &right[phase]);
            ours["allowed"] == right["allowed"]
                && match right["error"].as_str() {
                    Some(text) => says_exactly(text, &ours["errors"]),
                    None => ours.get("errors").is_none(),
                }
        };
        let admit = &right["admit"];
        right.get("error").is_none()
            && ours["id"] == right["id"]
            && phase("admit")
            && phase("validate")
            && ours["admit"].get("policy") == admit.get("policy")
            && ours["admit"].get("pod") == admit.get("pod").map(digest).as_ref()
    }

    /// Whether `text` holds `errors` and nothing else. What is taken out first is long, for a text may hold another.
    fn says_exactly(text: &str, errors: &Value) -> bool {
        let mut errors: Vec<_> = errors
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error.as_str().unwrap())
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.len()));
        let (_, said) = text.split_once("is forbidden: PodSecurityPolicy: ").unwrap();
        let mut rest = said.to_owned();
        let all_said = errors.iter().all(|error| {
            let found = rest.find(error);
            if let Some(start) = found {
                rest.replace_range(start..start + error.len(), "");
            }
            found.is_some()
        });
        let frame = ["unable to admit pod: [", "unable to validate pod: ["];
        let frame = frame
            .into_iter()
            .find_map(|frame| rest.strip_prefix(frame)?.strip_suffix(']'));
        all_said && frame.unwrap_or(&rest).trim_matches(' ').is_empty()
    }

    fn digest(pod: &Value) -> Value {
        let spec = &pod["spec"];
        let mut containers = Map::new();
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
                containers.insert(format!("spec.{list}[{index}]"), container["securityContext"].clone());
            }
        }
        let mut digest = json!({
            "annotations": pod["metadata"]["annotations"],
            "securityContext": spec["securityContext"],
            "containers": containers,
        });
        if let Some(class) = spec.get("runtimeClassName") {
            digest["runtimeClassName"] = class.clone();
        }
        digest
    }
}
