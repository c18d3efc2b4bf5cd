//! The image that is made: the same bytes each time, small, with a bill of everything in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::cluster::repository;
use crate::image::{lay_out, product};
use crate::programs;

/// What an image may have to pull: 20 MB.
const BUDGET: u64 = 20_000_000;

/// What the bill says of each crate: its name, its version and its licence.
fn billed(document: &Value) -> BTreeSet<(String, String)> {
    let crates = document["components"].as_array().expect("the bill has components");
    let crate_of = |component: &Value| {
        let text = |field: &str| {
            component[field]
                .as_str()
                .expect("crates have names and versions")
                .to_owned()
        };
        let licences = component["licenses"].to_string();
        assert!(
            licences.contains("\"expression\":\"") || licences.contains("\"name\":\""),
            "{component}"
        );
        (text("name"), text("version"))
    };
    crates.iter().map(crate_of).collect()
}

/// The crates that a program with `features` is linked with, by cargo itself.
fn linked(features: &str) -> BTreeSet<(String, String)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(repository())
        .args(["tree", "--locked", "--edges=normal,no-proc-macro"]);
    cargo.args([
        "--prefix=none",
        "--format={p}",
        "--no-default-features",
        "--features",
        features,
    ]);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    // The first line is the crate itself, which is what the bill is of.
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (name, version) = (words.next().unwrap(), words.next().unwrap());
            (name.to_owned(), version.trim_start_matches('v').to_owned())
        })
        .collect()
}

#[test]
fn the_image_is_the_same_each_time_and_says_what_it_is_made_of() {
    let folder = TempDir::new().unwrap();
    let programs = programs::link(folder.path());
    for name in ["one", "other"] {
        product(&folder.path().join(name), &programs);
    }
    for part in ["layer.tar", "config.json"] {
        let [one, other] = ["one", "other"].map(|name| fs::read(folder.path().join(name).join(part)).unwrap());
        assert!(one == other, "the same programs make another {part}");
    }

    let bill = fs::read_to_string(folder.path().join("one/root/usr/share/sbom/outrigger.cdx.json")).unwrap();
    let bill: Value = serde_json::from_str(&bill).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["name"], "outrigger");
    let billed = billed(&bill);
    for features in ["webhook,node-api", "egress-gateway", "node", "node-api"] {
        let linked = linked(features);
        let missing: Vec<_> = linked.difference(&billed).collect();
        assert!(linked.len() > 20 && missing.is_empty(), "{features}: {missing:?}");
    }
    assert!(
        !bill.to_string().contains(repository().to_str().unwrap()),
        "the bill names a folder of this machine"
    );
}

#[test]
fn an_image_that_is_too_large_is_refused() {
    let folder = TempDir::new().unwrap();
    let size = |root: &Path| {
        Command::new(repository().join("image/size"))
            .arg(root)
            .output()
            .unwrap()
    };
    let (fits, exceeds) = (folder.path().join("fits"), folder.path().join("exceeds"));
    for root in [&fits, &exceeds] {
        fs::create_dir(root).unwrap();
    }
    // Much of nothing is little to pull, and no program makes noise smaller.
    File::create(fits.join("program")).unwrap().set_len(2 * BUDGET).unwrap();
    let mut noise = File::open("/dev/urandom").unwrap().take(BUDGET);
    io::copy(&mut noise, &mut File::create(exceeds.join("program")).unwrap()).unwrap();
    let taken = size(&fits);
    let said = String::from_utf8_lossy(&taken.stdout);
    assert!(
        taken.status.success() && said.contains("; 40000000 bytes unpacked"),
        "{said}"
    );
    let refused = size(&exceeds);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("20000000 at most"), "{said}");

    // What this test links is no release.
    if let Some(programs) = programs::given() {
        let bill = folder.path().join("bill");
        fs::write(&bill, "").unwrap();
        let checked = size(&lay_out(folder.path(), &programs, &bill));
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
