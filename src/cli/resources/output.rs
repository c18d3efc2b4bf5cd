//! Documents on their way out: as they came where nothing changed them, with everything around them.

use super::Format;
use crate::cli::spool::{self, Spool};
use crate::pod::manifest::{self, Document, Piece};
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufWriter, IntoInnerError, Seek, Write};

/// What stands between two documents.
const SEPARATOR: &str = "---\n";

/// The byte order mark.
const MARK: char = '\u{feff}';

/// What stands before the directives of a document that is not the first.
const END: &str = "...\n";

/// What was written, kept back until all of it is there.
pub(super) struct Output {
    spool: BufWriter<Spool>,
    format: Format,
    state: State,
    /// Whether a byte order mark comes first; in the middle there is none.
    marked: bool,
    /// The first character that is no white space.
    begins: Option<char>,
    /// Whether a separator was written.
    separated: bool,
    /// Whether anything was written that the sources do not have.
    changed: bool,
}

/// All that was written.
pub(super) struct Written {
    /// What comes first.
    pub(super) start: String,
    /// What comes then, from its beginning.
    pub(super) rest: Spool,
}

/// How what was written ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// With a separator.
    Closed,
    /// With a document, perhaps one that was rewritten, and perhaps without an end of the line.
    Open {
        rewritten: bool,
        line_ended: bool,
    },
}

impl Output {
    pub(super) fn new(format: Format) -> Self {
        Self {
            spool: BufWriter::new(spool::new()),
            format,
            state: State::Empty,
            marked: false,
            begins: None,
            separated: false,
            changed: false,
        }
    }

    /// Writes `piece`, whose documents have become `values`; `first` where another source begins with it.
    pub(super) fn write(&mut self, piece: &Piece, documents: &[(Document<'_>, Value)], first: bool) -> Result<()> {
        let changed = documents.iter().any(|(document, value)| document.value != *value);
        match self.format {
            Format::Json => {
                let values = documents.iter().map(|(_, value)| value);
                for value in values.filter(|value| !value.is_null()) {
                    self.put(&manifest::to_json(value))?;
                }
            }
            Format::Yaml => {
                self.separate(piece, first, changed)?;
                self.separated |= piece.closed || piece.before.contains("---");
                self.changed |= changed;
                match changed {
                    true => self.rewrite(documents)?,
                    false => self.put(&piece.text)?,
                }
                self.put(&piece.after)?;
                let last = [&piece.after, &piece.text, &piece.before]
                    .into_iter()
                    .find(|part| !part.is_empty());
                self.state = match piece.closed || piece.text.is_empty() {
                    true => State::Closed,
                    false => State::Open {
                        rewritten: changed,
                        line_ended: changed || last.is_none_or(|text| text.ends_with('\n')),
                    },
                };
            }
        }
        Ok(())
    }

    /// Writes what stands before `piece`. A separator is added between sources, and where a document was rewritten: JSON
    /// that follows JSON has none, nor has what follows `...`.
    fn separate(&mut self, piece: &Piece, first: bool, changed: bool) -> Result<()> {
        let before = piece.before.trim_start_matches(MARK);
        self.marked |= self.state == State::Empty && before.len() < piece.before.len();
        let directed = before.starts_with('%');
        match self.state {
            State::Closed if first && directed => self.put(END)?,
            State::Empty | State::Closed => {}
            State::Open { rewritten, line_ended } => {
                if !line_ended {
                    self.put("\n")?;
                }
                if directed && first {
                    self.put(END)?;
                } else if (first || rewritten || changed) && !before.starts_with("---") && !directed {
                    self.put(SEPARATOR)?;
                    (self.separated, self.changed) = (true, true);
                }
            }
        }
        self.put(before)
    }

    /// Writes documents anew where they were changed.
    fn rewrite(&mut self, documents: &[(Document<'_>, Value)]) -> Result<()> {
        for (index, (document, value)) in documents.iter().enumerate() {
            if index > 0 {
                self.put(SEPARATOR)?;
            }
            if document.value == *value {
                self.put(document.text.trim_end())?;
                self.put("\n")?;
            } else {
                self.put(&manifest::to_yaml(value)?)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, text: &str) -> Result<()> {
        let begins = || text.trim_start().chars().next();
        self.begins = self.begins.or_else(begins);
        self.spool.write_all(text.as_bytes()).with_context(spool::place)
    }

    /// Ends what was written in a separator, so that outputs can be put one after the other, and rewinds it.
    ///
    /// What begins with a brace `kubectl` takes for JSON alone, and no separator is right in it: JSON that stayed as it was
    /// gets none, and what became something else begins with one.
    pub(super) fn finish(mut self) -> Result<Written> {
        let json = self.format == Format::Yaml && self.begins == Some('{');
        if let State::Open { line_ended, .. } = self.state
            && (!json || self.separated)
        {
            if !line_ended {
                self.put("\n")?;
            }
            self.put(SEPARATOR)?;
        }
        let spool = self.spool.into_inner().map_err(IntoInnerError::into_error);
        let mut rest = spool.with_context(spool::place)?;
        rest.rewind().with_context(spool::place)?;
        let mark = self.marked.then_some(MARK);
        let separator = if json && self.changed { SEPARATOR } else { "" };
        Ok(Written {
            start: mark.into_iter().chain(separator.chars()).collect(),
            rest,
        })
    }
}
