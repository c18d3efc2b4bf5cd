//! A situation: manifests, the cluster that they are for, and what is right.

use serde_json::{Map, Value};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub(crate) struct Situation {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) expectations: Vec<Expectation>,
    /// The prose about the cluster, on one line.
    cluster: String,
}

/// One `# expect:` line.
pub(crate) struct Expectation(Map<String, Value>);

impl Situation {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let expectations = text
            .lines()
            .filter_map(|line| line.strip_prefix("# expect:"))
            .map(|line| Expectation(serde_json::from_str(line).unwrap()))
            .collect();
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            path: path.to_owned(),
            expectations,
            cluster: section(&text, "cluster:"),
        }
    }

    /// The flags that stand for the cluster, in a variant of it.
    pub(crate) fn flags(&self, variant: Option<&str>) -> Vec<String> {
        let of_variant = variant.filter(|variant| variant.contains("cni") || *variant == "init");
        let without = match of_variant {
            Some(variant) => ["no-cni", "init"].contains(&variant),
            None => self.cluster.contains("no CNI plugin"),
        };
        let cni = if without { "none" } else { "all" };
        let mut flags = vec!["--cni".to_owned(), cni.to_owned()];
        let release = variant.and_then(release).or_else(|| {
            let (_, rest) = self.cluster.split_once("Kubernetes 1.")?;
            release(&format!("1.{rest}"))
        });
        flags.extend(release.into_iter().flat_map(|it| ["--server-version".to_owned(), it]));
        flags
    }
}

/// `1.29` of `1.29+` or of `1.29, mixed nodes`.
fn release(text: &str) -> Option<String> {
    let minor = text.strip_prefix("1.")?;
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then(|| format!("1.{digits}"))
}

/// A section of the comment at the top: the line that starts with `heading`, and those indented under it.
fn section(text: &str, heading: &str) -> String {
    let mut lines = text.lines().map_while(|line| line.strip_prefix("# "));
    let Some(first) = lines.find_map(|line| line.strip_prefix(heading)) else {
        return String::new();
    };
    let rest = lines.take_while(|line| line.starts_with("  "));
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join(" ")
}

impl Expectation {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn value(&self, key: &str) -> &Value {
        &self.0[key]
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [variant, workload] = ["variant", "workload"].map(|key| self.text(key).unwrap_or_default());
        write!(f, "{workload} {variant}")
    }
}
