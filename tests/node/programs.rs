//! The product's programs as an image without libraries needs them: linked statically.
//!
//! The programs are a line each; everything is in the library, which the tests are linked with already. A static C
//! library is a matter of the last link alone, so that is done once more here: seconds, where a build for a target of its
//! own would compile every dependency again. `OUTRIGGER_PROGRAMS` names a folder with a release's, as `image/programs` fills it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cluster::repository;

/// Each program and its source.
const PROGRAMS: [(&str, &str); 5] = [
    ("outrigger", "src/main.rs"),
    ("outrigger-egress-gateway", "src/bin/outrigger-egress-gateway.rs"),
    ("linkerd2-proxy-init", "src/bin/linkerd2-proxy-init.rs"),
    ("outrigger-cni", "src/bin/outrigger-cni.rs"),
    ("outrigger-cni-api", "src/bin/outrigger-cni-api.rs"),
];

/// The folder with the static programs; `folder` where they are linked here.
pub(crate) fn link(folder: &Path) -> PathBuf {
    if let Some(given) = given() {
        return given;
    }
    let library = library();
    let beside = library.parent().expect("a file has a folder");
    for (name, source) in PROGRAMS {
        let mut rustc = Command::new("rustc");
        rustc
            .current_dir(repository())
            .args(["--edition=2024", "--crate-type=bin", "--crate-name"])
            .arg(name.replace('-', "_"))
            .args(["-Ctarget-feature=+crt-static", "-Cstrip=symbols"])
            .args(optimisation())
            .arg(format!("-Ldependency={}", beside.display()))
            .arg(format!("-Ldependency={}", beside.join("deps").display()))
            .arg(format!("--extern=outrigger={}", library.display()))
            .arg("-o")
            .arg(folder.join(name))
            .arg(source);
        let output = rustc.output().expect("rustc runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} cannot be linked: {said}");
    }
    folder.to_owned()
}

/// The folder of a release's programs, where one is given.
pub(crate) fn given() -> Option<PathBuf> {
    Some(std::env::var_os("OUTRIGGER_PROGRAMS")?.into())
}

/// What the library of a release needs: it is bitcode.
fn optimisation() -> &'static [&'static str] {
    if cfg!(debug_assertions) {
        &[]
    } else {
        &["-Copt-level=3", "-Clto=fat", "-Ccodegen-units=1"]
    }
}

/// The library that this test is linked with; cargo knows, and has nothing to build.
fn library() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(repository())
        .args(["test", "--quiet", "--no-run", "--test=node", "--message-format=json"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo: {said}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut files = messages
        .filter(|message| message["target"]["name"] == "outrigger" && message["profile"]["test"] == false)
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from));
    let library = files.find(|file| file.extension().is_some_and(|ending| ending == "rlib"));
    library.unwrap_or_else(|| panic!("cargo names no library: {text}"))
}
