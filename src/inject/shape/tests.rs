use super::*;
use crate::config::{Consequence, Installation, Layers, NamespaceLayer, Settings};
use crate::inject::{NETWORK_VALIDATOR, Owner, PROXY};
use crate::pod::workload::Kind;
use crate::pod::{Quantity, list, text};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;
use std::collections::BTreeSet;

fn installation(document: Value) -> Prepared {
    Installation::from_document(document, Some("anchors"), "linkerd")
        .unwrap()
        .into()
}

fn made(installation: &Prepared, annotations: [&Value; 2], pod: &Pod<'_>) -> Arc<Made> {
    let namespace = NamespaceLayer {
        annotations: annotations[0].as_object(),
        labels: None,
    };
    let layers = Layers {
        namespace: Some(namespace),
        pod,
        workload: annotations[1].as_object(),
    };
    installation.made(Settings::read(installation, &layers))
}

fn checked(document: Value, annotations: &Value) -> Result<(), ShapeError> {
    let object = json!({"metadata": {"annotations": annotations}});
    let made = made(&installation(document), [&Value::Null, annotations], &Pod::new(&object));
    check(made.config())
}

#[test]
fn a_proxy_that_would_be_root_is_refused_by_the_key_that_says_so() {
    let refused = |key| Err(ShapeError::RootProxy(key));
    let of_context = json!({"proxy": {"securityContext": {"runAsUser": 0}}});
    assert_eq!(checked(json!({"proxy": {"uid": 0}}), &json!({})), refused("proxy.uid"));
    assert_eq!(
        checked(of_context.clone(), &json!({})),
        refused("proxy.securityContext.runAsUser")
    );
    let annotated = json!({"config.linkerd.io/proxy-uid": "7"});
    assert_eq!(checked(json!({"proxy": {"uid": 0}}), &annotated), Ok(()));
    assert_eq!(checked(of_context, &annotated), Ok(()));
    let both = json!({"proxy": {"uid": 0, "securityContext": {"runAsUser": 7}}});
    assert_eq!(checked(both, &json!({})), Ok(()));
}

/// The arguments of the init container that sets rules or proves them, in a pod that asks for the fence.
fn fenced(image: &str, redirection: Redirection) -> Result<Vec<String>, ShapeError> {
    let document = json!({"outrigger": {"image": {"name": image}, "egressDNS": "10.96.0.10"}});
    let annotations = json!({"outrigger.linkerd.io/egress-fence": "enabled"});
    let object = json!({"metadata": {"annotations": annotations}});
    let (installation, pod) = (installation(document), Pod::new(&object));
    let made = made(&installation, [&Value::Null, &annotations], &pod);
    let shape = Shape::new(&installation, &made, &pod, redirection, false)?;
    let additions = shape.additions();
    let mut init = additions.init_first.iter().chain(&additions.init_last);
    let init = init.find(|container| container_name(container) != PROXY).unwrap();
    Ok(list(init, "args")
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect())
}

#[test]
fn a_fence_is_set_and_proved_by_our_own_image_alone() {
    let by_init = fenced("outrigger", Redirection::InitContainer).unwrap();
    let words = ["--egress-fence", "--egress-dns", "10.96.0.10"];
    assert!(by_init.windows(3).any(|window| window == words), "{by_init:?}");
    // The installation's ports go to the proxy.
    assert!(
        !by_init.iter().any(|word| word == "--outbound-ports-to-ignore"),
        "{by_init:?}"
    );
    let proof = |image| {
        fenced(image, Redirection::Cni)
            .unwrap()
            .contains(&"--egress-fence".to_owned())
    };
    assert!(proof("outrigger") && !proof(""));
    assert_eq!(
        fenced("", Redirection::InitContainer),
        Err(ShapeError::FenceNeedsOwnImage)
    );
}

#[test]
fn the_lock_has_a_name_of_its_own() {
    for name in [volumes::END_ENTITY, volumes::IDENTITY_TOKEN, volumes::PODINFO] {
        let document = json!({"proxyInit": {"xtMountPath": {"name": name}}});
        let refused = Err(ShapeError::LockName(name.to_owned()));
        assert_eq!(checked(document, &json!({})), refused);
    }
}

