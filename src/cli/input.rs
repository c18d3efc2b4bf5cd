//! Manifests from files, folders and standard input.

use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::{self, File};
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

/// One file's text.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// The file, or `-` for standard input.
    pub(super) name: String,
    /// What it holds.
    pub(super) text: String,
}

/// Which files of a folder are read, all below it and in lexical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// Every file, as by `linkerd inject`.
    Whole,
    /// What `kubectl` takes for manifests: files that end in `.yaml`, `.yml` or `.json`.
    Manifests,
}

/// Reads every argument: a file, a folder, or `-` for standard input.
pub(super) fn read(arguments: &[PathBuf], folder: Folder) -> Result<Vec<Input>> {
    ensure!(!arguments.is_empty(), "please specify a kubernetes resource file");
    let is_stdin = |argument: &&PathBuf| argument.as_os_str() == "-";
    ensure!(
        arguments.iter().filter(is_stdin).count() < 2,
        "- stands twice: standard input can be read once"
    );
    let mut inputs = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" {
            let (name, text) = ("-".to_owned(), decode(stdin().lock()).context("standard input")?);
            inputs.push(Input { name, text });
            continue;
        }
        for path in files(argument, folder)? {
            let name = path.display().to_string();
            // A pipe in a folder would never end; one that is named is meant.
            let readable = path == *argument || path.is_file() || !path.exists();
            ensure!(readable, "{name}: is neither file nor folder");
            let text = text(&path)?;
            inputs.push(Input { name, text });
        }
    }
    Ok(inputs)
}

/// Reads one file as text.
#[expect(clippy::disallowed_methods, reason = "reading manifests is what this module is for")]
pub(super) fn text(path: &Path) -> Result<String> {
    File::open(path)
        .map_err(Into::into)
        .and_then(decode)
        .with_context(|| path.display().to_string())
}

/// How much is read of one file: more than any manifest has, less than a device without end.
const LIMIT: u64 = 256 << 20;

fn decode(source: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    let length = source.take(LIMIT + 1).read_to_end(&mut bytes)?;
    ensure!(
        u64::try_from(length).is_ok_and(|length| length <= LIMIT),
        "is larger than {} MiB",
        LIMIT >> 20
    );
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        anyhow!("is no text in UTF-8: the byte at offset {offset} is none of a character")
    })
}

/// The files that `path` stands for.
fn files(path: &Path, folder: Folder) -> Result<Vec<PathBuf>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(_) if path.to_str().is_some_and(|text| text.contains("://")) => {
            bail!(
                "{}: URLs are not read; fetch it and pass - for standard input",
                path.display()
            )
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let mut found = Vec::new();
    if metadata.is_dir() {
        walk(path, &mut found)?;
        if folder == Folder::Manifests {
            found.retain(|path| {
                path.extension()
                    .is_some_and(|ending| ENDINGS.iter().any(|it| ending == *it))
            });
            ensure!(
                !found.is_empty(),
                "{}: no file below it ends in .{}",
                path.display(),
                ENDINGS.join(", .")
            );
        }
    } else {
        found.push(path.to_owned());
    }
    Ok(found)
}

/// How the names of manifests end.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Every file below `folder`. Links to files count as files; links to folders are not followed, for they may lead back.
#[expect(clippy::disallowed_methods, reason = "reading manifests is what this module is for")]
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let read = || -> std::io::Result<Vec<_>> { fs::read_dir(folder)?.collect() };
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
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes the files that are read")]
    fn folders_are_read_in_lexical_order() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["b.yaml", "a/z.txt", "a/b.yaml", "c"] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        symlink(folder.path(), folder.path().join("a/loop")).unwrap();
        symlink("c", folder.path().join("link")).unwrap();
        let inputs = read(&[folder.path().to_owned(), folder.path().join("c")], Folder::Whole).unwrap();
        let texts: Vec<_> = inputs.iter().map(|input| input.text.as_str()).collect();
        assert_eq!(texts, ["a/b.yaml", "a/z.txt", "b.yaml", "c", "c", "c"]);
        let inputs = read(&[folder.path().to_owned()], Folder::Manifests).unwrap();
        let texts: Vec<_> = inputs.iter().map(|input| input.text.as_str()).collect();
        assert_eq!(texts, ["a/b.yaml", "b.yaml"]);
        fs::write(folder.path().join("binary"), [b'a', 0xff]).unwrap();
        let error = format!("{:#}", read(&[folder.path().to_owned()], Folder::Whole).unwrap_err());
        assert!(
            error.contains("binary: is no text in UTF-8: the byte at offset 1"),
            "{error}"
        );
    }

    #[test]
    fn what_has_no_end_is_given_up() {
        let error = format!("{:#}", text(Path::new("/dev/zero")).unwrap_err());
        assert_eq!(error, "/dev/zero: is larger than 256 MiB");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |argument: &str| format!("{:#}", read(&[argument.into()], Folder::Whole).unwrap_err());
        assert_eq!(
            error("no/such/file"),
            "no/such/file: No such file or directory (os error 2)"
        );
        let empty = tempfile::tempdir().unwrap();
        let error_of_folder = format!("{:#}", read(&[empty.path().to_owned()], Folder::Manifests).unwrap_err());
        assert!(
            error_of_folder.ends_with(": no file below it ends in .yaml, .yml, .json"),
            "{error_of_folder}"
        );
        let twice = read(&["-".into(), "-".into()], Folder::Whole).unwrap_err().to_string();
        assert_eq!(twice, "- stands twice: standard input can be read once");
        assert!(error("https://example.org/app.yaml").contains("URLs are not read"));
        assert_eq!(
            format!("{:#}", read(&[], Folder::Whole).unwrap_err()),
            "please specify a kubernetes resource file"
        );
    }
}
