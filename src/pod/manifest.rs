//! Manifests: streams of YAML or JSON documents, in and out.
//!
//! Reading follows `kubectl`: the same documents, and in each the same value from each scalar (`0644` is 420, `n` is
//! false, `12:30:45` is a string; keys too). Stricter than `kubectl` in one thing: a key that stands twice is an error,
//! since half of what its author wrote would be lost. Writing follows `kubectl` as well: keys in ascending order, lists
//! as deep as their key, lines of a text one under the other, and quotes around everything that any reader of YAML 1.1
//! might take for something else than a string. Comments are not part of a value, so what nothing changed is best
//! written as it came: every [`Document`] still has its text.
//!
//! This room never does I/O.

mod stream;

pub use stream::{Piece, Splitter};

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DoubleQuoted, Error as SyntaxError, MessageFormatter, UserMessageFormatter};
use std::borrow::Cow;
use std::fmt;

/// One document of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Document<'a> {
    /// The document as it stood there, comments and all, without the separators around it.
    pub text: &'a str,
    /// What it says; null where it holds nothing but comments.
    pub value: Value,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A document is neither YAML nor JSON, or holds too much for its size. The message ends in line and column.
    #[error("{0}")]
    Syntax(String),
    /// Something follows the `---` that separates two documents.
    #[error("invalid document separator {text:?} at line {line}: put the document on the lines after it")]
    Separator {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A value cannot be written.
    #[error("cannot be written: {0}")]
    Unwritable(String),
}

/// Reads every document of `text`, YAML separated by `---` lines or JSON one after the other.
///
/// Nothing at all between two separators is no document; white space or a comment is one, with the value null.
pub fn read(text: &str) -> Result<Vec<Document<'_>>, ManifestError> {
    let mut documents = Vec::new();
    let mut rest = text;
    let mut splitter = Splitter::default();
    for line in text.split_inclusive('\n') {
        if let Some(piece) = splitter.push(line)? {
            rest = piece.read_at(rest, &mut documents)?;
        }
    }
    if let Some(piece) = splitter.finish() {
        piece.read_at(rest, &mut documents)?;
    }
    Ok(documents)
}

/// The objects of a document: the items of a list, lists within lists included, else the document itself.
///
/// A list is a `List`, or what the API server answers, such as a `PodList`, whose items leave out what its kind says.
pub fn items(value: &Value) -> Vec<Cow<'_, Value>> {
    let kind = value.get("kind").and_then(Value::as_str);
    let item_kind = kind.and_then(|kind| kind.strip_suffix("List"));
    let (Some(item_kind), Some(list)) = (item_kind, value.get("items").and_then(Value::as_array)) else {
        return vec![Cow::Borrowed(value)];
    };
    let is_bare = |item: &Value| item.is_object() && item.get("kind").is_none() && !item_kind.is_empty();
    let mut objects = Vec::with_capacity(list.len());
    for item in list {
        if !is_bare(item) {
            objects.extend(items(item));
            continue;
        }
        let mut whole = item.as_object().cloned().unwrap_or_default();
        whole.insert("kind".to_owned(), item_kind.into());
        let version = value.get("apiVersion").cloned().unwrap_or_default();
        whole.insert("apiVersion".to_owned(), version);
        objects.push(Cow::Owned(whole.into()));
    }
    objects
}

/// Writes `value` as one YAML document, ending in a newline, without separators.
pub fn to_yaml(value: &Value) -> Result<String, ManifestError> {
    // Folding long lines is for people who write texts; a machine that reads lines would lose by it.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(&Written(value), options)
        .map_err(|error| ManifestError::Unwritable(error.to_string()))
}

/// Writes `value` as JSON on one line, ending in a newline.
pub fn to_json(value: &Value) -> String {
    format!("{value}\n")
}

