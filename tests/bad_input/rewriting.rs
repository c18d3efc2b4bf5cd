//! Manifests that are odd and right: what `inject` and `uninject` make of them, byte for byte.

use crate::{Run, command, finished, run};
use std::fs;
use std::io::Write;
use std::process::Stdio;

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web} # mine\nspec: {containers: [{name: web, image: web}]}\n";

const INJECTED: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    linkerd.io/inject: enabled\n  name: web\nspec:\n  \
                        containers:\n  - image: web\n    name: web\n";

/// What a command makes of `manifest` in a file.
fn of_file(command: &str, manifest: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.yaml"), manifest).unwrap();
    run(folder.path(), &format!("{command} app.yaml"))
}

fn expect(command: &str, manifest: &str, printed: &str) {
    let run = of_file(command, manifest);
    assert_eq!(run.status, 0, "{manifest}: {}", run.said);
    assert_eq!(run.printed, printed, "{manifest}");
}

#[test]
fn what_is_not_changed_is_not_touched() {
    for text in [
        "# only words\n---\n",
        "---\n---\n---\n",
        "\u{feff}# words\r\nkind:   Foo\r\n...\r\n# between\r\n---\r\n\r\n---\r\n",
        "%YAML 1.2\n---\nkind: {a:   b}\n---\n",
        "a: &a {b:   1}\nc: {<<: *a, d: [*a]}\n---\n",
        "a: |\n  ---\n  text\n\n---\n? b\n: 'c'\n--- # end\n",
        "kind: List\nitems: [{kind: List, items: [{kind:   Foo}]}]\n---\n",
        "{\"kind\":  \"Foo\"}\n\n{\"kind\":  \"Bar\"}\n---\n",
        "words\n---\n- a\n---\n7\n---\n",
        &format!(
            "apiVersion: v1\nkind: Secret\ndata: {{a: {}}}\n---\n",
            "YQ==".repeat(1 << 18)
        ),
    ] {
        expect("inject --ignore-cluster", text, text);
        expect("uninject", text, text);
        // The separator that would end it.
        let open = text.trim_end_matches("---\n");
        if open != text && !open.is_empty() && !open.ends_with("---\n") {
            // JSON alone has no separators.
            let closed = if open.starts_with('{') { open } else { text };
            expect("inject --ignore-cluster", open, closed);
        }
    }
    expect("uninject", "kind:   Foo", "kind:   Foo\n---\n");
}

#[test]
fn beside_what_is_changed_everything_stays() {
    for (before, after) in [
        ("", ""),
        ("# first\n---\n", "---\n# last\n---\n"),
        ("\u{feff}---\r\n", "---\r\nkind:   Foo\r\n---\r\n"),
        ("%YAML 1.1\n---\n", "--- # words\nkind:   Foo\n---\n"),
        ("kind: 'Foo'\n---\n\n---\n", "...\n# words\n---\n%TAG\n"),
    ] {
        if after.contains('%') {
            of_file("inject --ignore-cluster", &[before, POD, after].concat()).expect_failure(1, "app.yaml: ");
            continue;
        }
        let closing = if after.is_empty() { "---\n" } else { "" };
        let (text, injected) = (
            [before, POD, after].concat(),
            [before, INJECTED, after, closing].concat(),
        );
        expect("inject --ignore-cluster", &text, &injected);
    }
    let crlf = POD.replace('\n', "\r\n");
    expect("inject --ignore-cluster", &crlf, &format!("{INJECTED}---\n"));
    let merged = "x: &meta {name: web}\napiVersion: v1\nkind: Pod\nmetadata: {<<: *meta}\nspec: {containers: [&c {name: web, image: web}]}\n";
    let run = of_file("inject --ignore-cluster -o json", merged);
    let injected: serde_json::Value = serde_json::from_str(&run.printed).unwrap();
    assert_eq!(injected["metadata"]["name"], "web");
    assert_eq!(injected["x"]["name"], "web");
}

