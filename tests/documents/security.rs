//! `docs/security.md` has each right, and what each pod runs with, as the charts have it: nothing is granted without a reason.

use crate::pages::{printed, read, spans, tables};
use outrigger::pod::manifest;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/security.md";

/// What the charts are rendered with: together everything that they can grant.
const INSTALLATIONS: [&[&str]; 9] = [
    &["install", "--set=probe.enabled=true"],
    &["install", "--set=egress.enabled=true,egress.controller.enabled=true"],
    &["install", "--set=certificates.mode=cert-manager"],
    &["install", GATEWAY],
    &[
        "install",
        "--server-version=1.24",
        "--set=probe.enabled=true,probe.namespaces[0]=shop,egress.controller.enabled=true",
        GATEWAY,
    ],
    &["install-cni", "--set=securityContextConstraints.enabled=true"],
    &["install-cni", "--set=repair=false"],
    &["install-cni", "--server-version=1.29"],
    &["install-cni", "--server-version=1.24"],
];

/// Everything that the egress gateway can have.
const GATEWAY: &str = "--set=egress.enabled=true,egress.gateway.enabled=true,egress.gateway.clusterNetworks[0]=10.0.0.0/8,egress.gateway.authorities[0]=corporate";

/// Templates of `helm test`, which the program does not print.
const TESTS: [&str; 2] = [
    "charts/outrigger/templates/tests/check.yaml",
    "charts/outrigger-cni/templates/tests/check.yaml",
];

/// A right: whose, where, what. The namespace of an object is that of its account's chart, or one that is listed.
type Right = (String, String, String);

fn objects(text: &str) -> Vec<Value> {
    let documents = manifest::read(text).unwrap();
    documents.into_iter().map(|document| document.value).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn words(value: &Value, pointer: &str) -> Vec<String> {
    items(value, pointer)
        .map(|item| item.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Everything that is installed, one list for each way.
fn installations() -> impl Iterator<Item = Vec<Value>> {
    let image = "--set=image.repository=registry.example.com/outrigger";
    INSTALLATIONS.iter().map(move |arguments| {
        let all: Vec<_> = arguments.iter().copied().chain([image]).collect();
        objects(&printed(&all))
    })
}

/// What `helm test` needs, with the namespace `linkerd` for everything that a template fills in.
fn tests() -> impl Iterator<Item = Vec<Value>> {
    TESTS.iter().map(|path| {
        let template = read(path);
        let (_, template) = template.split_once("{{- end -}}\n").unwrap();
        let plain = template.lines().filter(|line| !line.trim_start().starts_with("{{-"));
        let filled = plain.map(|line| match (line.find("{{"), line.rfind("}}")) {
            (Some(start), Some(end)) => format!("{}linkerd{}\n", &line[..start], &line[end + 2..]),
            _ => format!("{line}\n"),
        });
        objects(&filled.collect::<String>())
    })
}

/// The rights of all accounts, with their verbs.
fn granted() -> BTreeMap<Right, BTreeSet<String>> {
    let mut found: BTreeMap<Right, BTreeSet<String>> = BTreeMap::new();
    for objects in installations().chain(tests()) {
        let of_kind = |kinds: [&'static str; 2]| objects.iter().filter(move |it| kinds.contains(&text(it, "/kind")));
        for binding in of_kind(["RoleBinding", "ClusterRoleBinding"]) {
            let role = of_kind(["Role", "ClusterRole"]).find(|role| {
                text(role, "/kind") == text(binding, "/roleRef/kind")
                    && text(role, "/metadata/name") == text(binding, "/roleRef/name")
            });
            let role = role.unwrap_or_else(|| panic!("no role of {binding}"));
            let place = match text(binding, "/metadata/namespace") {
                "" => "everywhere",
                namespace => namespace,
            };
            for account in items(binding, "/subjects") {
                for rule in items(role, "/rules") {
                    let names = words(rule, "/resourceNames");
                    for resource in words(rule, "/resources") {
                        let what = format!("{resource} {}", names.join(" ")).trim().to_owned();
                        let right = (text(account, "/name").to_owned(), place.to_owned(), what);
                        found.entry(right).or_default().extend(words(rule, "/verbs"));
                    }
                }
            }
        }
    }
    found
}

/// The rights that the page has a reason for.
fn explained() -> BTreeMap<Right, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for table in tables(&read(PAGE)).iter().filter(|table| table.head[0] == "may") {
        let accounts: Vec<_> = spans(&table.heading).collect();
        assert!(!accounts.is_empty(), "{} names no account", table.heading);
        for row in &table.rows {
            let [verbs, resources, place, reason] = row.as_slice() else {
                panic!("{row:?} has not four cells");
            };
            assert!(reason.len() > 10, "{row:?} has no reason");
            for account in &accounts {
                for resources in resources.split(", ") {
                    let what = spans(resources).collect::<Vec<_>>().join(" ");
                    let right = (account.clone(), place.trim_matches('`').to_owned(), what);
                    let twice = found.insert(right, spans(verbs).collect());
                    assert!(twice.is_none(), "{row:?} stands twice");
                }
            }
        }
    }
    found
}

#[test]
fn every_right_has_a_reason() {
    let (granted, explained) = (granted(), explained());
    assert!(granted.len() > 30, "{granted:#?}");
    let without: Vec<_> = granted
        .iter()
        .filter(|(right, verbs)| explained.get(right) != Some(verbs))
        .collect();
    assert!(without.is_empty(), "{PAGE} gives no reason for {without:#?}");
    let idle: Vec<_> = explained.keys().filter(|right| !granted.contains_key(right)).collect();
    assert!(idle.is_empty(), "{PAGE} explains what nobody has: {idle:#?}");
}

/// Capabilities, ports and folders of the node of each pod.
fn running() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for object in installations().flatten() {
        let template = match text(&object, "/kind") {
            "Deployment" | "DaemonSet" => "/spec/template/spec",
            "Pod" => "/spec",
            _ => continue,
        };
        let spec = object.pointer(template).unwrap();
        let needs = found.entry(text(&object, "/metadata/name").to_owned()).or_default();
        needs.extend(items(spec, "/volumes").map(|volume| text(volume, "/hostPath/path").to_owned()));
        for container in items(spec, "/containers") {
            assert_eq!(
                container.pointer("/securityContext/allowPrivilegeEscalation"),
                Some(&false.into())
            );
            assert_eq!(words(container, "/securityContext/capabilities/drop"), ["ALL"]);
            needs.extend(words(container, "/securityContext/capabilities/add"));
            needs.extend(items(container, "/ports").map(|port| port["containerPort"].to_string()));
        }
        if spec["hostNetwork"] == true {
            needs.insert("hostNetwork".to_owned());
        }
        needs.remove("");
    }
    found
}

#[test]
fn the_page_has_what_each_pod_runs_with() {
    let page = read(PAGE);
    let tables = tables(&page);
    let table = tables.iter().find(|table| table.head[0] == "pod").unwrap();
    let shown: BTreeMap<_, BTreeSet<_>> = table
        .rows
        .iter()
        .map(|row| {
            let name = row[0].trim_matches('`').to_owned();
            (name, row[1..4].iter().flat_map(|cell| spans(cell)).collect())
        })
        .collect();
    assert_eq!(shown, running());
}