/// Splits JSON documents that follow one another, each with the number of lines before it; anything else stays whole.
fn json_stream(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    while let Some(Ok(_)) = stream.next() {
        let end = stream.byte_offset();
        let part = text.get(start..end).unwrap_or_default().trim_start();
        parts.push((end - part.len(), part));
        start = end;
    }
    let whole = start != 0 && text.get(start..).is_some_and(|rest| rest.trim().is_empty());
    if !whole || parts.len() < 2 {
        return vec![(0, text)];
    }
    let lines = |end| text.get(..end).unwrap_or_default().matches('\n').count();
    parts.into_iter().map(|(start, part)| (lines(start), part)).collect()
}

/// How many nodes aliases may add to a document. Real manifests use a handful; a bomb of nested aliases uses billions.
const ALIASED_NODES: usize = 100_000;

/// How deep a document may nest: as far as the stack of a thread surely reaches. Schemas of custom resources, the deepest
/// of manifests, stay under 50.
const DEPTH: usize = 64;

/// How many bytes the scalars of a document may have, those of aliases included.
const SCALAR_BYTES: usize = 256 << 20;

fn parse(text: &str, line: usize) -> Result<Value, ManifestError> {
    // What grows with the input alone needs no bound of its own: the caller chose the input.
    let budget = serde_saphyr::budget! {
        max_events: usize::MAX,
        max_nodes: usize::MAX,
        max_depth: DEPTH,
        max_total_scalar_bytes: SCALAR_BYTES,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_NODES },
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let node: Result<Node, _> = serde_saphyr::from_str_with_options(text, options);
    // Characters that are right in JSON and wrong in YAML.
    let in_json = |_: &_| {
        let odd = text.contains(|c| ('\u{7f}'..='\u{9f}').contains(&c));
        odd.then(|| serde_json::from_str::<Node>(text).ok()).flatten()
    };
    let node = node.or_else(|error| in_json(&error).ok_or(error));
    node.map(|node| node.0).map_err(|error| {
        let options = serde_saphyr::render_options! {
            formatter: &Words,
            line_offset: u64::try_from(line.saturating_sub(1)).unwrap_or_default(),
        };
        ManifestError::Syntax(error.render_with_options(options))
    })
}

/// Errors in words, where the parser has numbers.
struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a SyntaxError) -> Cow<'a, str> {
        if let SyntaxError::Budget { breach, .. } = error {
            if let BudgetBreach::Depth { .. } = breach {
                return format!("nests deeper than {DEPTH} levels").into();
            }
            if let BudgetBreach::ScalarBytes { .. } = breach {
                return format!("holds more than {} MiB of text", SCALAR_BYTES >> 20).into();
            }
        }
        if let SyntaxError::AliasReplayLimitExceeded { .. } = error {
            return format!("aliases repeat more than {ALIASED_NODES} values").into();
        }
        UserMessageFormatter.format_message(error)
    }
}

/// A value as `kubectl` reads it.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(Self)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(value)) = access.next_element()? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Node(key), Node(value))) = access.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                key @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
                    return Err(A::Error::custom(format!("the key {key} is no text")));
                }
            };
            // Two spellings of one key, such as `on` and `true`.
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate mapping key `{key}`")));
            }
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

/// A number without a fraction is an integer where 64 bits hold it, however it was written: `1e3` is 1000.
fn number(value: f64) -> Value {
    let digits = value.to_string();
    digits
        .parse::<i64>()
        .map_or_else(|_| Number::from_f64(value).into(), Value::from)
}

/// A value as it is written: as the serializer would, but for what the reader of `kubectl` takes for an error.
struct Written<'a>(&'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // A tab where it looks for the indentation of the first line.
            Value::String(text) if text.trim_start_matches('\n').starts_with('\t') => {
                DoubleQuoted(text).serialize(serializer)
            }
            Value::Array(list) => serializer.collect_seq(list.iter().map(Written)),
            Value::Object(map) => serializer.collect_map(map.iter().map(|(key, value)| (key, Written(value)))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => self.0.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests;
