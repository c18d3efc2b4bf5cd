//! Manifests from files, folders and standard input.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
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

/// Reads every argument: a file, a folder with everything below it in lexical order, or `-` for standard input.
pub(super) fn read(arguments: &[PathBuf]) -> Result<Vec<Input>> {
    ensure!(!arguments.is_empty(), "please specify a kubernetes resource file");
    let mut inputs = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" {
            inputs.push(Input {
                name: "-".to_owned(),
                text: standard_input()?,
            });
            continue;
        }
        for path in files(argument)? {
            inputs.push(Input {
                name: path.display().to_string(),
                text: text(&path)?,
            });
        }
    }
    Ok(inputs)
}

/// Reads one file as text.
#[expect(clippy::disallowed_methods, reason = "reading manifests is what this module is for")]
pub(super) fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn standard_input() -> Result<String> {
    let mut text = String::new();
    stdin().read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

/// The files that `path` stands for.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
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
    } else {
        found.push(path.to_owned());
    }
    Ok(found)
}

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
        } else if kind.is_file() || path.is_file() {
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
        let inputs = read(&[folder.path().to_owned(), folder.path().join("c")]).unwrap();
        let texts: Vec<_> = inputs.iter().map(|input| input.text.as_str()).collect();
        assert_eq!(texts, ["a/b.yaml", "a/z.txt", "b.yaml", "c", "c", "c"]);
        fs::write(folder.path().join("binary"), [0xff]).unwrap();
        let error = format!("{:#}", read(&[folder.path().to_owned()]).unwrap_err());
        assert!(error.contains("binary: "), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |argument: &str| format!("{:#}", read(&[argument.into()]).unwrap_err());
        assert_eq!(
            error("no/such/file"),
            "no/such/file: No such file or directory (os error 2)"
        );
        assert!(error("https://example.org/app.yaml").contains("URLs are not read"));
        assert_eq!(
            format!("{:#}", read(&[]).unwrap_err()),
            "please specify a kubernetes resource file"
        );
    }
}
