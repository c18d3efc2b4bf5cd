//! Files, folders and streams that are not what they should be.

use crate::{command, finished, run};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n";

fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, POD).unwrap();
    }
    folder
}

/// How many pods `explain` finds in folder `dir`.
fn explained(folder: &Path) -> usize {
    let run = run(folder, "explain -o json -f dir");
    assert_eq!(run.status, 0, "{}", run.said);
    let answer: Vec<serde_json::Value> = serde_json::from_str(&run.printed).unwrap();
    answer.len()
}

#[test]
fn folders_hold_what_they_like() {
    let folder = folder(&["dir/a.yaml", "dir/b/c.yml", "dir/b/d.json", "dir/README.md"]);
    symlink("..", folder.path().join("dir/b/up")).unwrap();
    symlink("../a.yaml", folder.path().join("dir/b/again.yaml")).unwrap();
    fs::create_dir(folder.path().join("dir/folder.yaml")).unwrap();
    fs::write(folder.path().join("dir/picture.png"), [0xff; 100]).unwrap();
    assert_eq!(explained(folder.path()), 4);
    for command in ["inject --ignore-cluster", "uninject"] {
        let run = run(folder.path(), &format!("{command} dir"));
        assert_eq!(run.status, 0, "{}", run.said);
        assert_eq!(run.printed.matches("kind: Pod").count(), 4, "{}", run.printed);
        let passed_over =
            "warning: passed over, for they do not end in .yaml, .yml, .json: dir/README.md, dir/picture.png\n";
        assert!(run.said.starts_with(passed_over), "{}", run.said);
    }
    // What is named is meant.
    run(folder.path(), "uninject dir/picture.png").expect_failure(1, "dir/picture.png: is no text");
}

#[test]
fn files_that_are_none_are_named() {
    let folder = folder(&["dir/a.yaml"]);
    symlink("nowhere", folder.path().join("dir/b.yaml")).unwrap();
    for (command, status) in [
        ("explain -f", 2),
        ("policy evaluate", 2),
        ("inject --ignore-cluster", 1),
        ("uninject", 1),
    ] {
        run(folder.path(), &format!("{command} nosuch")).expect_failure(status, "nosuch: No such file or directory");
        run(folder.path(), &format!("{command} dir")).expect_failure(status, "dir/b.yaml: No such file or directory");
    }
    fs::remove_file(folder.path().join("dir/b.yaml")).unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("dir/c.yaml")).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "mkfifo is needed: install coreutils"
    );
    run(folder.path(), "explain -f dir").expect_failure(2, "dir/c.yaml: is neither file nor folder");
    fs::create_dir(folder.path().join("empty")).unwrap();
    run(folder.path(), "explain -f empty").expect_failure(2, "empty: no file below it ends in .yaml");
    run(folder.path(), "explain -f dir/a.yaml --values dir").expect_failure(2, "dir: Is a directory");
}

#[test]
fn standard_input_is_read_once() {
    let folder = folder(&[]);
    let mut child = command(folder.path(), "explain -o json -f -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(POD.as_bytes()).unwrap();
    let run_once = finished(child.wait_with_output().unwrap(), "explain -f -");
    assert_eq!(run_once.status, 0, "{}", run_once.said);
    run(folder.path(), "explain -f - -f -").expect_failure(2, "- stands twice");
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let folder = folder(&["a.yaml"]);
    for (arguments, status) in [
        ("explain -f a.yaml", 2),
        ("explain -o json -f a.yaml", 2),
        ("policy evaluate a.yaml", 2),
        ("inject --ignore-cluster a.yaml", 1),
        ("uninject a.yaml", 1),
        ("version", 2),
        ("--help", 2),
        ("explain --help", 2),
        ("install", 2),
        ("install-cni", 2),
        ("uninstall --cni", 2),
        ("completion bash", 2),
        ("certs --dns localhost --out pair", 2),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(folder.path(), arguments).stdout(full).output().unwrap();
        finished(output, arguments).expect_failure(status, "No space left on device");
    }
}

#[test]
fn a_reader_that_goes_away_changes_no_verdict() {
    let folder = folder(&["a.yaml"]);
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {linkerd.io/inject: enabled}, \
                     labels: {pod-security.kubernetes.io/enforce: baseline}}\n---\n";
    // More than a pipe holds, so that writing fails in the middle.
    let pods = format!("---\n{POD}").repeat(200);
    fs::write(folder.path().join("refused.yaml"), [namespace, &pods].concat()).unwrap();
    for (arguments, status) in [
        ("explain -o json -f refused.yaml --cni none", 1),
        ("explain --trace -f refused.yaml --cni none", 1),
        ("explain -o json -f refused.yaml --cni all", 0),
        ("inject --ignore-cluster refused.yaml", 0),
        ("policy evaluate refused.yaml", 1),
    ] {
        let mut child = command(folder.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let run = finished(child.wait_with_output().unwrap(), arguments);
        assert_eq!(run.status, status, "{arguments}: {}", run.said);
    }
}

/// A disk that is full in the middle: no file of a pair is replaced unless all are, and nothing is left beside them.
#[test]
fn certificates_are_written_whole_or_not_at_all() {
    let folder = folder(&[]);
    let names = |folder: &Path| -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(folder).unwrap().flatten();
        files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .collect()
    };
    // Of nothing; of one file, and a part of the next: what a process may write is limited as a full disk limits it.
    for (limit, before) in [(0, false), (0, true), (1, true)] {
        let out = folder.path().join(format!("pair-{limit}-{before}"));
        // Names that make the second file longer than a kilobyte, which the first is not.
        let host = "a.".repeat(120) + "a";
        let certs = format!(
            "certs --dns {host} --dns b.{host} --dns c.{host} --force --out {}",
            out.display()
        );
        if before {
            assert_eq!(run(folder.path(), &certs).status, 0);
        } else {
            fs::create_dir(&out).unwrap();
        }
        let old = names(&out);
        let program = env!("CARGO_BIN_EXE_outrigger");
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec {program} {certs}");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        finished(output, &script).expect_failure(2, "File too large");
        assert_eq!(names(&out), old);
    }
}
