use super::*;
use serde_json::{Value, json};

fn policy(id: &str, created: Option<&str>, spec: Value) -> Policy {
    let (kind, namespace, name) = match id.split_once('/') {
        Some((namespace, name)) => ("EgressPolicy", namespace, name),
        None => ("ClusterEgressPolicy", "", id),
    };
    let mut object = json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
    });
    object["spec"] = spec;
    Policy::read(&object, "default").unwrap().unwrap()
}

/// The conflicts of the first policy.
fn conflicts(all: Vec<Policy>) -> Vec<String> {
    let first = all[0].clone();
    let found = Policies::new(all).conflicts(&first, "shop");
    found.iter().map(ToString::to_string).collect()
}

fn on_443(host: &str, tls: &str) -> Value {
    json!({"hosts": [host], "ports": [{"port": 443}], "tls": {"mode": tls}})
}

#[test]
fn the_written_order_decides() {
    let (old, new) = (Some("2026-01-01T00:00:00Z"), Some("2026-02-01T00:00:00Z"));
    let optional = || on_443("a.example", "Optional");
    let mut preserve = optional();
    preserve["traceHeaders"] = "B3".into();
    let mut other = optional();
    other["traceHeaders"] = "W3C".into();
    let said = conflicts(vec![
        policy("shop/a", old, optional()),
        policy("shop/b", new, on_443("a.example", "Enforced")),
    ]);
    assert_eq!(
        said,
        ["a.example port 443: EgressPolicy/shop/b decides, for it is stricter"]
    );
    let said = conflicts(vec![
        policy("shop/a", new, preserve.clone()),
        policy("shop/b", old, other.clone()),
    ]);
    assert_eq!(
        said,
        ["a.example port 443: EgressPolicy/shop/b decides, for it is older"]
    );
    let said = conflicts(vec![
        policy("shop/a", None, preserve.clone()),
        policy("all", None, other.clone()),
    ]);
    assert_eq!(
        said,
        ["a.example port 443: ClusterEgressPolicy/all decides, for it is cluster-wide"]
    );
    let said = conflicts(vec![
        policy("shop/b", None, preserve.clone()),
        policy("shop/a", None, other),
    ]);
    assert_eq!(
        said,
        ["a.example port 443: EgressPolicy/shop/a decides, for it comes first by name"]
    );
    let mut selecting = on_443("a.example", "Enforced");
    selecting["workloads"] = json!({"serviceAccounts": ["web"]});
    let said = conflicts(vec![
        policy("shop/a", None, preserve),
        policy("shop/b", None, selecting),
    ]);
    assert_eq!(
        said,
        ["a.example port 443: EgressPolicy/shop/b decides for the workloads that it selects, for it is stricter"]
    );
}

#[test]
fn what_agrees_is_no_conflict() {
    let enforced = || on_443("a.example", "Enforced");
    for other in [
        policy("shop/b", None, enforced()),
        policy(
            "shop/b",
            None,
            on_443("*.example", "Enforced").tap("hosts", json!(["*.b.example"])),
        ),
        policy("shop/b", None, enforced().tap("ports", json!([{"port": 8443}]))),
        policy("shop/b", None, on_443("a.example", "Optional")),
        policy("bank/b", None, enforced().tap("traceHeaders", json!("W3C"))),
    ] {
        let said = conflicts(vec![policy("shop/z", None, enforced()), other.clone()]);
        assert_eq!(said, [""; 0], "{other:?}");
    }
}

/// A spec with another field.
trait Tap {
    fn tap(self, key: &str, value: Value) -> Value;
}

impl Tap for Value {
    fn tap(mut self, key: &str, value: Value) -> Value {
        self[key] = value;
        self
    }
}

#[test]
fn an_operators_policies_hold_in_every_namespace() {
    let all = Policies::new([
        policy("shop/a", None, on_443("a.example", "Enforced")),
        policy("all", None, on_443("b.example", "Enforced")),
    ]);
    let names = |namespace: &str| {
        all.of_namespace(namespace)
            .map(|it| it.id.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("shop"), ["all", "a"]);
    assert_eq!(names("bank"), ["all"]);
    assert_eq!(all.namespaces().into_iter().collect::<Vec<_>>(), ["shop"]);
}
