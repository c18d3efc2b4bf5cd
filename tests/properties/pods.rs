//! Pods: such as people write, and those with wrong types everywhere.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// Keys that decide something, with values that are right, odd and wrong.
const ANNOTATIONS: [(&str, &[&str]); 25] = [
    ("linkerd.io/inject", &["enabled", "ingress", "disabled", "junk", ""]),
    (
        "linkerd.io/setup-iptables",
        &["true", "false", "cni", "init-container", "junk", ""],
    ),
    ("linkerd.io/created-by", &["linkerd/cli", ""]),
    ("config.linkerd.io/admin-port", &["9191", "0", "x", "99999999999"]),
    ("config.linkerd.io/close-wait-timeout", &["30s", "x"]),
    ("config.linkerd.io/default-inbound-policy", &["deny", "junk"]),
    ("config.linkerd.io/enable-debug-sidecar", &["true", "junk"]),
    (
        "config.linkerd.io/opaque-ports",
        &["3306", "http,25-30,x", "a\"b\n", ""],
    ),
    (
        "config.linkerd.io/proxy-additional-env",
        &["[{\"name\":\"A\",\"value\":\"b\"}]", "[1]", "{", "},]"],
    ),
    ("config.linkerd.io/proxy-await", &["disabled", "junk"]),
    ("config.linkerd.io/proxy-cpu-limit", &["1", "1500m", "-1", "x"]),
    ("config.linkerd.io/proxy-cpu-ratio-limit", &["0.5", "NaN", "1e400"]),
    ("config.linkerd.io/proxy-enable-native-sidecar", &["false", "true", "x"]),
    ("config.linkerd.io/proxy-gid", &["5", "-5"]),
    (
        "config.linkerd.io/proxy-image",
        &["registry.example.com/p", "a: b\nc: d", ""],
    ),
    ("config.linkerd.io/proxy-log-http-headers", &["off", "junk"]),
    (
        "config.linkerd.io/proxy-log-level",
        &["warn,[{headers}]=off", "\"\\\n\u{0}\u{2028}"],
    ),
    ("config.linkerd.io/proxy-memory-request", &["20Mi", "9E", "250 MB"]),
    (
        "config.linkerd.io/proxy-uid",
        &["2102", "7", "0", "-1", "x", "99999999999999999999"],
    ),
    ("config.linkerd.io/shutdown-grace-period", &["1m", "-1s", "1e99h"]),
    ("config.linkerd.io/skip-inbound-ports", &["25,\"", "1-99999", "a"]),
    ("config.linkerd.io/skip-subnets", &["10.0.0.0/8", "10.0.0.0/33,x"]),
    ("config.alpha.linkerd.io/proxy-wait-before-exit-seconds", &["40", "x"]),
    ("resource.opentelemetry.io/team", &["shop", "a=b\n"]),
    ("team", &["shop", "~/~1"]),
];

/// Names of containers and volumes that injection uses, or that are none.
const ODD_NAMES: [&str; 8] = [
    "linkerd-proxy",
    "linkerd-init",
    "linkerd-network-validator",
    "linkerd-debug",
    "istio-proxy",
    "linkerd-identity-token",
    "linkerd-proxy-init-xtables-lock",
    "",
];

/// Odd values are rare, or few pods would come as far as injection.
fn rarely<T: Clone + std::fmt::Debug + 'static>(
    usual: impl Strategy<Value = T> + 'static,
    odd: Vec<T>,
) -> BoxedStrategy<T> {
    prop_oneof![40 => usual, 1 => select(odd)].boxed()
}

fn name() -> impl Strategy<Value = String> {
    rarely("[a-z]{3}", ODD_NAMES.map(str::to_owned).to_vec())
}

fn annotations() -> impl Strategy<Value = Value> {
    // The first of the values is a good one.
    let entry = (
        select(ANNOTATIONS.as_slice()),
        proptest::bool::weighted(0.2),
        any::<Index>(),
    );
    let entry = entry.prop_map(|((key, values), any, index)| (key, if any { *index.get(values) } else { values[0] }));
    prop::collection::vec(entry, 0..5).prop_map(|entries| entries.into_iter().collect::<Value>())
}

fn labels() -> impl Strategy<Value = Value> {
    let usual = [
        ("linkerd.io/inject", "enabled"),
        ("app.kubernetes.io/name", "web"),
        ("app", "web"),
    ];
    let odd = [
        ("linkerd.io/setup-iptables", "cni"),
        ("linkerd.io/control-plane-component", "identity"),
    ];
    prop::collection::vec(rarely(select(usual.to_vec()), odd.to_vec()), 0..2)
        .prop_map(|entries| entries.into_iter().collect::<Value>())
}

