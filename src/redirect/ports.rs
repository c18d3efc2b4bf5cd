//! Ports and lists of ports, as annotations and flags write them: `25,443,6000-8000`.
//!
//! The one parser for the webhook, `proxy-init` and the CNI plugin. It reads what Linkerd's proxy-init reads: an entry
//! that is no port is dropped (here: and reported), and a list in which nothing is left is an error, since it would
//! un-skip everything that its author wanted skipped.

use std::fmt;
use std::str::FromStr;

/// The ports from `first` to `last`, both included; never reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The range of one port.
    pub const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// The range from `first` to `last`; `None` where it is reversed.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first <= last {
            Some(Self { first, last })
        } else {
            None
        }
    }

    /// The lowest port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether it holds one port only.
    pub const fn is_single(self) -> bool {
        self.first == self.last
    }

    /// Whether `port` is in it.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    /// Writes `N` or `A-B`, which [`FromStr`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl FromStr for PortRange {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |why| PortError {
            entry: text.to_owned(),
            why,
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let first = port(first).map_err(error)?;
        let last = port(last).map_err(error)?;
        Self::new(first, last).ok_or_else(|| error("the range is reversed"))
    }
}

/// An entry of a list of ports that is no port and no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?}: {why}; expected a port (0 to 65535) or a range A-B, without blanks")]
pub struct PortError {
    entry: String,
    why: &'static str,
}

impl PortError {
    /// The entry as it was written.
    pub fn entry(&self) -> &str {
        &self.entry
    }
}

/// A list of ports in which no entry is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no entry of {list:?} is a port; expected ports (0 to 65535) or ranges A-B, separated by commas, without blanks"
)]
pub struct PortListError {
    list: String,
}

/// A list of ports that was read, and the entries of it that could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedPorts {
    /// What the list means.
    pub list: PortList,
    /// The entries that mean nothing, in order; each error names its entry and says what would be right.
    pub dropped: Vec<PortError>,
}

/// Ports and ranges in the order given, which is the order in which iptables shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortList(Vec<PortRange>);

impl PortList {
    /// Reads a comma-separated list; the empty text is the empty list.
    ///
    /// # Errors
    /// Where the text is not empty and no entry of it is a port.
    pub fn parse(text: &str) -> Result<ParsedPorts, PortListError> {
        Self::read(text.split(','))
    }

    /// Reads a list that is already split; no entry, or one empty entry, is the empty list.
    ///
    /// # Errors
    /// Where there are entries and none of them is a port.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<ParsedPorts, PortListError> {
        let entries: Vec<&str> = entries.into_iter().collect();
        let mut parsed = ParsedPorts::default();
        if entries.is_empty() || entries == [""] {
            return Ok(parsed);
        }
        for entry in &entries {
            match entry.parse() {
                Ok(range) => parsed.list.0.push(range),
                Err(error) => parsed.dropped.push(error),
            }
        }
        if parsed.list.is_empty() {
            return Err(PortListError {
                list: entries.join(","),
            });
        }
        Ok(parsed)
    }

    /// The entries, in the order given.
    pub fn ranges(&self) -> &[PortRange] {
        &self.0
    }

    /// Whether it holds no port.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `port` is in it.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(port))
    }

    /// Adds `more` behind what is there.
    pub fn extend(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// The same ports in ascending ranges that neither overlap nor touch.
    pub fn merged(&self) -> Vec<PortRange> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let mut merged: Vec<PortRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
                Some(_) | None => merged.push(range),
            }
        }
        merged
    }
}

impl FromIterator<PortRange> for PortList {
    fn from_iter<T: IntoIterator<Item = PortRange>>(ranges: T) -> Self {
        Self(ranges.into_iter().collect())
    }
}

impl fmt::Display for PortList {
    /// Writes the form that [`PortList::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            range.fmt(f)?;
        }
        Ok(())
    }
}

fn port(text: &str) -> Result<u16, &'static str> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() {
        return Err("a port is missing");
    }
    if digits.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return Err("there is a blank");
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("that is no number");
    }
    digits.parse().map_err(|_overflow| "the number is above 65535")
}

#[cfg(test)]
mod tests;