/// Annotations with values that are right, odd and wrong.
const ANNOTATIONS: [(&str, &[&str]); 28] = [
    ("linkerd.io/inject", &["enabled", "ingress", ""]),
    ("config.linkerd.io/admin-port", &["9191", "0", "70000", "-3", "x"]),
    ("config.linkerd.io/control-port", &["9190", "+5", "65536"]),
    ("config.linkerd.io/inbound-port", &["1", "65535", "0", "-1"]),
    ("config.linkerd.io/outbound-port", &["4140", "99999"]),
    ("config.linkerd.io/close-wait-timeout", &["30s", "-5s", "500ms", "x"]),
    ("config.linkerd.io/debug-image", &["d", "", "a b"]),
    ("config.linkerd.io/debug-image-pull-policy", &["Never", "Sometimes"]),
    ("config.linkerd.io/debug-image-version", &["v2", "v 2"]),
    ("config.linkerd.io/enable-debug-sidecar", &["true", "x"]),
    ("config.linkerd.io/image-pull-policy", &["Always", "always", ""]),
    ("config.linkerd.io/opaque-ports", &["3306,http", "x,x,x,x", "1-99999"]),
    (
        "config.linkerd.io/proxy-additional-env",
        &[
            r#"[{"name":"A","value":"b"}]"#,
            r#"[{"value":"b"}]"#,
            r#"[{"name":"A=B"}]"#,
            "{",
        ],
    ),
    ("config.linkerd.io/proxy-await", &["disabled", "x"]),
    ("config.linkerd.io/proxy-cpu-limit", &["1", "1500m", "1e30", "-1", "x"]),
    (
        "config.linkerd.io/proxy-cpu-request",
        &["100m", "2", "15000000000n", "1 Gi"],
    ),
    ("config.linkerd.io/proxy-enable-native-sidecar", &["false", "true"]),
    ("config.linkerd.io/proxy-ephemeral-storage-limit", &["1Gi", "1MB"]),
    ("config.linkerd.io/proxy-ephemeral-storage-request", &["512Mi", "2Gi"]),
    ("config.linkerd.io/proxy-gid", &["5", "65534", "-1", "-5", "4000000000"]),
    (
        "config.linkerd.io/proxy-image",
        &["registry.example.com/p", "", "a: b\nc: d"],
    ),
    ("config.linkerd.io/proxy-memory-limit", &["250Mi", "1", "0"]),
    ("config.linkerd.io/proxy-memory-request", &["20Mi", "9E"]),
    (
        "config.linkerd.io/proxy-uid",
        &["7", "65534", "65533", "0", "-1", "3000000000", "x"],
    ),
    ("config.linkerd.io/proxy-version", &["v3", "", "v 3"]),
    ("config.linkerd.io/skip-inbound-ports", &["25,\"", "1-99999", "a", ","]),
    (
        "config.linkerd.io/skip-subnets",
        &["10.0.0.0/8", "10.0.0.0/33,fd00::/8"],
    ),
    ("config.alpha.linkerd.io/proxy-wait-before-exit-seconds", &["40", "-1"]),
];