#[test]
fn nothing_is_printed_where_anything_is_wrong() {
    let host = POD.replace("{containers", "{hostNetwork: true, containers");
    for (last, part) in [
        (
            host.as_str(),
            "Error transforming resources:\nfailed to inject pod/web: hostNetwork is enabled",
        ),
        (
            "a: b: c\n",
            "Error: app.yaml: mapping values are not allowed in this context at line 10001, column 5\n",
        ),
        ("--- a\n", "invalid document separator \"--- a\" at line 10001"),
        (
            "a: 1\na: 2\n",
            "duplicate mapping key `a` is not allowed here at line 10002, column 1",
        ),
        ("a:\n\tb: 1\n", "at line 10002, column "),
    ] {
        let manifest = format!(
            "{}---\n{last}",
            format!("{POD}---\n").repeat(2000).trim_end_matches("---\n")
        );
        of_file("inject --ignore-cluster", &manifest).expect_failure(1, part);
    }
    // Every resource that cannot be injected is told.
    let run = of_file("inject --ignore-cluster", &format!("{host}---\n{POD}---\n{host}"));
    run.expect_failure(1, "Error transforming resources:\n");
    assert_eq!(run.said.matches("failed to inject pod/web").count(), 2, "{}", run.said);
}

#[test]
fn aliases_are_bounded() {
    let mut bomb = vec!["a0: &a0 {x: 1, y: 2}".to_owned()];
    for level in 1..40 {
        bomb.push(format!(
            "a{level}: &a{level} {{b: *a{0}, c: *a{0}, <<: *a{0}}}",
            level - 1
        ));
    }
    for command in ["inject --ignore-cluster", "uninject"] {
        of_file(command, &bomb.join("\n")).expect_failure(1, "app.yaml: aliases repeat more than 100000 values");
    }
}

#[test]
fn both_passes_see_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let certs = run(folder.path(), "certs --dns localhost --out .");
    assert_eq!(certs.status, 0, "{}", certs.said);
    fs::write(folder.path().join("values.yaml"), "linkerdVersion: v1\n").unwrap();
    let arguments = "inject --manual --values values.yaml --trust-anchors ca.crt -";
    let inject = |level: &str| {
        let mut child = command(folder.path(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The Namespace comes last.
        let namespace = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, labels: {{pod-security.kubernetes.io/enforce: {level}}}}}\n"
        );
        let text = format!(
            "{}---\n{namespace}",
            POD.replace("{name: web}", "{name: web, namespace: shop}")
        );
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        finished(child.wait_with_output().unwrap(), arguments)
    };
    let injected = inject("privileged");
    assert_eq!(injected.status, 0, "{}", injected.said);
    assert!(
        injected.printed.contains("name: linkerd-init\n"),
        "{}",
        injected.printed
    );
    inject("baseline").expect_failure(1, "namespace shop has pod-security.kubernetes.io/enforce=baseline");
}

#[test]
fn trust_anchors_are_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let certs = run(folder.path(), "certs --dns localhost --out .");
    assert_eq!(certs.status, 0, "{}", certs.said);
    fs::write(folder.path().join("app.yaml"), POD).unwrap();
    fs::write(folder.path().join("junk.pem"), "anchors\n").unwrap();
    fs::write(
        folder.path().join("values.yaml"),
        "linkerdVersion: v1\nidentityTrustAnchorsPEM: anchors\n",
    )
    .unwrap();
    let inject = |flags: &str| {
        run(
            folder.path(),
            &format!("inject --manual --values values.yaml {flags} app.yaml"),
        )
    };
    inject("--trust-anchors junk.pem").expect_failure(1, "junk.pem: holds no certificate in PEM");
    inject("--trust-anchors tls.key").expect_failure(1, "tls.key: holds a private key");
    inject("").expect_failure(1, "identityTrustAnchorsPEM of values.yaml: holds no certificate in PEM");
    let injected = inject("--trust-anchors ca.crt");
    assert_eq!(injected.status, 0, "{}", injected.said);
    run(folder.path(), "explain --trust-anchors junk.pem -f app.yaml")
        .expect_failure(2, "junk.pem: holds no certificate");
}

#[test]
fn little_needs_no_file_and_much_says_where_it_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("little.yaml"), POD).unwrap();
    fs::write(folder.path().join("much.yaml"), format!("{POD}---\n").repeat(20_000)).unwrap();
    let inject = |file: &str| {
        let mut command = command(folder.path(), &format!("inject --ignore-cluster {file}"));
        finished(command.env("TMPDIR", "/nosuch").output().unwrap(), file)
    };
    assert_eq!(inject("little.yaml").status, 0);
    inject("much.yaml").expect_failure(1, "much.yaml: temporary file in /nosuch: No such file or directory");
}
