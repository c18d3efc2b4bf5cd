//! Network configurations as text: our entry is put into a list, kept, found and taken out, and nothing else is touched.
//!
//! Edits are splices of the text, never a rewrite: keys, their order, numbers and blanks of others stay as they were
//! written, and taking out what was put in gives the same bytes back. What a runtime would not read is an error and left
//! alone. Source: the CNI specification, section 1, and libcni's `ConfListFromBytes` and `ConfFromBytes`.

pub mod folder;

use super::version::Version;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::Range;

/// The type of our entry: the file name of the plugin.
pub const PLUGIN: &str = "outrigger-cni";

/// The version of a list made of a configuration that names none; the first chained one that every plugin speaks, and the
/// one that Linkerd's installer writes.
const DEFAULT_VERSION: &str = "0.3.1";

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It is no such JSON, perhaps half-written.
    #[error("it cannot be decoded: {0}")]
    Decode(String),
    /// It has no name.
    #[error("it has no \"name\"; expected the name of the network")]
    NoName,
    /// It has no plugins.
    #[error("its \"plugins\" are empty or missing; expected a list of them in the file itself")]
    NoPlugins,
    /// A plugin has no type.
    #[error("it has a plugin without a \"type\"")]
    NoType,
    /// It holds nothing but our entry.
    #[error("no plugin is in it but {PLUGIN}; expected one that makes the pod's interface")]
    NoPrimary,
    /// It is fine, but its version has no chains, or is newer than the plugin.
    #[error("its \"cniVersion\" is {0:?}; expected one of 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0")]
    Version(String),
}

impl ConfigurationError {
    /// Whether a runtime would use the configuration all the same.
    pub fn is_used(&self) -> bool {
        matches!(self, Self::NoPrimary | Self::Version(_))
    }
}

/// A list of plugins, `.conflist`.
#[derive(Clone, Debug)]
pub struct List<'a> {
    text: &'a str,
    /// Name of the network.
    pub name: String,
    /// Its version, one that the plugin speaks.
    pub version: String,
    plugins: Vec<Plugin>,
}

/// One plugin of a list.
#[derive(Clone, Debug)]
struct Plugin {
    span: Range<usize>,
    ours: bool,
}

/// A single plugin, `.conf` or `.json`.
#[derive(Clone, Debug)]
pub struct Single<'a> {
    text: &'a str,
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Head<'a> {
    name: Option<String>,
    #[serde(rename = "cniVersion")]
    version: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    plugins: Option<&'a RawValue>,
}

impl<'a> List<'a> {
    /// Reads a list.
    ///
    /// # Errors
    /// Where a runtime would not use it, or it has no place for our entry.
    pub fn read(text: &'a str) -> Result<Self, ConfigurationError> {
        let head: Head<'a> = decode(text)?;
        let name = named(head.name)?;
        let plugins = head.plugins.ok_or(ConfigurationError::NoPlugins)?;
        let plugins: Vec<&RawValue> = decode(plugins.get())?;
        let plugins: Vec<Plugin> = plugins
            .iter()
            .map(|plugin| Plugin::read(text, plugin))
            .collect::<Result<_, _>>()?;
        if plugins.is_empty() {
            return Err(ConfigurationError::NoPlugins);
        }
        if plugins.iter().all(|plugin| plugin.ours) {
            return Err(ConfigurationError::NoPrimary);
        }
        let version = head.version.unwrap_or_default();
        if version.parse::<Version>().is_err() {
            return Err(ConfigurationError::Version(version));
        }
        Ok(Self {
            text,
            name,
            version,
            plugins,
        })
    }

