//! What the Dockerfile says of the image, read and not repeated: how it is laid out, and how it starts.

use std::fs;

use serde_json::{Value, json};

use crate::cluster::repository;

/// What lays the root file system out, for the Dockerfile as for the tests.
pub(crate) const LAYOUT: &str = "image/rootfs";

/// The configuration of the image, as the last stage has it; that stage has nothing but the file system that [`LAYOUT`] makes.
pub(crate) fn configuration() -> Value {
    let text = fs::read_to_string(repository().join("Dockerfile")).expect("the Dockerfile is there");
    let (build, last) = text
        .split_once("\nFROM scratch\n")
        .expect("the image is made of nothing");
    let lays_out = |line: &str| line.contains(&format!(" {LAYOUT} /programs /sbom.json /image "));
    assert!(build.lines().any(lays_out), "{build}");
    let mut configuration = json!({});
    let mut copied = 0;
    for line in last.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(' ').expect("an instruction has arguments") {
            ("COPY", "--from=build /image /") => copied += 1,
            ("USER", user) => configuration["User"] = user.into(),
            ("ENTRYPOINT", list) => {
                configuration["Entrypoint"] = serde_json::from_str(list).expect("it is in the form of a list");
            }
            _ => panic!("the tests' image does not have what the Dockerfile says: {line}"),
        }
    }
    assert_eq!(copied, 1, "{last}");
    configuration
}
