//! Manifests that are none, or that no API server would take.

use crate::run;
use std::fs;

const GOOD: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {annotations: {linkerd.io/inject: enabled}}
    spec: {containers: [{name: web, image: 'web:1'}]}
";

/// Runs `explain`, `policy evaluate`, `inject` and `uninject` on a manifest that cannot be read.
fn expect_unreadable(manifest: &[u8], part: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.yaml"), manifest).unwrap();
    for (command, status) in [
        ("explain -f", 2),
        ("explain -o json -f", 2),
        ("policy evaluate", 2),
        ("inject --ignore-cluster", 1),
        ("uninject", 1),
    ] {
        let run = run(folder.path(), &format!("{command} app.yaml"));
        run.expect_failure(status, &format!("app.yaml: {part}"));
    }
}

/// Runs `explain` and `policy evaluate` on a manifest whose objects are none.
fn expect_invalid(manifest: &str, part: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.yaml"), manifest).unwrap();
    for command in ["explain -f", "explain -o json -f", "policy evaluate"] {
        run(folder.path(), &format!("{command} app.yaml")).expect_failure(2, part);
    }
}

#[test]
fn what_is_no_manifest() {
    let utf16: Vec<u8> = GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut bomb = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push(format!("a{level}: &a{level} [{aliases}]"));
    }
    let nested = |start: &str, end: &str| [start.repeat(100_000), end.repeat(100_000)].concat().into_bytes();
    let cases: [(Vec<u8>, &str); 14] = [
        (
            vec![0x7f, b'E', b'L', b'F', 2, 0xff],
            "is no text in UTF-8: the byte at offset 5",
        ),
        (
            [vec![0xff, 0xfe], utf16].concat(),
            "is no text in UTF-8: the byte at offset 0",
        ),
        (
            b"a: b\0c\n".into(),
            "unexpected character: `\\u{0}' at line 1, column 5",
        ),
        (GOOD.replace("  ", "\t").into(), "tabs disallowed"),
        (
            format!("{GOOD}kind: Pod\n").into(),
            "duplicate mapping key `kind` is not allowed here at line 8, column 1",
        ),
        (b"{\"kind\":\"Pod\"".into(), "unclosed bracket '{' at line 1, column 1"),
        (b"a: [1,\n".into(), ""),
        (b"a: *b\n".into(), "reference to unknown value at line 1"),
        (b"? [a]\n: b\n".into(), "the key [\"a\"] is no text"),
        (b"a: 1e400\n".into(), "value `1e400` is not a finite number at line 1"),
        (bomb.join("\n").into(), "aliases repeat more than 100000 values"),
        (nested("[", "]"), "recursion limit exceeded at line 1"),
        (nested("{\"a\":", "}"), "nests deeper than 64 levels at line 1"),
        (nested("- ", ""), ""),
    ];
    for (manifest, part) in cases {
        expect_unreadable(&manifest, part);
    }
}

#[test]
fn what_is_no_object() {
    for (manifest, part) in [
        ("", "no objects in app.yaml"),
        ("# nothing\n---\n---\n", "no objects in app.yaml"),
        ("a: 1\n", "no objects in app.yaml"),
        (
            "hello\n",
            "app.yaml: the object is \"hello\", expected a map with apiVersion and kind",
        ),
        ("[1]\n", "app.yaml: the object is a list"),
        ("kind: Pod\n", "app.yaml: Pod: apiVersion is missing, expected a text"),
        ("apiVersion: v1\n", "app.yaml: kind is missing, expected a text"),
        ("apiVersion: 3\nkind: Pod\n", "app.yaml: Pod: apiVersion is 3"),
        (
            "apiVersion: v1\nkind: List\nitems: {}\n",
            "app.yaml: List: items is a map, expected a list",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [[7]]\n",
            "app.yaml: the object is a list",
        ),
    ] {
        expect_invalid(manifest, part);
    }
}

