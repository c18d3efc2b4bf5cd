//! What OpenShift allots to a namespace, in its annotations.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

/// The user IDs: `start/size` or `start-end`.
const USERS: &str = "openshift.io/sa.scc.uid-range";
/// The groups, a list of the same separated by commas; the user IDs stand in for them.
const GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";
/// The `SELinux` level.
const LEVEL: &str = "openshift.io/sa.scc.mcs";

/// What a namespace has been allotted, as text: it is read for the constraints that ask for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allotment<'n> {
    users: &'n str,
    groups: Option<&'n str>,
    level: &'n str,
}

impl<'n> Allotment<'n> {
    /// Reads a namespace's `metadata.annotations`. Fails with OpenShift's words where it has not been allotted anything
    /// yet, which refuses every pod, whatever constraints there are.
    pub(super) fn read(annotations: Option<&'n Map<String, Value>>) -> Result<Self, String> {
        let annotation = |key: &str| annotations.and_then(|annotations| annotations.get(key)?.as_str());
        let missing = |key: &str| format!("unable to find annotation {key}");
        Ok(Self {
            users: annotation(USERS).ok_or_else(|| missing(USERS))?,
            groups: annotation(GROUPS),
            level: annotation(LEVEL).ok_or_else(|| missing(LEVEL))?,
        })
    }

    /// The range of user IDs.
    pub(super) fn users(&self) -> Result<RangeInclusive<i64>, String> {
        if self.users.is_empty() {
            return Err(format!("found annotation {USERS} but it was empty"));
        }
        block(self.users)
    }

    /// The ranges of groups, at least one.
    pub(super) fn groups(&self) -> Result<Vec<RangeInclusive<i64>>, String> {
        let groups = self.groups.unwrap_or(self.users);
        if groups.is_empty() {
            return Err(format!("unable to find groups using {GROUPS} and {USERS} annotations"));
        }
        groups.split(',').map(block).collect()
    }

    /// The first group alone.
    pub(super) fn first_group(&self) -> Result<RangeInclusive<i64>, String> {
        let groups = self.groups()?;
        let first = groups.first().map_or(0, |block| *block.start());
        Ok(first..=first)
    }

    /// The level.
    pub(super) fn level(&self) -> Result<&'n str, String> {
        if self.level.is_empty() {
            return Err(format!("found annotation {LEVEL} but it was empty"));
        }
        Ok(self.level)
    }
}

/// Reads `start/size` or `start-end`. What follows is ignored and numbers wrap at 32 bits, as for OpenShift; a size of 0
/// is a range without anything in it.
fn block(text: &str) -> Result<RangeInclusive<i64>, String> {
    let separator = if text.contains('/') { '/' } else { '-' };
    let (start, rest) = number(text)?;
    let Some(rest) = rest.strip_prefix(separator) else {
        let fault = if rest.is_empty() {
            "unexpected EOF"
        } else {
            "input does not match format"
        };
        return Err(fault.to_owned());
    };
    let (second, _) = number(rest)?;
    let end = match separator {
        '/' => start.wrapping_add(second).wrapping_sub(1),
        _ => second,
    };
    Ok(i64::from(start)..=i64::from(end))
}

/// The number that `text` begins with, after blanks, and what follows it.
fn number(text: &str) -> Result<(u32, &str), String> {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.parse() {
        Ok(number) => Ok((number, rest)),
        Err(_) if text.is_empty() => Err("unexpected EOF".to_owned()),
        Err(_) if digits.is_empty() => Err("expected integer".to_owned()),
        Err(_) => Err(format!("integer overflow on token {digits}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_notations_are_understood() {
        for (text, start, end) in [
            ("1000680000/10000", 1_000_680_000, 1_000_689_999),
            ("1000680000-1000689999", 1_000_680_000, 1_000_689_999),
            ("7/1", 7, 7),
            ("0-0", 0, 0),
            ("1/2,5/6", 1, 2),
            (" 1/2 ", 1, 2),
            ("4294967295/2", 4_294_967_295, 0),
            ("0/0", 0, 4_294_967_295),
        ] {
            assert_eq!(block(text), Ok(start..=end), "{text}");
        }
    }

    #[test]
    fn what_is_no_block_is_named() {
        for (text, fault) in [
            ("", "unexpected EOF"),
            ("1000", "unexpected EOF"),
            ("1000/", "unexpected EOF"),
            ("a/b", "expected integer"),
            ("1000:10", "input does not match format"),
            ("4294967296/1", "integer overflow on token 4294967296"),
        ] {
            assert_eq!(block(text), Err(fault.to_owned()), "{text}");
        }
    }

    #[test]
    fn groups_fall_back_to_the_users() {
        let annotations = |groups: Value| json!({USERS: "100/10", LEVEL: "s0:c1,c2", GROUPS: groups});
        let own = annotations(json!("5/2,20-29"));
        let own = Allotment::read(own.as_object()).unwrap();
        assert_eq!(own.groups(), Ok(vec![5..=6, 20..=29]));
        assert_eq!(own.first_group(), Ok(5..=5));
        let none = annotations(Value::Null);
        let none = Allotment::read(none.as_object()).unwrap();
        assert_eq!(none.groups(), Ok(vec![100..=109]));
        let empty = annotations(json!(""));
        assert!(Allotment::read(empty.as_object()).unwrap().groups().is_err());
    }

    #[test]
    fn without_users_or_level_there_is_no_allotment() {
        assert_eq!(
            Allotment::read(None).unwrap_err(),
            "unable to find annotation openshift.io/sa.scc.uid-range"
        );
        let users = json!({USERS: "1/1", LEVEL: 7});
        assert_eq!(
            Allotment::read(users.as_object()).unwrap_err(),
            "unable to find annotation openshift.io/sa.scc.mcs"
        );
    }
}
