//! The document in which findings reach the webhook: the data of a ConfigMap, a key for each namespace.

use super::answer::{Answer, Cause, Refuser};
use super::finding::{Finding, ago, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The ConfigMap, in the control plane's namespace.
pub const CONFIG_MAP: &str = "outrigger-probe-findings";

/// How long a finding counts. A probe of two thousand namespaces gets around in less than half an hour.
pub const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The key that is no namespace's: no name of a namespace has an underscore (RFC 1123 label).
const FORMAT_KEY: &str = "_format";

/// What it says.
const FORMAT: &str = "1";

/// Bytes of data that are written at most: the API takes 1 MiB, and its own remarks on every key come beside that.
const ROOM: usize = 900 << 10;

/// Bytes of one finding that are read at most: four times what a probe writes.
const LONGEST: usize = 8 << 10;

/// How far a finding may lie in the future: clocks of machines differ.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// What a probe has reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why nothing of it can be read.
    fault: Option<String>,
    /// Whether a probe wrote it.
    written: bool,
    findings: BTreeMap<Box<str>, Result<Arc<Finding>, String>>,
}

/// What a report says of one namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// No probe reports.
    #[default]
    Absent,
    /// Nothing that can be believed.
    Unknown {
        /// Why not.
        why: String,
    },
    /// Nothing that still counts.
    Stale {
        /// Why not.
        why: String,
    },
    /// A finding.
    Found {
        /// What was found out.
        finding: Arc<Finding>,
        /// How long ago.
        age: Duration,
    },
}

/// How many namespaces a report tells how much of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Findings that say something of a shape and still count.
    pub usable: usize,
    /// Findings that say nothing.
    pub unknown: usize,
    /// Findings that count no more.
    pub stale: usize,
    /// What is no finding.
    pub unreadable: usize,
}

/// A finding as it is written.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    at: u64,
    labels: String,
    plain: Said,
    init_container: Said,
    cni: Said,
}

/// An answer as it is written.
#[derive(Deserialize, Serialize)]
struct Said {
    verdict: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    policy: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Report {
    /// Reads the data of the ConfigMap. What is no finding is remembered as such.
    pub fn read<'d>(data: impl IntoIterator<Item = (&'d str, &'d str)>) -> Self {
        let mut report = Self::default();
        for (key, text) in data {
            if key == FORMAT_KEY {
                report.written = true;
                report.fault = (text != FORMAT).then(|| format!("{FORMAT_KEY} is {text:?}: expected {FORMAT:?}"));
                continue;
            }
            report.findings.insert(key.into(), read(text).map(Arc::new));
        }
        if !report.written && !report.findings.is_empty() {
            report.fault = Some(format!("{FORMAT_KEY} is missing: expected {FORMAT:?}"));
        }
        report
    }

    /// The data of the ConfigMap for `findings`, and how many of them it has no room for. Where they are too many, their
    /// words are left out first.
    pub fn write(findings: &[(&str, &Finding)]) -> (BTreeMap<String, String>, usize) {
        let lines = |with_words| {
            let all = findings.iter();
            all.map(move |(namespace, finding)| ((*namespace).to_owned(), write(finding, with_words)))
                .collect::<Vec<_>>()
        };
        let size = |lines: &[(String, String)]| lines.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>();
        let mut all = lines(true);
        if size(&all) > ROOM {
            all = lines(false);
        }
        let (before, mut room) = (all.len(), ROOM);
        all.retain(|(key, text)| match room.checked_sub(key.len() + text.len()) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        });
        let left_out = before - all.len();
        all.push((FORMAT_KEY.to_owned(), FORMAT.to_owned()));
        (all.into_iter().collect(), left_out)
    }

    /// Every finding by namespace, however old.
    pub fn findings(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let readable = self.findings.iter().filter(|_| self.fault.is_none());
        readable.filter_map(|(namespace, finding)| Some((&**namespace, &**finding.as_ref().ok()?)))
    }

    /// What it says of the namespace `name`, which has `labels`, at `now`, counted from 1970.
    pub fn word(&self, name: &str, labels: Option<&Map<String, Value>>, now: Duration) -> Word {
        if let Some(fault) = &self.fault {
            let why = format!("ConfigMap {CONFIG_MAP}: {fault}");
            return Word::Unknown { why };
        }
        if !self.written {
            return Word::Absent;
        }
        let finding = match self.findings.get(name) {
            Some(Ok(finding)) => finding,
            Some(Err(fault)) => {
                let why = format!("ConfigMap {CONFIG_MAP}, key {name}: {fault}");
                return Word::Unknown { why };
            }
            None => {
                let why = format!("nothing was found out in namespace {name} yet");
                return Word::Unknown { why };
            }
        };
        if finding.labels != digest(labels) {
            let why = format!("found when namespace {name} had other labels");
            return Word::Stale { why };
        }
        believe(finding, now)
    }

    /// How much it tells at `now`, whatever labels namespaces have by now.
    pub fn standing(&self, now: Duration) -> Standing {
        let mut standing = Standing::default();
        for finding in self.findings.values() {
            let counted = match finding.as_ref().map(|finding| believe(finding, now)) {
                _ if self.fault.is_some() => &mut standing.unreadable,
                Err(_) => &mut standing.unreadable,
                Ok(Word::Stale { .. }) => &mut standing.stale,
                Ok(Word::Found { finding, .. }) if finding.doubt().is_none() => &mut standing.usable,
                Ok(Word::Found { .. } | Word::Absent | Word::Unknown { .. }) => &mut standing.unknown,
            };
            *counted += 1;
        }
        standing
    }
}