#[test]
fn what_no_api_server_takes() {
    let replaced = |from: &str, to: &str| GOOD.replace(from, to);
    for (manifest, part) in [
        (
            replaced("{name: web, namespace: shop}", "[]"),
            "Deployment: metadata is an empty list, expected a map",
        ),
        (
            replaced("name: web, n", "name: 7, n"),
            "metadata.name is 7, expected a text: put it in quotes",
        ),
        (
            replaced("inject: enabled", "inject: true"),
            "spec.template.metadata.annotations[linkerd.io/inject] is true, expected a text: put it in quotes",
        ),
        (
            replaced("[{name: web, image: 'web:1'}]", "{}"),
            "spec.template.spec.containers is a map, expected a list of maps",
        ),
        (
            replaced("[{name: web, image: 'web:1'}]", "[]"),
            "spec.template.spec.containers is an empty list",
        ),
        (
            replaced("[{name: web, image: 'web:1'}]", "[null]"),
            "spec.template.spec.containers[0] is missing",
        ),
        (
            replaced("spec: {containers", "spec: {hostNetwork: 'true', containers"),
            "spec.template.spec.hostNetwork is \"true\"",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: []\n".to_owned(),
            "Deployment/web: spec.template is missing",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n".to_owned(),
            "Pod/web: spec is missing",
        ),
    ] {
        expect_invalid(&manifest, part);
        let second = format!("{GOOD}---\n{manifest}---\n{manifest}");
        expect_invalid(&second, "Error: app.yaml, document 2: ");
        expect_invalid(&second, "Error: app.yaml, document 3: ");
    }
}

#[test]
fn what_is_odd_and_right() {
    let folder = tempfile::tempdir().unwrap();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"},"spec":{"containers":[{"name":"a"}]}}"#;
    let list = r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a"}]}}]}"#;
    for (manifest, entries) in [
        (GOOD.replace('\n', "\r\n"), 1),
        (format!("\u{feff}{GOOD}"), 1),
        (format!("{GOOD}...\n---\n{GOOD}"), 2),
        (format!("{pod}\n{pod}\n{pod}\n"), 3),
        (list.to_owned(), 1),
        (GOOD.replace("{name: web, namespace: shop}", "null"), 1),
        (
            GOOD.replace(
                "image: 'web:1'",
                "image: 'web:1', ports: [{containerPort: 99999999999999999999999}]",
            ),
            1,
        ),
        ("apiVersion: v1\nkind: ConfigMap\n".to_owned(), 0),
    ] {
        fs::write(folder.path().join("app.yaml"), &manifest).unwrap();
        let run = run(folder.path(), "explain -o json -f app.yaml");
        assert_eq!(run.status, 0, "{manifest}: {}", run.said);
        let answer: Vec<serde_json::Value> = serde_json::from_str(&run.printed).unwrap();
        assert_eq!(answer.len(), entries, "{manifest}");
    }
}

#[test]
fn what_a_terminal_would_obey_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = GOOD.replace(
        "name: web, namespace: shop",
        r#"name: "we\e[2Jb\r\nx", namespace: "s\ah""#,
    );
    fs::write(folder.path().join("app.yaml"), manifest).unwrap();
    for command in [
        "explain --trace --diff -f",
        "policy evaluate --level privileged",
        "inject --ignore-cluster",
    ] {
        let run = run(folder.path(), &format!("{command} app.yaml"));
        let said = match command.starts_with("inject") {
            true => run.said,
            false => run.printed,
        };
        assert!(said.contains(r"we\u{1b}[2Jb\r\nx"), "{said}");
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
    }
}

#[test]
fn a_hundred_megabytes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!(
        "apiVersion: v1\nkind: ConfigMap\ndata: {{a: '{}'}}\n---\n{GOOD}",
        "x".repeat(100 << 20)
    );
    fs::write(folder.path().join("app.yaml"), long).unwrap();
    for command in ["explain -f", "inject --ignore-cluster"] {
        let run = run(folder.path(), &format!("{command} app.yaml"));
        assert_eq!(run.status, 0, "{}", run.said);
        let said = [run.printed, run.said].concat();
        assert!(said.contains("Deployment/web") || said.contains("deployment \"web\" injected"));
        assert!(
            command.starts_with("explain") || said.len() > 100 << 20,
            "{} bytes",
            said.len()
        );
    }
}
