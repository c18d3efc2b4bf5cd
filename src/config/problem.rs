//! Values that are not what they should be, in words that are safe to repeat: short however long the value, and without
//! what may be secret.

use super::Origin;
use std::fmt;

/// A value that is not what it should be, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The annotation, or the dotted key of the values document.
    pub key: String,
    /// What was found, and what would be right.
    pub fault: String,
    /// Whose value.
    pub origin: Origin,
    /// What becomes of it.
    pub consequence: Consequence,
}

/// What becomes of a value that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// It is not taken: what else applies stands in its place.
    Ignored,
    /// It is taken, as Linkerd takes it, although something later may refuse it.
    Kept,
    /// The pod must run neither with it nor without it.
    Fatal,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, fault, origin, .. } = self;
        match origin {
            Origin::Namespace | Origin::Pod => write!(f, "{origin} annotation {key}: {fault}"),
            Origin::Values | Origin::Default => write!(f, "values document: {key}: {fault}"),
        }
    }
}

/// How much of a value is repeated, in bytes: as much as the longest name that the API server takes, so that every name
/// is whole; what is wrong with a longer value shows in its start.
const QUOTED: usize = 253;

/// How many items of a list are repeated.
const ITEMS: usize = 3;

/// A value in quotes, cut where it is long.
pub(crate) fn quote(value: &str) -> String {
    cut(value, QUOTED)
}

/// That a value is not what was expected.
pub(super) fn misfit(value: &str, expected: &str) -> String {
    format!("{} is not {expected}", quote(value))
}

/// That none of these items of a list is what was expected.
pub(super) fn misfits(items: &[&str], expected: &str) -> String {
    if let [item] = items {
        return misfit(item, expected);
    }
    let first: Vec<_> = items.iter().take(ITEMS).map(|item| cut(item, QUOTED / ITEMS)).collect();
    let more = match items.len().saturating_sub(ITEMS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("none of {}{more} is {expected}", first.join(", "))
}

/// The value in quotes and escaped, at most `limit` bytes between the quotes.
fn cut(value: &str, limit: usize) -> String {
    let mut quoted = String::from("\"");
    for character in value.chars() {
        let escaped = character.escape_debug();
        // One for the quote at the start.
        let length: usize = escaped.clone().map(char::len_utf8).sum();
        if quoted.len() + length > limit + 1 {
            return quoted + "\"…";
        }
        quoted.extend(escaped);
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_start_of_a_value_is_repeated() {
        assert_eq!(quote("a\"b"), r#""a\"b""#);
        let name = "n".repeat(253);
        assert_eq!(quote(&name), format!("\"{name}\""));
        let long = "é".repeat(1000);
        assert_eq!(quote(&long), format!("\"{}\"…", "é".repeat(126)));
    }

    #[test]
    fn items_are_counted() {
        assert_eq!(misfits(&["a"], "a port"), "\"a\" is not a port");
        assert_eq!(misfits(&["a", "b"], "a port"), "none of \"a\", \"b\" is a port");
        let many = vec!["junk"; 125_000];
        assert_eq!(
            misfits(&many, "a port"),
            "none of \"junk\", \"junk\", \"junk\" and 124997 more is a port"
        );
        assert!(misfits(&["\u{7}".repeat(100_000).as_str(); 9], "a port").len() < 300);
    }
}