/// A finding as long as it counts.
fn believe(finding: &Arc<Finding>, now: Duration) -> Word {
    let at = Duration::from_secs(finding.at);
    let age = now.saturating_sub(at);
    if at.saturating_sub(now) > AHEAD {
        let why = "found in the future: the clocks of probe and webhook differ".to_owned();
        return Word::Unknown { why };
    }
    if age > MAX_AGE {
        let why = format!("found {}, and {} is the most that counts", ago(age), minutes(MAX_AGE));
        return Word::Stale { why };
    }
    Word::Found {
        finding: Arc::clone(finding),
        age,
    }
}

fn minutes(time: Duration) -> String {
    format!("{}m", time.as_secs() / 60)
}

fn read(text: &str) -> Result<Finding, String> {
    if text.len() > LONGEST {
        return Err(format!("{} bytes: expected {LONGEST} at most", text.len()));
    }
    let line: Line = serde_json::from_str(text).map_err(|error| format!("no finding: {error}"))?;
    Ok(Finding {
        at: line.at,
        labels: line.labels,
        plain: line.plain.read("plain")?,
        init_container: line.init_container.read("init-container")?,
        cni: line.cni.read("cni")?,
    })
}

fn write(finding: &Finding, with_words: bool) -> String {
    let said = |answer: &Answer| match with_words {
        true => Said::of(answer),
        false => Said::of(&answer.wordless()),
    };
    let line = Line {
        at: finding.at,
        labels: finding.labels.clone(),
        plain: said(&finding.plain),
        init_container: said(&finding.init_container),
        cni: said(&finding.cni),
    };
    // Texts and numbers always have a JSON.
    serde_json::to_string(&line).unwrap_or_default()
}

impl Said {
    fn of(answer: &Answer) -> Self {
        let (by, policy, message) = match answer {
            Answer::Admitted => (String::new(), String::new(), String::new()),
            Answer::Refused(refusal) => (
                refusal.by.kind().to_owned(),
                refusal.by.policy(),
                refusal.message.clone(),
            ),
            Answer::Unknown(doubt) => (doubt.cause.word().to_owned(), String::new(), doubt.message.clone()),
        };
        Self {
            verdict: answer.word().to_owned(),
            by,
            policy,
            message,
        }
    }

    fn read(self, key: &str) -> Result<Answer, String> {
        let unknown = |what, value: &str| format!("{key}: {what} {value:?} is unknown");
        match self.verdict.as_str() {
            "admitted" => Ok(Answer::Admitted),
            "refused" => {
                let by = Refuser::named(&self.by, &self.policy);
                let by = by.ok_or_else(|| unknown("policy", &format!("{} {}", self.by, self.policy)))?;
                Ok(Answer::refused(by, &self.message))
            }
            "unknown" => {
                let mut all = Cause::ALL.into_iter();
                let cause = all.find(|cause| cause.word() == self.by);
                let cause = cause.ok_or_else(|| unknown("cause", &self.by))?;
                Ok(Answer::unknown(cause, &self.message))
            }
            other => Err(format!(
                "{key}: verdict is {other:?}: expected admitted, refused or unknown"
            )),
        }
    }
}
