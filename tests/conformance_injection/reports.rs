//! The reports that Linkerd's command line prints beside its golden files, with and without `--verbose`.

use crate::cases;
use crate::goldens::{Golden, files};
use outrigger::cli::Failure;
use outrigger::cli::resources::report::{of_injection, of_uninjection};
use outrigger::cli::resources::{Change, Report, change_document};
use outrigger::cli::uninject::uninjected;
use outrigger::pod::manifest;
use serde_json::Value;
use std::fs;

#[test]
fn reports_are_those_of_linkerd() {
    let Some(folder) = cases() else { return };
    let goldens: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("goldens.json")).unwrap()).unwrap();
    let (mut equal, mut wrong) = (0, Vec::new());
    for case in &goldens {
        let golden = Golden { case, folder: &folder };
        for (key, verbose) in [("report", false), ("reportVerbose", true)] {
            let Some(file) = case[key].as_str() else { continue };
            let theirs = fs::read_to_string(folder.join(file)).unwrap();
            match golden.report(verbose) {
                ours if ours == theirs => equal += 1,
                ours => wrong.push(format!(
                    "{} ({file}): ours {ours:?}, theirs {theirs:?}",
                    golden.text("test")
                )),
            }
        }
    }
    println!("reports: {equal} equal, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal > 50, "only {equal} reports were compared");
}

impl Golden<'_> {
    /// What is said on standard error; of a folder file by file, as Linkerd's test has it.
    fn report(&self, verbose: bool) -> String {
        match self.text("mode") {
            "cli-uninject" => self.each_file(uninjected, of_uninjection),
            "cli-inject-only" => {
                let injector = self.injector();
                self.each_file(
                    |object| injector.inject(object),
                    |reports| of_injection(reports, verbose),
                )
            }
            "cli-uninject-then-inject" => {
                let injector = self.injector();
                self.each_file(
                    |object| injector.reinject(object),
                    |reports| of_injection(reports, verbose),
                )
            }
            mode => panic!("no reports in mode {mode}"),
        }
    }

    fn each_file(&self, change: impl Fn(&Value) -> Change, report: impl Fn(&[Report]) -> String) -> String {
        let said = files(&self.folder.join(self.text("input"))).into_iter().map(|file| {
            let (mut reports, mut errors) = (Vec::new(), Vec::new());
            for document in manifest::read(&fs::read_to_string(file).unwrap()).unwrap() {
                errors.extend(
                    change_document(&document.value, &change, &mut reports)
                        .err()
                        .into_iter()
                        .flatten(),
                );
            }
            match errors.is_empty() {
                true => report(&reports),
                false => Failure::transforming(&errors).to_string(),
            }
        });
        said.collect()
    }
}
