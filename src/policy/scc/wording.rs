//! Field errors in the API server's words.

use std::fmt::Display;

use super::Release;
use crate::policy::quoting::go_quoted;

/// `path: Invalid value: value: detail`
pub(super) fn invalid(path: impl Display, value: impl Display, detail: impl Display) -> String {
    format!("{path}: Invalid value: {value}: {detail}")
}

/// `path: Required value`
pub(super) fn required(path: impl Display) -> String {
    format!("{path}: Required value")
}

/// `path: Forbidden: detail`
pub(super) fn forbidden(path: impl Display, detail: impl Display) -> String {
    format!("{path}: Forbidden: {detail}")
}

/// How the server prints a value that is neither text, number nor truth value: as JSON from 1.34 on, as Go source before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printer {
    json: bool,
}

impl Printer {
    pub(super) fn of(server: Release) -> Self {
        Self {
            json: server >= Release(34),
        }
    }

    /// A list of numbers.
    pub(super) fn numbers(self, numbers: &[i64]) -> String {
        if self.json {
            let items: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            format!("[{}]", items.join(","))
        } else {
            let items: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            format!("[]int64{{{}}}", items.join(", "))
        }
    }

    /// A list of capabilities; nothing where the field is absent.
    pub(super) fn capabilities(self, names: Option<&[&str]>) -> String {
        let items = |separator| {
            let items: Vec<_> = names.unwrap_or_default().iter().map(|it| go_quoted(it)).collect();
            items.join(separator)
        };
        match (self.json, names) {
            (true, None) => "null".to_owned(),
            (true, Some(_)) => format!("[{}]", items(",")),
            (false, None) => "[]core.Capability(nil)".to_owned(),
            (false, Some(_)) => format!("[]core.Capability{{{}}}", items(", ")),
        }
    }

    /// A truth value that may be absent.
    pub(super) fn optional(self, value: Option<bool>) -> &'static str {
        match (value, self.json) {
            (Some(true), _) => "true",
            (Some(false), _) => "false",
            (None, true) => "null",
            (None, false) => "\"null\"",
        }
    }
}
