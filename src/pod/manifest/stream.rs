//! Splitting a stream of manifests into documents, line by line, without losing a byte.
//!
//! Documents end where `kubectl` has them end, at lines that start with `---`, and beyond that at `...`, after which
//! `kubectl` reads nothing more, and where one JSON value follows another. A directive (`%YAML 1.2`) belongs to the
//! document behind it.

use super::{Document, ManifestError, json_stream, parse};
use serde::de::IgnoredAny;
use std::mem;

/// A document with all that stands around it: `before`, `text` and `after`, one after the other, are what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Byte order mark, separators that end no document, and directives.
    pub before: String,
    /// The document; JSON values that share a line; nothing at all where the stream ends in separators.
    pub text: String,
    /// The document's end: `...`, with comments behind it, and the separator.
    pub after: String,
    /// Whether a separator ends the document.
    pub closed: bool,
    /// The line on which `before` begins, from 1.
    line: usize,
    /// How much of the end of `before` are directives.
    directives: usize,
}

/// Takes the lines of one stream, and gives its pieces.
#[derive(Debug, Default)]
pub struct Splitter {
    /// How many lines were taken.
    lines: usize,
    piece: Piece,
    place: Place,
    /// Whether the text so far has a directive.
    directed: bool,
    json: Json,
}

/// Where in a document the next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before its first line, where directives may stand: at the start, and after `...`.
    #[default]
    Start,
    /// After a separator, or within.
    Body,
    /// After `...`.
    End,
}

impl Splitter {
    /// Takes the next line, with its end, and returns the piece that ends with it or before it.
    pub fn push(&mut self, line: &str) -> Result<Option<Piece>, ManifestError> {
        self.lines += 1;
        let mut line = line;
        if self.lines == 1 {
            self.piece.line = 1;
            if let Some(rest) = line.strip_prefix('\u{feff}') {
                self.piece.before.push('\u{feff}');
                line = rest;
            }
        }
        if let Some(trailing) = line.strip_prefix("---") {
            let trailing = trailing.trim();
            if !trailing.is_empty() && !trailing.starts_with('#') {
                return Err(ManifestError::Separator {
                    line: self.lines,
                    text: line.trim_end().to_owned(),
                });
            }
            return Ok(self.separate(line));
        }
        if is_end(line) && (self.piece.text.is_empty() || !self.directed) {
            self.end(line);
            return Ok(None);
        }
        Ok(self.extend(line))
    }

    /// Returns the last piece.
    pub fn finish(mut self) -> Option<Piece> {
        self.next()
    }

    fn separate(&mut self, line: &str) -> Option<Piece> {
        let piece = &mut self.piece;
        if self.directed {
            piece.before.push_str(&piece.text);
            piece.before.push_str(line);
            piece.directives = piece.text.len() + line.len();
            piece.text.clear();
            (self.directed, self.place) = (false, Place::Body);
            return None;
        }
        if piece.text.is_empty() {
            piece.before.push_str(line);
            // Directives of a document that is not there direct nothing.
            (piece.directives, self.place) = (0, Place::Body);
            return None;
        }
        piece.after.push_str(line);
        piece.closed = true;
        let piece = self.next();
        // The line that was taken belongs to the piece.
        self.piece.line += 1;
        self.place = Place::Body;
        piece
    }

    fn end(&mut self, line: &str) {
        if self.piece.text.is_empty() {
            self.piece.before.push_str(line);
            (self.piece.directives, self.place) = (0, Place::Start);
        } else {
            self.piece.after.push_str(line);
            self.place = Place::End;
        }
    }

    fn extend(&mut self, line: &str) -> Option<Piece> {
        let start = line.trim_start();
        let idle = start.is_empty() || start.starts_with('#');
        if self.place == Place::End && idle {
            self.piece.after.push_str(line);
            return None;
        }
        let follows = self.json == Json::Whole && start.starts_with(['{', '[']);
        let piece = match self.place == Place::End || follows {
            true => self.next(),
            false => None,
        };
        if self.place == Place::Start && !idle {
            let directive = line.starts_with('%');
            self.directed |= directive;
            if !directive {
                self.place = Place::Body;
            }
        }
        self.piece.text.push_str(line);
        self.json.take(line, &self.piece.text);
        piece
    }

