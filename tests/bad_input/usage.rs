//! Flags that do not exist, contradict each other, or have values that mean nothing.

use crate::{command, finished};
use std::fs;

/// Arguments, in quotes where they hold blanks, with what is said.
const CASES: [(&[&str], &str); 26] = [
    (&["explain"], "--filename <FILE>"),
    (&["explain", "-f", "a.yaml", "--bogus"], "unexpected argument '--bogus'"),
    (
        &["explain", "-f", "a.yaml", "-o", "yaml"],
        "possible values: text, json",
    ),
    (
        &["explain", "-f", "a.yaml", "--cni", ""],
        "expected all, none, or names",
    ),
    (
        &["explain", "-f", "a.yaml", "--cni", "n1, ,n2"],
        "expected all, none, or names",
    ),
    (
        &["explain", "-f", "a.yaml", "--cni", "All"],
        "expected all, none, or names",
    ),
    (
        &["explain", "-f", "a.yaml", "--cni", "all,n1"],
        "expected all, none, or names",
    ),
    (
        &["explain", "-f", "a.yaml", "--cni", "all", "--cni", "none"],
        "cannot be used multiple times",
    ),
    (
        &["explain", "-f", "a.yaml", "--server-version", "29"],
        "expected 1.N, as in 1.33",
    ),
    (&["explain", "-f", "a.yaml", "--server-version", "1.-1"], "expected 1.N"),
    (
        &["explain", "-f", "a.yaml", "--server-version", "1.99999999999"],
        "expected 1.N",
    ),
    (&["explain", "-f", "a.yaml", "--server-version", ""], "expected 1.N"),
    (
        &["explain", "-f", "a.yaml", "-n", "a b"],
        "\"a b\" is no name of a namespace",
    ),
    (&["explain", "-f", "a.yaml", "-L", ""], "\"\" is no name of a namespace"),
    (
        &["explain", "-f", "a.yaml", "--kubeconfig", "nosuch"],
        "Cannot connect to Kubernetes: failed to read kubeconfig",
    ),
    (
        &["explain", "-f", "a.yaml", "--kubeconfig", "a.yaml"],
        "Cannot connect to Kubernetes: ",
    ),
    (
        &["explain", "-f", "a.yaml", "--values", "nosuch"],
        "nosuch: No such file",
    ),
    (
        &["explain", "-f", "a.yaml", "--values", "list"],
        "list: values document: expected a mapping of keys, found a list",
    ),
    (
        &["explain", "-f", "a.yaml", "--values", "wrong"],
        "wrong: values document: proxy",
    ),
    (
        &["explain", "-f", "a.yaml", "--trust-anchors", "nosuch"],
        "nosuch: No such file",
    ),
    (
        &["policy", "evaluate", "--level", "strict", "a.yaml"],
        "must be one of privileged, baseline, restricted",
    ),
    (&["policy", "evaluate", "--json-lines", "a.yaml"], "cannot be used with"),
    (&["policy", "evaluate", "--default", "a.yaml"], "cannot be used with"),
    (&["certs", "--out", "c", "--dns", "a b"], "expected a host's name"),
    (&["webhook", "--listen", "nowhere"], "--listen"),
    (&["nosuch"], "unrecognized subcommand 'nosuch'"),
];

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n";
    for (name, text) in [("a.yaml", pod), ("list", "- a\n"), ("wrong", "proxy: 7\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (arguments, part) in CASES {
        let said = arguments.join(" ");
        let output = command(folder.path(), "").args(arguments).output().unwrap();
        finished(output, &said).expect_failure(2, part);
    }
}

#[test]
fn a_release_of_the_future_is_judged_as_the_newest_known() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("a.yaml"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
    )
    .unwrap();
    let run = crate::run(folder.path(), "explain -f a.yaml --server-version 1.4294967295");
    assert_eq!(run.status, 0, "{}", run.said);
    assert!(run.said.contains("is newer than what is known here"), "{}", run.said);
}
