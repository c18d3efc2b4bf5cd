//! Manifests that arguments name: files, folders, standard input, or what a kustomization renders.
//!
//! A folder with a kustomization is no folder of manifests: patches in it are parts of objects, and its resources change on
//! the way. `kubectl apply -f` fails on it; here it is passed over, and said to be.

use super::input::{self, Input};
use super::note;
use super::objects::{self, Object};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The names under which `kustomize` looks for its file, in its order.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Which manifests are read.
#[derive(Args, Clone, Debug)]
pub(super) struct Manifests {
    /// Manifests: a file, a folder (every .yaml, .yml and .json file below it), an https:// URL, or - for standard input; may be
    /// repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// A folder with a kustomization, which kubectl renders
    #[arg(short, long, value_name = "FOLDER")]
    kustomize: Option<PathBuf>,
}

impl Manifests {
    /// Every object, as [`objects::read_valid`] takes them.
    pub(super) fn objects(&self) -> Result<Vec<Object>> {
        objects(&self.filename, self.kustomize.as_deref())
    }

    /// What was named, for messages.
    pub(super) fn names(&self) -> String {
        let named = self.filename.iter().chain(&self.kustomize);
        named
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Every object of what a kustomization renders, where one is named, else of `files`.
pub(super) fn objects(files: &[PathBuf], kustomization: Option<&Path>) -> Result<Vec<Object>> {
    objects::read_valid(&match kustomization {
        Some(folder) => vec![render(folder)?],
        None => read(files)?,
    })
}

/// Reads files, folders and standard input, but for what belongs to a kustomization in one of the folders.
fn read(arguments: &[PathBuf]) -> Result<Vec<Input>> {
    let is_kustomization = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| KUSTOMIZATIONS.iter().any(|it| name == *it))
    };
    if let Some(file) = arguments.iter().find(is_kustomization) {
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        bail!(
            "{}: is a kustomization; {}",
            file.display(),
            way_out(folder.unwrap_or_else(|| Path::new(".")))
        );
    }
    let mut inputs = input::read(arguments)?;
    let mut passed_over = BTreeSet::new();
    inputs.retain(|input| match kustomization_of(Path::new(&input.name), arguments) {
        Some(folder) => {
            passed_over.insert(folder.to_owned());
            false
        }
        None => true,
    });
    for folder in &passed_over {
        let said = format!("{}: is a kustomization", folder.display());
        ensure!(!inputs.is_empty(), "{said}; {}", way_out(folder));
        note(&format!("{said} and passed over; {}\n", way_out(folder)));
    }
    Ok(inputs)
}

/// The outermost folder with a kustomization that `path` belongs to, among the folders that arguments name and below these.
fn kustomization_of<'p>(path: &'p Path, arguments: &[PathBuf]) -> Option<&'p Path> {
    if arguments.iter().any(|argument| argument == path) {
        return None;
    }
    let named = |folder: &&Path| arguments.iter().any(|argument| folder.starts_with(argument));
    let folders = path.ancestors().skip(1).take_while(named);
    folders
        .filter(|folder| KUSTOMIZATIONS.iter().any(|name| folder.join(name).is_file()))
        .last()
}

fn way_out(folder: &Path) -> String {
    format!("what it renders is given with -k {}", folder.display())
}

/// What the kustomization in `folder` renders.
#[expect(
    clippy::disallowed_methods,
    reason = "kubectl has kustomize, which nobody would write again"
)]
fn render(folder: &Path) -> Result<Input> {
    let name = folder.display().to_string();
    let kubectl = Command::new("kubectl")
        .args(["kustomize", "--"])
        .arg(folder)
        .stdin(Stdio::null())
        .output();
    let output = match kubectl {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "-k needs kubectl, which is not on PATH; with another program: kustomize build {name} | outrigger … -f -"
        ),
        output => output.context("kubectl")?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl kustomize {name}: {}",
        said.trim().trim_start_matches("error: ")
    );
    note(&said);
    let text = String::from_utf8(output.stdout).with_context(|| format!("kubectl kustomize {name}"))?;
    Ok(Input { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A folder with empty files.
    #[expect(clippy::disallowed_methods, reason = "makes the files that are read")]
    fn folder_of(files: &[&str]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    /// What is read where `arguments` name files and folders in `folder`.
    fn read_in(folder: &TempDir, arguments: &[&str]) -> Result<Vec<String>, String> {
        let arguments: Vec<_> = arguments.iter().map(|argument| folder.path().join(argument)).collect();
        let inputs = read(&arguments).map_err(|error| error.to_string())?;
        let start = format!("{}/", folder.path().display());
        Ok(inputs.iter().map(|input| input.name.replace(&start, "")).collect())
    }

    #[test]
    fn what_belongs_to_a_kustomization_is_passed_over() {
        let files = [
            "app/base/kustomization.yaml",
            "app/base/web.yaml",
            "app/plain/web.yaml",
            "app/prod/Kustomization",
            "app/prod/deep/patch.json",
            "outer/kustomization.yml",
            "outer/web.yaml",
        ];
        let folder = folder_of(&files);
        let found = |arguments: &[&str]| read_in(&folder, arguments).unwrap();
        assert_eq!(found(&["app"]), ["app/plain/web.yaml"]);
        assert_eq!(found(&["app", "outer"]), ["app/plain/web.yaml"]);
        // What is named itself is meant, and nobody looks above a folder that is.
        assert_eq!(found(&["outer/web.yaml"]), ["outer/web.yaml"]);
        assert_eq!(found(&["app/prod/deep"]), ["app/prod/deep/patch.json"]);
        assert_eq!(
            found(&["app/plain", "outer/web.yaml"]),
            ["app/plain/web.yaml", "outer/web.yaml"]
        );
    }

    #[test]
    fn a_kustomization_alone_is_an_error_that_leads_out() {
        let folder = folder_of(&["app/kustomization.yaml", "app/web.yaml"]);
        let error = |arguments: &[&str]| read_in(&folder, arguments).unwrap_err();
        for arguments in [["app"], ["app/kustomization.yaml"]] {
            let error = error(&arguments);
            assert!(
                error.contains("is a kustomization; what it renders is given with -k "),
                "{error}"
            );
            assert!(error.ends_with("/app"), "{error}");
        }
    }
}