    /// Begins a new piece with the line that was taken last.
    fn next(&mut self) -> Option<Piece> {
        let after_end = self.place == Place::End;
        let new = Piece {
            line: self.lines,
            ..Piece::default()
        };
        let piece = mem::replace(&mut self.piece, new);
        (self.directed, self.json) = (false, Json::default());
        self.place = if after_end { Place::Start } else { Place::Body };
        let empty = piece.before.is_empty() && piece.text.is_empty();
        (!empty).then_some(piece)
    }
}

impl Piece {
    /// The documents: none where the text is empty, several where JSON values share a line.
    pub fn documents(&self) -> Result<Vec<Document<'_>>, ManifestError> {
        self.documents_in(&self.text)
    }

    /// The documents, `text` being a copy of this piece's.
    fn documents_in<'a>(&self, text: &'a str) -> Result<Vec<Document<'a>>, ManifestError> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let lines = |text: &str| text.matches('\n').count();
        let line = self.line + lines(&self.before);
        if self.directives > 0 {
            let at = self.before.len() - self.directives;
            let directives = self.before.get(at..).unwrap_or_default();
            let value = parse(&[directives, text].concat(), line - lines(directives))?;
            return Ok(vec![Document { text, value }]);
        }
        let parts = json_stream(text).into_iter();
        parts
            .map(|(offset, text)| {
                let value = parse(text, line + offset)?;
                Ok(Document { text, value })
            })
            .collect()
    }

    /// Reads the documents of this piece, which `whole` starts with, and returns what follows it.
    pub(super) fn read_at<'a>(&self, whole: &'a str, found: &mut Vec<Document<'a>>) -> Result<&'a str, ManifestError> {
        let (_, rest) = whole.split_at_checked(self.before.len()).unwrap_or_default();
        let (text, rest) = rest.split_at_checked(self.text.len()).unwrap_or_default();
        found.extend(self.documents_in(text)?);
        Ok(rest.get(self.after.len()..).unwrap_or_default())
    }
}

/// Whether the line is the end of a document (YAML 1.2.2, section 9.1.2).
fn is_end(line: &str) -> bool {
    line.strip_prefix("...").is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with(char::is_whitespace) && matches!(rest.trim_start().chars().next(), None | Some('#'))
    })
}

/// How far a text is a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Json {
    /// Nothing but white space yet.
    #[default]
    Blank,
    /// Something else.
    Never,
    /// Within a list or a map, so deep, and whether within a string, and there after a backslash.
    Within { depth: usize, string: bool, escaped: bool },
    /// One value, or several, and nothing else.
    Whole,
}

impl Json {
    /// Takes the next `line` of `text`, which ends with it.
    fn take(&mut self, line: &str, text: &str) {
        let start = line.trim_start();
        let (mut depth, mut string, mut escaped) = match *self {
            Self::Never => return,
            Self::Blank | Self::Whole if start.is_empty() => return,
            Self::Blank if start.starts_with(['{', '[']) => (0, false, false),
            Self::Blank | Self::Whole => {
                *self = Self::Never;
                return;
            }
            Self::Within { depth, string, escaped } => (depth, string, escaped),
        };
        for byte in line.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if string => escaped = true,
                b'"' => string = !string,
                b'{' | b'[' if !string => depth += 1,
                b'}' | b']' if !string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        *self = match depth == 0 && !string {
            false => Self::Within { depth, string, escaped },
            true if is_json(text) => Self::Whole,
            true => Self::Never,
        };
    }
}

fn is_json(text: &str) -> bool {
    serde_json::Deserializer::from_str(text)
        .into_iter::<IgnoredAny>()
        .all(|value| value.is_ok())
}
