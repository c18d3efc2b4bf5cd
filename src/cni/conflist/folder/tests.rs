use super::*;
use crate::cni::conflist::PLUGIN;
use serde_json::json;

const LIST: &str = r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge"}]}"#;
const SINGLE: &str = r#"{"cniVersion":"1.0.0","name":"net","type":"kube-router"}"#;
const HALF: &str = r#"{"cniVersion":"1.0.0","name":"net","plug"#;

/// Names and texts of files.
type Content<'a> = &'a [(&'a str, &'a str)];

fn files(content: Content<'_>) -> Vec<File> {
    content
        .iter()
        .map(|(name, text)| File {
            name: (*name).to_owned(),
            text: Ok((*text).to_owned()),
        })
        .collect()
}

fn ours() -> Value {
    json!({"type": PLUGIN})
}

/// The folder after the steps of `plan`, sorted.
fn after(files: &[File], plan: &Plan) -> Vec<File> {
    let mut files = files.to_vec();
    for step in &plan.steps {
        let (Step::Write { name, .. } | Step::Remove { name }) = step;
        files.retain(|file| file.name != *name);
        if let Step::Write { name, text, .. } = step {
            files.push(File {
                name: name.clone(),
                text: Ok(text.clone()),
            });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// What runtimes would read first of the files that can be used.
fn first(files: &[File]) -> Option<&str> {
    let usable = |file: &&File| {
        let text = file.text.as_deref().unwrap_or_default();
        is_configuration(&file.name)
            && match file.name.ends_with(".conflist") {
                true => List::read(text).is_ok(),
                false => Single::read(text).is_ok(),
            }
    };
    files.iter().filter(usable).map(|file| file.name.as_str()).min()
}

#[test]
fn the_first_file_by_name_that_can_be_used_is_edited() {
    let table: [(Content<'_>, Option<&str>, usize); 12] = [
        (
            &[("10-a.conflist", LIST), ("20-b.conflist", LIST)],
            Some("10-a.conflist"),
            0,
        ),
        (
            &[("05-cilium.conf", SINGLE), ("05-cilium.conflist", LIST)],
            Some("05-cilium-outrigger.conflist"),
            0,
        ),
        (&[("10-a.conf", SINGLE)], Some("10-a-outrigger.conflist"), 0),
        (&[("10-a.json", SINGLE)], Some("10-a-outrigger.conflist"), 0),
        (
            &[("10-a.conf", LIST), ("20-b.conflist", LIST)],
            Some("20-b.conflist"),
            1,
        ),
        (
            &[("10-a.conflist", HALF), ("20-b.conflist", LIST)],
            Some("20-b.conflist"),
            1,
        ),
        (&[("10-a.conflist", "")], None, 1),
        (&[("10-a.conflist.bak", LIST), ("README", "x")], None, 0),
        (
            &[(".hidden.conflist", LIST), ("10-a.conflist", LIST)],
            Some(".hidden.conflist"),
            0,
        ),
        (
            &[
                ("10-a.conflist", r#"{"name":"n","plugins":[{"type":"a"}]}"#),
                ("20-b.conflist", LIST),
            ],
            None,
            1,
        ),
        (
            &[
                (
                    "10-a.conflist",
                    r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"outrigger-cni"}]}"#,
                ),
                ("20-b.conflist", LIST),
            ],
            None,
            1,
        ),
        (&[], None, 0),
    ];
    for (content, used, problems) in table {
        let files = files(content);
        let plan = install(&files, &ours());
        assert_eq!(
            (plan.used.as_deref(), plan.problems.len()),
            (used, problems),
            "{content:?}"
        );
        let done = after(&files, &plan);
        if used.is_some() {
            assert_eq!(first(&done), used, "{content:?}");
        }
        let again = install(&done, &ours());
        assert_eq!((again.steps, again.used), (Vec::new(), plan.used), "{content:?}");
        let undone = after(&done, &remove(&done));
        let mut before = files;
        before.sort_by(|a, b| a.name.cmp(&b.name));
        if !content.iter().any(|(_, text)| text.contains(PLUGIN)) {
            assert_eq!(undone, before, "{content:?}");
        }
    }
}

#[test]
fn a_list_made_of_a_single_plugin_follows_it() {
    let single = files(&[("10-a.conf", SINGLE)]);
    let made = after(&single, &install(&single, &ours()));
    let replace = |name: &str, text: &str| {
        let mut files = made.clone();
        files.retain(|file| file.name != name);
        files.extend(self::files(&[(name, text)]));
        files
    };
    let moved = replace("10-a.conf", &SINGLE.replace("kube-router", "bridge"));
    let plan = install(&moved, &ours());
    assert!(matches!(&plan.steps[..], [Step::Write { name, text, like }]
        if name == "10-a-outrigger.conflist" && text.contains("bridge") && like == "10-a.conf"));
    // Half-written: what works stays.
    let plan = install(&replace("10-a.conf", HALF), &ours());
    assert_eq!(
        (plan.steps.len(), plan.used.as_deref(), plan.problems.len()),
        (0, None, 1)
    );
    // Its owner now writes a list: ours goes after the list is edited.
    let plan = install(&replace("00-a.conflist", LIST), &ours());
    assert_eq!(plan.used.as_deref(), Some("00-a.conflist"));
    assert!(
        matches!(&plan.steps[..], [Step::Write { .. }, Step::Remove { name }] if name == "10-a-outrigger.conflist")
    );
    // Its owner is gone: a list without a primary would be worse than none.
    let orphan: Vec<File> = made.iter().filter(|file| file.name != "10-a.conf").cloned().collect();
    let plan = install(&orphan, &ours());
    assert!(matches!(&plan.steps[..], [Step::Remove { .. }]) && plan.used.is_none());
}

#[test]
fn removal_finds_our_entry_wherever_others_have_put_it() {
    let with = install(&files(&[("10-a.conflist", LIST)]), &ours());
    let [Step::Write { text, .. }] = &with.steps[..] else {
        panic!("{with:?}");
    };
    let scattered = files(&[
        ("10-a.conflist.cilium_bak", text),
        ("20-b.conflist", text),
        (
            "30-only.conflist",
            r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"outrigger-cni"}]}"#,
        ),
        ("40-half.conflist", r#"{"plugins":[{"type":"outrigger-cni"}"#),
        ("50-x.conflist", LIST),
    ]);
    let plan = remove(&scattered);
    let done = after(&scattered, &plan);
    let names: Vec<_> = done.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "10-a.conflist.cilium_bak",
            "20-b.conflist",
            "40-half.conflist",
            "50-x.conflist"
        ]
    );
    let texts: Vec<_> = done.iter().map(|file| file.text.as_deref().unwrap()).collect();
    assert_eq!((texts[0], texts[1], texts[3]), (LIST, LIST, LIST));
    assert_eq!(plan.problems.len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_reported() {
    let mut files = files(&[("20-b.conflist", LIST)]);
    files.push(File {
        name: "10-a.conflist".to_owned(),
        text: Err("permission denied".to_owned()),
    });
    let plan = install(&files, &ours());
    assert_eq!(plan.used.as_deref(), Some("20-b.conflist"));
    assert_eq!(plan.problems[0].why, "it cannot be read: permission denied");
}

#[test]
fn the_installed_entry_is_found_with_its_network() {
    let files = files(&[("10-a.conflist", LIST)]);
    assert!(entry(&files, "10-a.conflist").is_none());
    let done = after(&files, &install(&files, &ours()));
    let (list, text) = entry(&done, "10-a.conflist").unwrap();
    assert_eq!((list.name.as_str(), text), ("net", r#"{"type":"outrigger-cni"}"#));
}

#[test]
fn a_runtime_is_known_by_its_name() {
    for (runtime, reading) in [
        ("containerd://1.6.20", Reading::Stops),
        ("cri-o://1.34.0", Reading::GoesOn),
        ("docker://28.0.1", Reading::GoesOn),
        ("containerd", Reading::GoesOn),
        ("", Reading::GoesOn),
    ] {
        assert_eq!(Reading::of(runtime), reading, "{runtime}");
    }
}