    /// Our entry as it stands in the text.
    pub fn entry(&self) -> Option<&'a str> {
        let ours = self.plugins.iter().find(|plugin| plugin.ours)?;
        self.text.get(ours.span.clone())
    }

    /// The text with `entry` in it exactly once: where ours was, else behind the last plugin.
    pub fn with(&self, entry: &Value) -> Cow<'a, str> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut ours = self.plugins.iter().enumerate().filter(|(_, plugin)| plugin.ours);
        match ours.next() {
            None => {
                let end = self.plugins.last().map_or(0, |plugin| plugin.span.end);
                let blank = self.blank();
                edits.push((end..end, format!(",{blank}{}", render(entry, blank))));
            }
            Some((_, kept)) => {
                let written = self.text.get(kept.span.clone()).unwrap_or_default();
                if serde_json::from_str::<Value>(written).ok().as_ref() != Some(entry) {
                    edits.push((kept.span.clone(), render(entry, self.blank())));
                }
            }
        }
        edits.extend(ours.map(|(index, _)| (self.with_comma(index), String::new())));
        splice(self.text, &edits)
    }

    /// The text without our entry.
    pub fn without(&self) -> Cow<'a, str> {
        let first = self.plugins.iter().position(|plugin| !plugin.ours).unwrap_or_default();
        let mut edits = Vec::new();
        if let (Some(ours), Some(primary)) = (self.plugins.first(), self.plugins.get(first))
            && first > 0
        {
            edits.push((ours.span.start..primary.span.start, String::new()));
        }
        let later = self.plugins.iter().enumerate().skip(first);
        let later = later.filter(|(_, plugin)| plugin.ours);
        edits.extend(later.map(|(index, _)| (self.with_comma(index), String::new())));
        splice(self.text, &edits)
    }

    /// A plugin, but not the first, with the comma before it.
    fn with_comma(&self, index: usize) -> Range<usize> {
        let before = index.checked_sub(1).and_then(|index| self.plugins.get(index));
        let end = self.plugins.get(index).map_or(0, |plugin| plugin.span.end);
        before.map_or(end, |plugin| plugin.span.end)..end
    }

    /// The blanks before the last plugin.
    fn blank(&self) -> &'a str {
        let start = self.plugins.last().map_or(0, |plugin| plugin.span.start);
        let before = self.text.get(..start).unwrap_or_default();
        before.get(before.trim_end().len()..).unwrap_or_default()
    }
}

impl Plugin {
    fn read(text: &str, plugin: &RawValue) -> Result<Self, ConfigurationError> {
        let head: Head<'_> = decode(plugin.get())?;
        let kind = head.kind.filter(|kind| !kind.is_empty());
        let kind = kind.ok_or(ConfigurationError::NoType)?;
        let start = plugin.get().as_ptr().addr() - text.as_ptr().addr();
        Ok(Self {
            span: start..start + plugin.get().len(),
            ours: kind == PLUGIN,
        })
    }
}

impl<'a> Single<'a> {
    /// Reads the configuration of one plugin.
    ///
    /// # Errors
    /// Where a runtime would not use it.
    pub fn read(text: &'a str) -> Result<Self, ConfigurationError> {
        let head: Head<'a> = decode(text)?;
        let kind = head.kind.filter(|kind| !kind.is_empty());
        let name = named(head.name)?;
        match kind.as_deref() {
            None => return Err(ConfigurationError::NoType),
            Some(PLUGIN) => return Err(ConfigurationError::NoPrimary),
            Some(_) => {}
        }
        let version = head.version.unwrap_or_default();
        let chained = version.parse::<Version>().is_ok();
        let old = version.is_empty() || version.starts_with("0.");
        if !chained && !old {
            return Err(ConfigurationError::Version(version));
        }
        Ok(Self {
            text,
            name,
            version: if chained { version } else { DEFAULT_VERSION.to_owned() },
        })
    }

    /// A list of this plugin, as it is written, and `entry`.
    pub fn list(&self, entry: &Value) -> String {
        format!(
            "{{\n  \"cniVersion\": {version},\n  \"name\": {name},\n  \"plugins\": [\n    {plugin},\n    {entry}\n  ]\n}}\n",
            version = Value::from(self.version.as_str()),
            name = Value::from(self.name.as_str()),
            plugin = self.text.trim(),
            entry = render(entry, "\n    "),
        )
    }
}

fn named(name: Option<String>) -> Result<String, ConfigurationError> {
    name.filter(|name| !name.is_empty()).ok_or(ConfigurationError::NoName)
}

fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ConfigurationError> {
    serde_json::from_str(text).map_err(|error| ConfigurationError::Decode(error.to_string()))
}

/// The text of `entry` behind `blank`: on lines of its own where there is a line break.
fn render(entry: &Value, blank: &str) -> String {
    let Some((_, indent)) = blank.rsplit_once('\n') else {
        return entry.to_string();
    };
    format!("{entry:#}").replace('\n', &format!("\n{indent}"))
}

/// `text` with each range replaced; ranges do not overlap.
fn splice<'a>(text: &'a str, edits: &[(Range<usize>, String)]) -> Cow<'a, str> {
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut order: Vec<_> = edits.iter().collect();
    order.sort_by_key(|(range, _)| range.start);
    let (mut result, mut done) = (String::with_capacity(text.len() + 512), 0);
    for (range, replacement) in order {
        result.push_str(text.get(done..range.start).unwrap_or_default());
        result.push_str(replacement);
        done = range.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(result)
}

#[cfg(test)]
mod tests;
