//! Manifests from files, folders, URLs and standard input.
//!
//! A [`Source`] is read line by line, so that nobody need hold more of it than a document.

mod lines;
mod url;

pub(super) use lines::Lines;

use super::spool::{self, Spool};
use crate::pod::manifest::{Piece, Splitter};
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, stdin};
use std::path::{Path, PathBuf};
use url::Url;

/// One file's text.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// The file, or `-` for standard input.
    pub(super) name: String,
    /// What it holds.
    pub(super) text: String,
}

/// Something that manifests are read from.
#[derive(Debug)]
pub(super) struct Source {
    /// The file, the URL, or `-` for standard input.
    pub(super) name: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    Url(Url),
    /// Standard input, or what else can be read once.
    Stdin,
    /// A copy of something that can be read once.
    Copy(RefCell<Spool>),
}

/// What the arguments of a command stand for.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// In the order of the arguments, the files of a folder in lexical order.
    pub(super) all: Vec<Source>,
    /// Files of folders that are no manifests by their names.
    pub(super) passed_over: Vec<PathBuf>,
}

/// Reads every argument whole: a file, a folder, a URL, or `-` for standard input.
pub(super) fn read(arguments: &[PathBuf]) -> Result<Vec<Input>> {
    let sources = Sources::find(arguments)?.all.into_iter();
    sources
        .map(|source| {
            let text = source.text()?;
            Ok(Input {
                name: source.name,
                text,
            })
        })
        .collect()
}

/// Reads one file as text.
pub(super) fn text(path: &Path) -> Result<String> {
    Source::file(path.to_owned()).text()
}

impl Sources {
    /// Finds what the arguments stand for. Of a folder these are the files that `kubectl` takes for manifests, which end in
    /// `.yaml`, `.yml` or `.json`.
    pub(super) fn find(arguments: &[PathBuf]) -> Result<Self> {
        ensure!(!arguments.is_empty(), "please specify a kubernetes resource file");
        let is_stdin = |argument: &&PathBuf| argument.as_os_str() == "-";
        ensure!(
            arguments.iter().filter(is_stdin).count() < 2,
            "- stands twice: standard input can be read once"
        );
        let mut found = Self::default();
        for argument in arguments {
            if is_stdin(&argument) {
                found.all.push(Source {
                    name: "-".to_owned(),
                    place: Place::Stdin,
                });
            } else if let Some(url) = argument.to_str().and_then(Url::parse).transpose()? {
                found.all.push(Source {
                    name: url.to_string(),
                    place: Place::Url(url),
                });
            } else {
                found.add_files(argument)?;
            }
        }
        Ok(found)
    }

    fn add_files(&mut self, path: &Path) -> Result<()> {
        let name = || path.display().to_string();
        if !fs::metadata(path).with_context(name)?.is_dir() {
            self.all.push(Source::file(path.to_owned()));
            return Ok(());
        }
        let mut files = Vec::new();
        walk(path, &mut files)?;
        let (manifests, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_manifest(path));
        ensure!(
            !manifests.is_empty(),
            "{}: no file below it ends in .{}",
            name(),
            ENDINGS.join(", .")
        );
        for path in manifests {
            // A pipe in a folder would never end; one that is named is meant.
            let readable = path.is_file() || !path.exists();
            ensure!(readable, "{}: is neither file nor folder", path.display());
            self.all.push(Source::file(path));
        }
        self.passed_over.extend(others);
        Ok(())
    }

    /// Warns of files that were passed over, which somebody may have meant.
    pub(super) fn warn_of_passed_over(&self) {
        /// How many are worth naming.
        const NAMED: usize = 5;
        if self.passed_over.is_empty() {
            return;
        }
        let mut names: Vec<_> = self.passed_over.iter().map(|path| path.display().to_string()).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        super::warn(&format!(
            "passed over, for they do not end in .{}: {}",
            ENDINGS.join(", ."),
            names.join(", ")
        ));
    }

    /// Copies what can be read only once, so that everything can be read again.
    pub(super) fn make_rereadable(&mut self) -> Result<()> {
        for source in &mut self.all {
            if !matches!(&source.place, Place::File(path) if path.is_file()) {
                let mut copy = spool::new();
                io::copy(&mut source.open()?.take(lines::LIMIT + 1), &mut copy).with_context(|| source.name.clone())?;
                source.place = Place::Copy(copy.into());
            }
        }
        Ok(())
    }
}

impl Source {
    fn file(path: PathBuf) -> Self {
        Self {
            name: path.display().to_string(),
            place: Place::File(path),
        }
    }

    /// A source that holds `text`.
    #[cfg(test)]
    pub(super) fn of_text(name: &str, text: &str) -> Self {
        let mut copy = spool::new();
        io::copy(&mut text.as_bytes(), &mut copy).unwrap();
        Self {
            name: name.to_owned(),
            place: Place::Copy(copy.into()),
        }
    }

    /// Hands every piece of the source to `take`, in order; an error names the source.
    pub(super) fn each_piece(&self, mut take: impl FnMut(&Piece) -> Result<()>) -> Result<()> {
        let mut read = || -> Result<_> {
            let mut splitter = Splitter::default();
            let mut lines = Lines::of(self.open()?);
            while let Some(line) = lines.next()? {
                if let Some(piece) = splitter.push(line)? {
                    take(&piece)?;
                }
            }
            splitter.finish().iter().try_for_each(&mut take)
        };
        read().with_context(|| self.title().to_owned())
    }

    /// All of it.
    fn text(&self) -> Result<String> {
        let read = || -> Result<_> {
            let (mut text, mut lines) = (String::new(), Lines::of(self.open()?));
            while let Some(line) = lines.next()? {
                text.push_str(line);
            }
            Ok(text)
        };
        read().with_context(|| self.title().to_owned())
    }

    /// The name in messages.
    fn title(&self) -> &str {
        match self.name.as_str() {
            "-" => "standard input",
            name => name,
        }
    }

    /// From the beginning; what can be read once, from where it is.
    #[expect(clippy::disallowed_methods, reason = "reading manifests is what this module is for")]
    fn open(&self) -> Result<Box<dyn Read + '_>> {
        Ok(match &self.place {
            Place::File(path) => Box::new(File::open(path)?),
            Place::Url(url) => Box::new(url.fetch()?),
            Place::Stdin => Box::new(stdin().lock()),
            Place::Copy(copy) => {
                copy.borrow_mut().rewind()?;
                Box::new(Copied(copy))
            }
        })
    }
}

/// A copy that is being read.
struct Copied<'a>(&'a RefCell<Spool>);

impl Read for Copied<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

/// How the names of manifests end.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

fn is_manifest(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ENDINGS.iter().any(|it| ending == *it))
}

/// Every file below `folder`. Links to files count as files; links to folders are not followed, for they may lead back.
#[expect(clippy::disallowed_methods, reason = "reading manifests is what this module is for")]
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let read = || -> io::Result<Vec<_>> { fs::read_dir(folder)?.collect() };
    let mut entries = read().with_context(|| folder.display().to_string())?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().with_context(|| path.display().to_string())?;
        if kind.is_dir() {
            walk(&path, found)?;
        } else if kind.is_file() || !path.is_dir() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
