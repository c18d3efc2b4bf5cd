//! Links within the repository lead somewhere, and every page is linked.

use crate::pages::{anchors, files, prose, read, repository};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Folders and files with pages.
fn pages() -> Vec<String> {
    let folders = ["docs", "charts", "certs", "webhook-config", "cni-config", "tests/cmd"];
    let roots = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let below = folders.iter().flat_map(|folder| files(folder, ".md"));
    roots.iter().map(|&root| root.to_owned()).chain(below).collect()
}

/// What the links of a page lead to.
fn targets(text: &str) -> Vec<String> {
    let prose: Vec<_> = prose(text).collect();
    // A link's text may go on in the next line; what stands in back quotes is no link.
    let plain: String = prose.join("\n").split('`').step_by(2).collect::<Vec<_>>().join("code");
    let ends = plain.split("](").skip(1);
    let inner = ends.filter_map(|rest| rest.split(')').next().map(str::to_owned));
    inner.filter(|target| !target.contains("://")).collect()
}

/// The path without `..`.
fn resolved(page: &str, target: &str) -> PathBuf {
    let from = Path::new(page).parent().unwrap().join(target);
    let mut path = PathBuf::new();
    for part in from.components() {
        match part == Component::ParentDir {
            true => assert!(path.pop(), "{page}: {target}"),
            false => path.push(part),
        }
    }
    path
}

#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    let mut faults = Vec::new();
    for page in pages() {
        for target in targets(&read(&page)) {
            seen += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => PathBuf::from(&page),
                file => resolved(&page, file),
            };
            let is_there = repository().join(&path).exists();
            if !is_there || !anchor.is_empty() && !anchors(&read(path.to_str().unwrap())).contains(anchor) {
                faults.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(seen > 150, "{seen}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_list_of_pages_has_every_page() {
    let list = "docs/README.md";
    let linked: BTreeSet<_> = targets(&read(list))
        .iter()
        .map(|target| resolved(list, target))
        .collect();
    let pages = files("docs", ".md").into_iter().filter(|page| page != list);
    let missing: Vec<_> = pages.filter(|page| !linked.contains(Path::new(page))).collect();
    assert!(missing.is_empty(), "{list} does not link {missing:?}");
    assert!(
        targets(&read("README.md")).contains(&list.to_owned()),
        "README.md does not link {list}"
    );
}
