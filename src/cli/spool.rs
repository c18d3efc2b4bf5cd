//! Room for what is not to be shown before all of it is there: little in memory, much in a file without a name.

use tempfile::SpooledTempFile;

/// Bytes that go to standard output once everything has gone well, or are read more than once.
pub(super) type Spool = SpooledTempFile;

/// How many bytes stay in memory: what a handful of manifests take, so that those need no file.
const IN_MEMORY: usize = 1 << 20;

/// An empty spool. Its file, where one is needed, is in `$TMPDIR`, or else `/tmp`, and nobody else can open it.
pub(super) fn new() -> Spool {
    tempfile::spooled_tempfile(IN_MEMORY)
}

/// What an error is about: where the file is.
pub(super) fn place() -> String {
    format!("temporary file in {}", tempfile::env::temp_dir().display())
}
