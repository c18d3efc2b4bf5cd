//! Small Go programs over upstream's own code, which say what is right: built once, kept in a cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sha2::{Digest, Sha256};

/// A built program.
#[derive(Debug)]
pub(crate) struct Oracle {
    binary: PathBuf,
}

impl Oracle {
    /// Builds the program whose sources, one Go module, lie in `sources`; panics where Go is missing or fails.
    ///
    /// The binary is kept in `$OUTRIGGER_TEST_CACHE`, else under `$XDG_CACHE_HOME` or `$HOME/.cache`, under a name that
    /// changes with the sources.
    pub(crate) fn build(sources: &Path) -> Self {
        let files = read(sources);
        let name = sources.file_name().unwrap().to_str().unwrap();
        let cache = cache().join(name);
        let binary = cache.join(digest(&files));
        if binary.exists() {
            return Self { binary };
        }
        fs::create_dir_all(&cache).unwrap();
        // The sources may lie where nothing can be written; a rename lets no one see half a binary.
        let scratch = tempfile::tempdir_in(&cache).unwrap();
        for (name, content) in &files {
            fs::write(scratch.path().join(name), content).unwrap();
        }
        let built = Command::new("go")
            .args(["build", "-trimpath", "-o", "oracle.out", "."])
            .env("CGO_ENABLED", "0")
            .current_dir(scratch.path())
            .status()
            .expect("go is needed to build the programs that say what is right: install Go 1.26");
        assert!(built.success(), "go build of {} failed: {built}", sources.display());
        fs::rename(scratch.path().join("oracle.out"), &binary).unwrap();
        Self { binary }
    }

    /// Starts it with `arguments`, questions on standard input, answers on standard output.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Names and contents of the files of a folder, in order.
fn read(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

fn digest(files: &[(String, Vec<u8>)]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in files {
        hash.update(name);
        hash.update([0]);
        hash.update(Sha256::digest(content));
    }
    let digest = hash.finalize();
    let (start, _) = digest.split_first_chunk().unwrap();
    format!("{:016x}", u64::from_be_bytes(*start))
}

fn cache() -> PathBuf {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("OUTRIGGER_TEST_CACHE").unwrap_or_else(|| {
        let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        caches
            .expect("HOME is unset: set OUTRIGGER_TEST_CACHE")
            .join("outrigger/oracles")
    })
}
