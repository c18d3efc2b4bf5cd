//! Columns for people.

use super::paint::{Paint, Tone};

/// A table under construction.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<(Vec<String>, Tone)>,
}

impl Table {
    /// A table with nothing but its head.
    pub(super) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|&cell| cell.to_owned()).collect();
        Self {
            rows: vec![(head, Tone::Bold)],
        }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Vec<String>, tone: Tone) {
        self.rows.push((row, tone));
    }

    /// The table, each line after `indent`; columns are as wide as their widest cell.
    pub(super) fn render(&self, paint: Paint, indent: &str) -> String {
        let mut widths = Vec::new();
        for (row, _) in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let line = |(row, tone): &(Vec<String>, Tone)| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            let line = format!("{indent}{}", cells.collect::<Vec<_>>().join("  "));
            paint.line(line.trim_end(), *tone)
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["A", "LONG"]);
        table.add(vec!["wide".to_owned(), "x".to_owned()], Tone::Plain);
        assert_eq!(table.render(Paint::PLAIN, "  "), "  A     LONG\n  wide  x\n");
    }
}
