//! Files that belong together, whose content is read again every so often.
//!
//! Kubernetes replaces a mounted Secret or ConfigMap by swapping a symbolic link, which watches on the files miss, so the
//! content itself is compared. Content that cannot be used never replaces content that can.

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where one of the contents comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file that must be there.
    File(PathBuf),
    /// Nowhere: the content is empty.
    Nothing,
}

impl Source {
    /// The source that an option names, which may be left out.
    pub fn optional(path: Option<&Path>) -> Self {
        path.map_or(Self::Nothing, |path| Self::File(path.to_owned()))
    }

    fn read(&self) -> Result<Vec<u8>, LoadError> {
        let Self::File(path) = self else { return Ok(Vec::new()) };
        #[expect(clippy::disallowed_methods, reason = "the one place of this room that reads files")]
        let content = std::fs::read(path);
        content.map_err(|source| LoadError::Read {
            path: path.clone(),
            source,
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What the files hold cannot be used.
    #[error("cannot use {}: {source}", together(sources))]
    Content {
        /// The files.
        sources: Vec<Source>,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a check of the files found.
#[derive(Debug)]
pub enum Change {
    /// The content is what it was at the last check.
    None,
    /// The new content is in use.
    Swapped,
    /// The content cannot be used; what was in use stays.
    Kept(LoadError),
}

type Parse<T> = dyn Fn(&[Vec<u8>]) -> Result<Arc<T>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync;

/// The value that files hold together, kept up to date by [`Reloaded::check`].
pub struct Reloaded<T> {
    sources: Vec<Source>,
    parse: Box<Parse<T>>,
    current: ArcSwap<T>,
    /// Digest of what was seen last, usable or not; nothing where it could not be read.
    seen: Mutex<Option<[u8; 32]>>,
}

impl<T: 'static> Reloaded<T> {
    /// Reads the files for the first time; `parse` is asked again whenever their content changes.
    pub fn load<E, const N: usize>(
        sources: [Source; N],
        parse: impl Fn([&[u8]; N]) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Result<Self, LoadError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        Self::load_all(Vec::from(sources), move |contents| {
            let all: [&[u8]; N] = std::array::from_fn(|place| contents.get(place).map_or(&[][..], Vec::as_slice));
            parse(all)
        })
    }

    /// The same for as many files as there are.
    pub fn load_all<E>(
        sources: Vec<Source>,
        parse: impl Fn(&[Vec<u8>]) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Result<Self, LoadError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let parse: Box<Parse<T>> = Box::new(move |contents| parse(contents).map_err(Into::into));
        let contents = read(&sources)?;
        let value = evaluate(&parse, &sources, &contents)?;
        Ok(Self {
            seen: Mutex::new(Some(digest(&contents))),
            current: ArcSwap::new(value),
            sources,
            parse,
        })
    }

    /// The value in use.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files and swaps the value where their content is new and usable.
    ///
    /// Unusable content is reported once, not at every check.
    pub fn check(&self) -> Change {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = match read(&self.sources) {
            Ok(contents) => contents,
            Err(error) => return seen.take().map_or(Change::None, |_| Change::Kept(error)),
        };
        let digest = digest(&contents);
        if *seen == Some(digest) {
            return Change::None;
        }
        // A swap between two reads would pair an old file with a new one: believe only what reads the same twice.
        if !read(&self.sources).is_ok_and(|again| again == contents) {
            return Change::None;
        }
        *seen = Some(digest);
        match evaluate(&self.parse, &self.sources, &contents) {
            Ok(value) => {
                self.current.store(value);
                Change::Swapped
            }
            Err(error) => Change::Kept(error),
        }
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded")
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

fn read(sources: &[Source]) -> Result<Vec<Vec<u8>>, LoadError> {
    sources.iter().map(Source::read).collect()
}

fn evaluate<T: 'static>(parse: &Parse<T>, sources: &[Source], contents: &[Vec<u8>]) -> Result<Arc<T>, LoadError> {
    parse(contents).map_err(|source| LoadError::Content {
        sources: sources.to_vec(),
        source,
    })
}

/// The files by name.
fn together(sources: &[Source]) -> String {
    let files = sources.iter().filter(|source| **source != Source::Nothing);
    files.map(ToString::to_string).collect::<Vec<_>>().join(" with ")
}

/// Identifies contents; a private key is not kept for the comparison.
fn digest(contents: &[Vec<u8>]) -> [u8; 32] {
    let parts: Vec<u8> = contents.iter().flat_map(Sha256::digest).collect();
    Sha256::digest(parts).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::ParseIntError;
    use tempfile::TempDir;

    fn sum([first, second]: [&[u8]; 2]) -> Result<Arc<i32>, ParseIntError> {
        let number = |bytes: &[u8]| String::from_utf8_lossy(bytes).parse::<i32>();
        Ok(Arc::new(number(first)? + number(second)?))
    }

    #[expect(clippy::disallowed_methods, reason = "the tests play the kubelet")]
    fn write(folder: &TempDir, name: &str, text: &str) -> Source {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Source::File(path)
    }

    #[test]
    fn new_content_is_swapped_in_and_unusable_content_is_kept_out() {
        let folder = TempDir::new().unwrap();
        let sources = [write(&folder, "a", "1"), write(&folder, "b", "2")];
        let pair = Reloaded::load(sources, sum).unwrap();
        assert_eq!(*pair.current(), 3);
        assert!(matches!(pair.check(), Change::None));

        write(&folder, "b", "5");
        assert!(matches!(pair.check(), Change::Swapped));
        assert_eq!(*pair.current(), 6);

        write(&folder, "a", "one");
        let Change::Kept(error) = pair.check() else {
            panic!("kept")
        };
        let message = error.to_string();
        assert!(
            message.contains("/a with ") && message.ends_with("invalid digit found in string"),
            "{message}"
        );
        assert!(matches!(pair.check(), Change::None), "reported once");
        assert_eq!(*pair.current(), 6);

        write(&folder, "a", "2");
        assert!(matches!(pair.check(), Change::Swapped));
        assert_eq!(*pair.current(), 7);
    }

    #[test]
    fn a_missing_file_keeps_the_old_value_until_it_is_back() {
        let folder = TempDir::new().unwrap();
        let sources = [write(&folder, "a", "1"), write(&folder, "b", "2")];
        let pair = Reloaded::load(sources.clone(), sum).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the tests play the kubelet")]
        std::fs::remove_file(folder.path().join("a")).unwrap();
        assert!(matches!(pair.check(), Change::Kept(LoadError::Read { .. })));
        assert!(matches!(pair.check(), Change::None), "reported once");
        assert!(matches!(Reloaded::load(sources, sum), Err(LoadError::Read { .. })));
        write(&folder, "a", "10");
        assert!(matches!(pair.check(), Change::Swapped));
        assert_eq!(*pair.current(), 12);
    }

    #[test]
    fn a_source_may_be_nothing() {
        let lengths = |all: [&[u8]; 2]| Ok::<_, io::Error>(Arc::new(all.concat().len()));
        let pair = Reloaded::load([Source::optional(None), Source::Nothing], lengths).unwrap();
        assert_eq!(*pair.current(), 0);
    }
}