fn security_context() -> impl Strategy<Value = Value> {
    let strict = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let odd = [
        json!({"privileged": true}),
        json!({"runAsUser": 2102}),
        json!({"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}),
    ];
    rarely(select(vec![json!(null), strict]), odd.to_vec())
}

fn container() -> impl Strategy<Value = Value> {
    let image = rarely(Just("web:1"), vec!["r.example.com:5000/linkerd/proxy:v2", ""]);
    let port = select(vec![80, 3306, 4143, 0, -1, 70_000]);
    (name(), image, port, security_context(), any::<bool>()).prop_map(|(name, image, port, context, native)| {
        let mut container = json!({
            "name": name,
            "image": image,
            "ports": [{"name": "http", "containerPort": port}],
            "volumeMounts": [{"name": "data", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            "securityContext": context,
        });
        if native {
            container["restartPolicy"] = "Always".into();
        }
        container
    })
}

fn volume() -> impl Strategy<Value = Value> {
    (name(), proptest::bool::weighted(0.1)).prop_map(|(name, host)| match host {
        true => json!({"name": name, "hostPath": {"path": "/"}}),
        false => json!({"name": name, "emptyDir": {}}),
    })
}

/// Fields of a pod's spec beside its lists.
fn fields() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let fields = vec![
        ("hostNetwork", json!(true)),
        ("hostPID", json!(true)),
        ("os", json!({"name": "windows"})),
        ("nodeName", json!("n1")),
        ("nodeSelector", json!({"pool": "cni"})),
        ("nodeSelector", json!(null)),
        ("automountServiceAccountToken", json!(false)),
        ("priorityClassName", json!("system-node-critical")),
        ("runtimeClassName", json!("gvisor")),
        ("schedulerName", json!("fargate-scheduler")),
        (
            "securityContext",
            json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
        ),
        ("securityContext", json!({"runAsUser": 2102})),
        ("restartPolicy", json!("Never")),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("newField", json!({"kept": [1.5, null]})),
    ];
    prop::sample::subsequence(fields, 0..4)
}

/// A pod such as people write; the API server takes most of them.
pub(crate) fn written() -> impl Strategy<Value = Value> {
    let some = |lists: std::ops::Range<usize>| prop::option::of(prop::collection::vec(container(), lists));
    let lists = (
        prop::collection::vec(container(), 1..4),
        some(0..3),
        prop::option::of(prop::collection::vec(volume(), 0..3)),
    );
    let metadata = (prop::option::of(annotations()), prop::option::of(labels()));
    (metadata, lists, fields()).prop_map(|((annotations, labels), (containers, inits, volumes), fields)| {
        let mut spec = json!({"containers": containers});
        for (key, list) in [("initContainers", inits), ("volumes", volumes)] {
            if let Some(list) = list {
                spec[key] = list.into();
            }
        }
        for (key, value) in fields {
            spec[key] = value;
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "annotations": annotations, "labels": labels}, "spec": spec})
    })
}

/// Any JSON at all, small.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let key = || {
        select(vec![
            "name",
            "spec",
            "containers",
            "metadata",
            "annotations",
            "a/b~c",
            "items",
            "kind",
            "",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4).prop_map(|entries| entries.into_iter().collect::<Value>()),
        ]
    })
}

/// A pod of [`written`] with up to three values anywhere in it replaced, taken away or doubled.
pub(crate) fn mutated() -> impl Strategy<Value = Value> {
    let mutation = (
        any::<Index>(),
        prop_oneof![
            3 => json().prop_map(Mutation::Replace),
            1 => Just(Mutation::Remove),
            1 => Just(Mutation::Double),
        ],
    );
    (written(), prop::collection::vec(mutation, 1..4)).prop_map(|(mut pod, mutations)| {
        for (index, mutation) in mutations {
            let mut places = Vec::new();
            collect(&pod, String::new(), &mut places);
            mutation.apply(&mut pod, index.get(&places).as_str());
        }
        pod
    })
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Value),
    Remove,
    Double,
}

impl Mutation {
    fn apply(self, pod: &mut Value, place: &str) {
        if let Self::Replace(value) = self {
            *pod.pointer_mut(place).unwrap() = value;
            return;
        }
        let Some((parent, key)) = place.rsplit_once('/') else {
            return;
        };
        match pod.pointer_mut(parent).unwrap() {
            Value::Array(list) => {
                let index: usize = key.parse().unwrap();
                match self {
                    Self::Double => list.push(list[index].clone()),
                    Self::Remove | Self::Replace(_) => drop(list.remove(index)),
                }
            }
            Value::Object(map) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The pointer of every value in `value`.
fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(
                    value,
                    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")),
                    places,
                );
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{place}/{index}"), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    places.push(place);
}
