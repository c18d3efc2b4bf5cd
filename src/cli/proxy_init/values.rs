//! Flag values as Linkerd's flag library reads them (Go's `pflag` and `strconv`).

use std::str::FromStr;

/// An integer: decimal, or with the prefix of another base (`0x`, `0o`, `0b`, `0`); `_` between digits is allowed.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    let error = || format!("{text:?} is no integer");
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, rest) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, lower.strip_prefix(prefix)?)))
        .or_else(|| {
            lower
                .strip_prefix('0')
                .filter(|rest| !rest.is_empty())
                .map(|rest| (8, rest))
        })
        .unwrap_or((10, &lower));
    let separated = rest.contains('_');
    let misplaced = rest.ends_with('_') || rest.contains("__") || (radix == 10 && separated);
    if misplaced || rest.starts_with(['+', '-']) {
        return Err(error());
    }
    let value = i64::from_str_radix(&rest.replace('_', ""), radix).map_err(|_source| error())?;
    Ok(if negative { -value } else { value })
}

/// A boolean by one of Go's names for it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is no boolean; expected true or false")),
    }
}

/// Decimal integers, separated by commas, without blanks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Integers(pub(super) Vec<i64>);

impl FromStr for Integers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let integer = |entry: &str| entry.parse().map_err(|_source| format!("{entry:?} is no port number"));
        text.split(',').map(integer).collect::<Result<_, _>>().map(Self)
    }
}

/// One line of comma-separated values; a quoted one may hold commas, and `""` stands for a quote in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Csv(pub(super) Vec<String>);

impl FromStr for Csv {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let mut entries = Vec::new();
        let mut rest = Some(text);
        while let Some(line) = rest {
            let (entry, more) = match line.strip_prefix('"') {
                Some(quoted) => quoted_entry(quoted).ok_or_else(|| format!("{text:?} has a stray quote"))?,
                None => bare_entry(line),
            };
            if !line.starts_with('"') && entry.contains('"') {
                return Err(format!("{text:?} has a stray quote"));
            }
            entries.push(entry);
            rest = more;
        }
        Ok(Self(entries))
    }
}

fn bare_entry(line: &str) -> (String, Option<&str>) {
    match line.split_once(',') {
        Some((entry, rest)) => (entry.to_owned(), Some(rest)),
        None => (line.to_owned(), None),
    }
}

/// The entry up to its closing quote, and what follows the comma behind it.
fn quoted_entry(quoted: &str) -> Option<(String, Option<&str>)> {
    let mut entry = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('"')?;
        entry.push_str(part);
        if let Some(more) = behind.strip_prefix('"') {
            entry.push('"');
            rest = more;
        } else if behind.is_empty() {
            return Some((entry, None));
        } else {
            return Some((entry, Some(behind.strip_prefix(',')?)));
        }
    }
}
