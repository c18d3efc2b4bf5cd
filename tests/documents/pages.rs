//! The pages, and what stands in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below `folder` with this ending, as paths in the repository, in order.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<String> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => visit(&path, found),
                false => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    visit(&repository().join(folder), &mut found);
    let paths = found
        .iter()
        .map(|path| path.strip_prefix(repository()).unwrap().to_str().unwrap().to_owned());
    let mut paths: Vec<_> = paths.filter(|path| path.ends_with(ending)).collect();
    paths.sort();
    paths
}

/// What the program prints where it must succeed and has nothing else to say.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    let output = program.args(arguments).current_dir(repository()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "outrigger {arguments:?}: {said}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The lines outside of blocks of code.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        within ^= fence;
        !within && !fence
    })
}

/// What stands between back quotes in a line.
pub(crate) fn spans(line: &str) -> impl Iterator<Item = String> {
    line.split('`').skip(1).step_by(2).map(|span| span.replace("\\|", "|"))
}

/// A table: the cells of its head, and those of each row.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The heading that it stands under.
    pub(crate) heading: String,
    /// The cells of its first line.
    pub(crate) head: Vec<String>,
    /// Those of the others.
    pub(crate) rows: Vec<Vec<String>>,
}

/// The tables of a page.
pub(crate) fn tables(text: &str) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut heading = "";
    let mut open = false;
    for line in prose(text) {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim();
        }
        if !line.starts_with('|') {
            open = false;
            continue;
        }
        let cells = cells(line);
        let table = found.last_mut().filter(|_| open);
        match table {
            Some(table) if cells.iter().all(|cell| cell.chars().all(|c| c == '-')) => assert!(table.rows.is_empty()),
            Some(table) => table.rows.push(cells),
            None => found.push(Table {
                heading: heading.to_owned(),
                head: cells,
                rows: Vec::new(),
            }),
        }
        open = true;
    }
    found
}

fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{0}");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    let cells = inner.split('|').map(|cell| cell.trim().replace('\u{0}', "\\|"));
    cells.collect()
}

/// GitHub's anchors of a page's headings.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c));
        kept.collect()
    };
    headings.map(anchor).collect()
}
