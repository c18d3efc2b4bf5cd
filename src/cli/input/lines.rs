//! Lines of text, none of them before it is asked for.

use anyhow::{Result, anyhow, ensure};
use std::io::{BufRead, BufReader, Read, Take};

/// How much is read of one source, in bytes: more than any manifest has, less than a device without end.
pub(super) const LIMIT: u64 = 256 << 20;

/// The lines of a text in UTF-8.
pub(in crate::cli) struct Lines<R> {
    reader: BufReader<Take<R>>,
    line: Vec<u8>,
    /// How many lines were read.
    number: usize,
    /// How many bytes came before the line.
    offset: u64,
}

impl<R: Read> Lines<R> {
    /// The lines of `source`.
    pub(super) fn of(source: R) -> Self {
        Self {
            reader: BufReader::new(source.take(LIMIT + 1)),
            line: Vec::new(),
            number: 0,
            offset: 0,
        }
    }

    /// The next line with its end; nothing after the last.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        self.offset += u64::try_from(self.line.len())?;
        self.number += 1;
        self.line.clear();
        if self.reader.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        // All that was to be taken was.
        ensure!(self.reader.get_ref().limit() > 0, "is larger than {} MiB", LIMIT >> 20);
        let (offset, number) = (self.offset, self.number);
        let line = std::str::from_utf8(&self.line).map_err(|error| {
            let offset = u64::try_from(error.valid_up_to()).unwrap_or_default() + offset;
            anyhow!("is no text in UTF-8: the byte at offset {offset}, in line {number}, is none of a character")
        })?;
        Ok(Some(line))
    }
}
