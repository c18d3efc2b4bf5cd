//! Files that are whole at every moment: written beside their place, synced, and put there by one rename.

#![expect(clippy::disallowed_methods, reason = "files are what this is about")]

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// How names of files that are being written begin and end; no runtime reads such a name as a configuration.
const UNFINISHED: (&str, &str) = (".outrigger-", ".tmp");

/// Longest text that is read; network configurations have a few KiB.
const LIMIT: u64 = 1 << 20;

/// How often a file goes back to writers that are faster; each takes one of two system calls in a row.
const ROUNDS: usize = 8;

/// What cannot be done to which file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { action, path, source }
    }
}

/// What a file is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// Permission bits.
    pub(super) mode: u32,
    /// User and group; those of this process where there are none.
    pub(super) ids: Option<(u32, u32)>,
}

impl Owner {
    /// This process's user, with `mode`.
    pub(super) const fn mode(mode: u32) -> Self {
        Self { mode, ids: None }
    }

    /// That of the file at `path`.
    pub(super) fn like(path: &Path) -> Result<Self, FileError> {
        let found = fs::metadata(path).map_err(FileError::of("look at", path))?;
        Ok(Self {
            mode: found.mode() & 0o7777,
            ids: Some((found.uid(), found.gid())),
        })
    }
}

/// What tells a file that was replaced or written from one that was not.
pub(super) type Identity = (u64, u64, i64, i64, u32);

/// The identity of the file at `path`; `None` where there is none.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let found: Metadata = fs::metadata(path).ok()?;
    Some((
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.mode(),
    ))
}

/// Reads all of the file at `path`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(FileError::of("read", path))
}

/// The file at `path`, to be read.
pub(super) fn open(path: &Path) -> Result<File, FileError> {
    File::open(path).map_err(FileError::of("read", path))
}

/// Whether the file at `path` has the content of `wanted`. Piece by piece: what a whole program takes once the allocator
/// would keep for good.
pub(super) fn holds(path: &Path, wanted: &File) -> io::Result<bool> {
    let (mut found, mut wanted) = (BufReader::new(File::open(path)?), BufReader::new(wanted));
    loop {
        let (some, other) = (found.fill_buf()?, wanted.fill_buf()?);
        let length = some.len().min(other.len());
        if length == 0 || some.iter().zip(other).any(|(one, other)| one != other) {
            return Ok(some.is_empty() && other.is_empty());
        }
        found.consume(length);
        wanted.consume(length);
    }
}

/// The text of a regular file, or why it has none.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let text = || -> io::Result<String> {
        let mut text = String::new();
        // A pipe in the folder would hold the reader back.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        File::open(path)?.take(LIMIT).read_to_string(&mut text)?;
        Ok(text)
    };
    text().map_err(|error| error.to_string())
}

/// The names of everything in `folder` but other folders.
pub(super) fn list(folder: &Path) -> Result<Vec<String>, FileError> {
    let listed = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    };
    listed().map_err(FileError::of("list", folder))
}

/// Makes `folder`, for root alone, and everything above it.
pub(super) fn make_private_folder(folder: &Path) -> Result<(), FileError> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(FileError::of("make folder", folder))
}

/// Puts `content` at `path`, whatever was there.
pub(super) fn put(path: &Path, content: impl Read, owner: Owner) -> Result<(), FileError> {
    let unfinished = write_beside(path, content, owner)?;
    finish(&unfinished, path, || fs::rename(&unfinished, path))
}

/// Puts `content` at `path` if what is there is still `expected`, or nothing where nothing is expected; whether it was.
///
/// Both files change places in one step, and what was there is looked at then: what another writer has put there in
/// between goes back, so that nobody's work is lost.
pub(super) fn exchange(path: &Path, expected: Option<&str>, content: &str, owner: Owner) -> Result<bool, FileError> {
    let target = real(path)?;
    let unfinished = write_beside(&target, content.as_bytes(), owner)?;
    let swap = |flags| renameat_with(CWD, &unfinished, CWD, &target, flags);
    let Some(expected) = expected else {
        let put = swap(RenameFlags::NOREPLACE);
        if put == Err(Errno::EXIST) {
            discard(&unfinished);
            return Ok(false);
        }
        return finish(&unfinished, &target, || Ok(put?)).map(|()| true);
    };
    match swap(RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // Gone in between.
        Err(Errno::NOENT) => {
            discard(&unfinished);
            return Ok(false);
        }
        // A file system without exchange: a moment is left in which another writer loses.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let same = read_text(&target).as_deref() == Ok(expected);
            if same {
                return finish(&unfinished, &target, || fs::rename(&unfinished, &target)).map(|()| true);
            }
            discard(&unfinished);
            return Ok(false);
        }
        Err(error) => return finish(&unfinished, &target, || Err(error.into())).map(|()| true),
    }
    let came = read_text(&unfinished);
    let same = came.as_deref() == Ok(expected);
    if !same {
        put_back(&unfinished, &target, Ok(content.to_owned()), came)?;
    }
    discard(&unfinished);
    sync_folder(&target)?;
    Ok(same)
}

/// Puts `came`, which `placed` has taken the place of, back; and, where yet another writer was faster again, what that
/// one has written.
fn put_back(
    unfinished: &Path,
    target: &Path,
    mut placed: Result<String, String>,
    mut came: Result<String, String>,
) -> Result<(), FileError> {
    for _ in 0..ROUNDS {
        renameat_with(CWD, unfinished, CWD, target, RenameFlags::EXCHANGE)
            .map_err(|error| FileError::of("put back", target)(error.into()))?;
        let out = read_text(unfinished);
        if out == placed {
            break;
        }
        placed = came;
        came = out;
    }
    Ok(())
}

/// Removes the file at `path`; one that is gone is what was wanted. Whether it was there.
pub(super) fn remove(path: &Path) -> Result<bool, FileError> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::of("remove", path)(error)),
    }
}

/// Removes what an earlier process left unfinished in `folder`.
pub(super) fn tidy(folder: &Path) {
    let unfinished = |name: &String| name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1);
    for name in list(folder).unwrap_or_default().iter().filter(|name| unfinished(name)) {
        discard(&folder.join(name));
    }
}

/// Where a link leads; the file behind it is what others write.
fn real(path: &Path) -> Result<PathBuf, FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(path).map_err(FileError::of("follow", path)),
        Ok(_) | Err(_) => Ok(path.to_owned()),
    }
}

fn write_beside(path: &Path, mut content: impl Read, owner: Owner) -> Result<PathBuf, FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (begin, end) = UNFINISHED;
    let unfinished = path.with_file_name(format!("{begin}{name}-{}{end}", std::process::id()));
    let mut write = || -> io::Result<()> {
        discard(&unfinished);
        // Nobody else reads it before it has its mode.
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&unfinished)?;
        io::copy(&mut content, &mut file)?;
        if let Some((user, group)) = owner.ids {
            fchown(&file, Some(user), Some(group))?;
        }
        file.set_permissions(Permissions::from_mode(owner.mode))?;
        file.sync_all()
    };
    write().map_err(|error| {
        discard(&unfinished);
        FileError::of("write", path)(error)
    })?;
    Ok(unfinished)
}

fn finish(unfinished: &Path, path: &Path, rename: impl FnOnce() -> io::Result<()>) -> Result<(), FileError> {
    rename().map_err(|error| {
        discard(unfinished);
        FileError::of("write", path)(error)
    })?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(FileError::of("sync", folder))
}

fn discard(path: &Path) {
    // What is not there need not go, and what cannot go is tried again at the next start.
    fs::remove_file(path).ok();
}