/// Fields of the values document, with values that are right, odd and wrong, as JSON.
const FIELDS: [(&str, &[&str]); 26] = [
    ("cniEnabled", &["true"]),
    ("debugContainer/image/name", &[r#""""#]),
    ("identity/serviceAccountTokenProjection", &["false"]),
    ("imagePullPolicy", &[r#""Always""#, r#""Often""#]),
    ("linkerdVersion", &[r#""v2""#, r#""a:b""#]),
    (
        "networkValidator/securityContext",
        &[
            r#"{"runAsUser": 2102}"#,
            r#"{"runAsUser": 65534, "runAsGroup": -4}"#,
            r#"{"seLinuxOptions": {"user": "system_u"}}"#,
        ],
    ),
    ("outrigger/image/name", &[r#""registry.example.com/o""#, r#"" ""#]),
    ("proxy/additionalEnv", &[r#"[{"name": "E"}]"#, r"[{}]"]),
    ("proxy/gid", &["6", "65534", "5000000000"]),
    ("proxy/image/pullPolicy", &[r#""Never""#, r#""never""#]),
    ("proxy/livenessProbe/initialDelaySeconds", &["3", "-3"]),
    ("proxy/nativeSidecar", &["false"]),
    ("proxy/ports/admin", &["4192", "0"]),
    ("proxy/ports/inbound", &["4144", "65536"]),
    ("proxy/resources/cpu/limit", &["1", r#""500m""#, r#""lots""#]),
    ("proxy/resources/memory/request", &[r#""300Mi""#, r#""-1""#]),
    (
        "proxy/securityContext",
        &[
            r#"{"runAsUser": 65534}"#,
            r#"{"runAsUser": 0}"#,
            r#"{"runAsGroup": 3000000000, "procMount": "Unmasked"}"#,
            r#"{"windowsOptions": {}, "privileged": true}"#,
        ],
    ),
    ("proxy/startupProbe/failureThreshold", &["1", "-1"]),
    ("proxy/tracing/enabled", &["true"]),
    (
        "proxy/tracing/collector",
        &[r#"{"endpoint": "c:1", "meshIdentity": {"serviceAccountName": "a", "namespace": "b"}}"#],
    ),
    ("proxy/uid", &["3", "65534", "0", "-2"]),
    ("proxyInit/closeWaitTimeoutSecs", &["30", "-30"]),
    ("proxyInit/runAsRoot", &["true"]),
    ("proxyInit/runAsUser", &["0", "9", "-9"]),
    ("proxyInit/skipSubnets", &[r#""10.0.0.0/8,x""#]),
    (
        "proxyInit/xtMountPath",
        &[
            r#"{"name": "linkerd-identity-token"}"#,
            r#"{"name": "Lock"}"#,
            r#"{"mountPath": "a:b"}"#,
        ],
    ),
];

fn annotations() -> impl Strategy<Value = Value> {
    let entry = |(key, values): (&'static str, &'static [&'static str])| {
        prop_oneof![6 => select(values).prop_map(str::to_owned), 1 => ".{0,300}"].prop_map(move |value| (key, value))
    };
    let chosen = subsequence(ANNOTATIONS.to_vec(), 0..=6);
    let entries = chosen.prop_flat_map(move |rows| rows.into_iter().map(entry).collect::<Vec<_>>());
    entries.prop_map(|entries| {
        entries
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect()
    })
}

fn documents() -> impl Strategy<Value = Value> {
    let field = |(path, values): (&'static str, &'static [&'static str])| select(values).prop_map(move |it| (path, it));
    let chosen = subsequence(FIELDS.to_vec(), 0..=6);
    let fields = chosen.prop_flat_map(move |rows| rows.into_iter().map(field).collect::<Vec<_>>());
    fields.prop_map(|fields| {
        let mut document = json!({"linkerdVersion": "v1"});
        for (path, value) in fields {
            let node = path.split('/').fold(&mut document, |node, part| &mut node[part]);
            *node = serde_json::from_str(value).unwrap();
        }
        document
    })
}

/// What API validation says to the additions of a patch; `volumes` are the pod's own.
fn violations(patch: &Value, own_volumes: &[&str]) -> Vec<String> {
    let operations = || patch.as_array().into_iter().flatten();
    let at = |start: &'static str| {
        let found = operations().filter(move |it| it["path"].as_str().unwrap().starts_with(start));
        found.map(|it| (it["path"].as_str().unwrap(), &it["value"]))
    };
    let values = |start| at(start).map(|(_, value)| value).filter(|value| value.is_object());
    let containers: Vec<_> = values("/spec/containers/")
        .chain(values("/spec/initContainers/"))
        .collect();
    let volumes: Vec<_> = values("/spec/volumes/")
        .map(container_name)
        .chain(own_volumes.iter().copied())
        .collect();
    let users: Vec<_> = containers
        .iter()
        .map(|container| &container["securityContext"]["runAsUser"])
        .collect();
    let mut found: Vec<_> = containers
        .iter()
        .flat_map(|container| of_container(container, &volumes))
        .collect();
    let names: Vec<_> = containers.iter().map(|container| container_name(container)).collect();
    let of = |name| Some(users[names.iter().position(|it| *it == name)?]).filter(|user| !user.is_null());
    if of(NETWORK_VALIDATOR).is_some_and(|user| Some(user) == of(PROXY)) {
        found.push("the validator is the proxy's user".to_owned());
    }
    found.extend(repeated("container", &names).chain(repeated("volume", &volumes)));
    for (path, value) in at("/metadata/labels/") {
        let text = value.as_str().unwrap();
        let word = |c: char| c.is_ascii_alphanumeric();
        let outer = text.starts_with(word) && text.ends_with(word) || text.is_empty();
        if text.len() > 63 || !outer || !text.chars().all(|c| word(c) || "-_.".contains(c)) {
            found.push(format!("label {path}: {text}"));
        }
    }
    found
}

fn repeated<'a>(what: &'a str, names: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    let mut seen = BTreeSet::new();
    names
        .iter()
        .filter(move |name| !seen.insert(**name))
        .map(move |name| format!("{what} {name} twice"))
}

fn of_container(container: &Value, volumes: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut unless = |valid: bool, what: &str| {
        if !valid {
            found.push(format!("{}: {what}", container_name(container)));
        }
    };
    let image = text(container, "image").unwrap();
    let (name, tag) = image.rsplit_once(':').unwrap();
    unless(
        !name.is_empty() && !tag.is_empty() && !image.contains(char::is_whitespace),
        image,
    );
    let policy = text(container, "imagePullPolicy").unwrap();
    unless(["Always", "IfNotPresent", "Never"].contains(&policy), policy);
    let port = |port: &Value| port.as_i64().is_some_and(|port| (1..=65535).contains(&port));
    unless(list(container, "ports").all(|it| port(&it["containerPort"])), "a port");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]) {
        unless(probe.pointer("/httpGet/port").is_none_or(port), "the port of a probe");
        let seconds = |value: &Value| {
            value
                .as_i64()
                .is_none_or(|number| (0..=i64::from(i32::MAX)).contains(&number))
        };
        unless(
            probe.as_object().is_none_or(|probe| probe.values().all(seconds)),
            "a probe",
        );
    }
    let context = &container["securityContext"];
    for field in ["runAsUser", "runAsGroup"] {
        let valid = context[field]
            .as_i64()
            .is_none_or(|id| (0..=2_147_483_647).contains(&id));
        unless(valid, field);
    }
    unless(context["runAsNonRoot"] != true || context["runAsUser"] != 0, "root");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let amount = |of: &str| container["resources"][of][resource].as_str().map(Quantity::parse);
        let (least, most) = (amount("requests"), amount("limits"));
        for amount in [least, most].into_iter().flatten() {
            unless(amount.is_some_and(|amount| !amount.is_negative()), resource);
        }
        unless(
            least.zip(most).is_none_or(|(least, most)| least <= most),
            "a limit below its request",
        );
    }
    for mount in list(container, "volumeMounts") {
        let path = text(mount, "mountPath").unwrap();
        unless(!path.is_empty() && !path.contains(':'), path);
        unless(volumes.contains(&container_name(mount)), "a mount of nothing");
    }
    let named = |variable: &Value| text(variable, "name").is_some_and(|name| !name.is_empty() && !name.contains('='));
    unless(list(container, "env").all(named), "a variable");
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever annotations and values say, the API server takes what is added, unless a warning or an error names what it
    /// will not take.
    #[test]
    fn what_is_added_is_valid_or_was_warned_of(
        document in documents(),
        of_namespace in annotations(),
        of_pod in annotations(),
        owner in "[a-z_.-]{0,70}",
        redirection in select(&[Redirection::InitContainer, Redirection::Cni, Redirection::None]),
    ) {
        let token = json!({"name": "token", "mountPath": proxy::SERVICE_ACCOUNT});
        let object = json!({"metadata": {"annotations": of_pod}, "spec": {"volumes": [{"name": "token"}],
            "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 80}], "volumeMounts": [token]}]}});
        let pod = Pod::new(&object);
        let installation = installation(document);
        let made = made(&installation, [&of_namespace, &of_pod], &pod);
        let config = made.config();
        let said: Vec<_> = config.problems.iter().map(ToString::to_string).collect();
        prop_assert!(said.iter().all(|text| text.len() < 800), "{:?}", said);
        if check(config).is_err() || config.fatal_problem().is_some() {
            return Ok(());
        }
        let Ok(shape) = Shape::new(&installation, &made, &pod, redirection, config.debug) else { return Ok(()) };
        prop_assert_eq!(shape.check_names(&pod), Ok(()));
        let owner = Owner { kind: Some(Kind::Deployment), name: owner };
        let metadata = Metadata::injected(&installation, config, Some(&owner), "shop");
        let patch = serde_json::to_value(shape.into_patch(&metadata, &object, "")).unwrap();
        let found = violations(&patch, &["token"]);
        let warned = config.problems.iter().any(|problem| problem.consequence == Consequence::Kept);
        prop_assert!(found.is_empty() || warned, "{:?}: {:?}", found, said);
    }
}
