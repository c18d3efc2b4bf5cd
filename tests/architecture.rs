//! The rules of `ARCHITECTURE.md` that a compiler does not keep: which rooms are pure, and who may import whom.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot read the sources must fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each room may import from the others. Rooms that are missing here may import everything.
const IMPORTS: [(&str, &[&str]); 11] = [
    ("pod", &[]),
    ("config", &["pod", "redirect"]),
    ("policy", &["pod"]),
    ("redirect", &[]),
    ("egress", &["pod"]),
    ("egress/gateway", &["cluster", "egress", "pod", "webhook"]),
    ("inject", &["config", "pod"]),
    ("decide", &["config", "inject", "pod", "policy"]),
    ("cluster", &["config", "decide", "egress", "inject", "pod", "policy"]),
    ("cni", &["config", "inject", "pod", "redirect"]),
    ("webhook", &["cluster", "config", "decide", "inject", "pod", "policy"]),
];

/// Rooms without files, clock, environment, network, processes, async or a client of the API server.
const PURE: [&str; 8] = [
    "pod", "config", "policy", "decide", "inject", "redirect", "cni", "egress",
];

/// Parts of pure rooms that are not.
const IMPURE_PARTS: [&str; 5] = [
    "redirect/apply",
    "cni/agent",
    "cni/plugin",
    "redirect/validate",
    "egress/gateway",
];

/// Parts of other rooms that are pure.
const PURE_PARTS: [&str; 2] = ["cli/check/rules", "webhook/certificate/upkeep/plan"];

/// What a pure room never mentions.
const IMPURE: [&str; 23] = [
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os::",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "std::io::stdout",
    "SystemTime",
    "Instant::",
    "std::env",
    "env::var(",
    "tokio",
    "futures",
    "kube::",
    "k8s_openapi",
    "axum",
    "hyper",
    "rustix",
    "async fn",
    ".await;",
    ".await?",
    "tracing::",
];

/// Every source file, by its path below `src` without the ending.
fn sources() -> BTreeMap<String, String> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    visit(&root, &mut found);
    let name = |path: &Path| {
        path.strip_prefix(&root)
            .unwrap()
            .with_extension("")
            .to_string_lossy()
            .into_owned()
    };
    found
        .iter()
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The room of a file. The gateway has more of its own than a part of another room: it serves, as the webhook does.
fn room(file: &str) -> &str {
    if file.starts_with("egress/gateway") {
        return "egress/gateway";
    }
    file.split('/').next().unwrap()
}

/// The code of a file, without comments and string literals of documentation.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

#[test]
fn pure_rooms_do_nothing() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let is_in = |parts: &[&str]| parts.iter().any(|part| file.starts_with(part));
        let pure = PURE.contains(&room(&file)) && !is_in(&IMPURE_PARTS) || is_in(&PURE_PARTS);
        for (line, content) in code(&text).filter(|_| pure) {
            let found = IMPURE.iter().filter(|word| content.contains(**word));
            faults.extend(found.map(|word| format!("src/{file}.rs:{line}: {word} in a pure room")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn imports_point_one_way() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == room(&file)) else {
            continue;
        };
        for (line, content) in code(&text) {
            for imported in content.split("crate::").skip(1) {
                let imported = imported
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
                    .unwrap_or_default();
                if !imported.is_empty() && imported != room(&file) && !allowed.contains(&imported) {
                    faults.push(format!(
                        "src/{file}.rs:{line}: {} may not import {imported}",
                        room(&file)
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_are_small() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(file, lines)| *lines > 400 && !file.ends_with("tests"))
        .collect();
    assert!(long.is_empty(), "over 400 lines: {long:?}");
}

#[test]
fn every_room_says_what_it_is_for() {
    for (file, text) in sources() {
        assert!(
            text.starts_with("//!") || file.ends_with("tests"),
            "src/{file}.rs has no module documentation"
        );
    }
}
