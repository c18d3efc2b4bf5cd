//! Every fact that a decision looked at.

use std::fmt::Display;

/// Facts in the order in which they were looked at, a sentence each.
///
/// Most decisions are never explained to anybody, so a fact becomes a text only in a trace that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    facts: Option<Vec<String>>,
}

impl Trace {
    /// A trace that nobody will read.
    pub fn off() -> Self {
        Self { facts: None }
    }

    /// A trace that begins with `facts`.
    pub fn after(facts: impl IntoIterator<Item = String>) -> Self {
        Self {
            facts: Some(facts.into_iter().collect()),
        }
    }

    /// The facts; none where nobody wanted to read them.
    pub fn facts(&self) -> &[String] {
        self.facts.as_deref().unwrap_or_default()
    }

    /// Whether somebody will read it.
    pub(super) fn is_kept(&self) -> bool {
        self.facts.is_some()
    }

    /// Adds a fact: [`format_args!`] puts off its text until it is wanted.
    pub fn note(&mut self, fact: impl Display) {
        if let Some(facts) = &mut self.facts {
            facts.push(fact.to_string());
        }
    }
}
