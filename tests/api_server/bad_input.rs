//! Pods that nobody should write: each gets a clear answer, and none becomes half-made or quietly goes without a proxy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster::{Namespace, Reply};
use crate::scene::{CNI, INJECT, PLAIN, Scene};
use crate::{mesh, pod};

/// The largest size of all annotations of an object together, in bytes, that the API server takes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// What becomes of a pod.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is meshed, and a warning holds this; for the empty text there is none.
    Meshed(&'static str),
    /// We deny it, in a sentence that holds this.
    Denied(&'static str),
    /// The API server refuses it, in a sentence that holds this.
    Refused(&'static str),
}
use Fate::{Denied, Meshed, Refused};

impl Fate {
    fn check(self, what: &str, reply: &Reply) {
        let (message, meshed) = (reply.message(), mesh::redirection(&reply.body).is_some());
        let denied =
            message.starts_with("admission webhook \"linkerd-proxy-injector.linkerd.io\" denied the request: ");
        // A long text comes in several warnings, each with its code before it.
        let texts = reply
            .warnings
            .iter()
            .filter_map(|warning| Some(warning.split_once(": ")?.1));
        let warned = texts.collect::<Vec<_>>().join(" ");
        let right = match self {
            Meshed("") => reply.code == 201 && meshed && reply.warnings.is_empty(),
            Meshed(text) => reply.code == 201 && meshed && warned.contains(text),
            Denied(text) => reply.code == 403 && denied && message.contains(text),
            Refused(text) => reply.code == 422 && !denied && message.contains(text),
        };
        assert!(
            right,
            "{what} was to be {self:?}: {} {message:?} {:?}",
            reply.code, reply.warnings
        );
    }
}

/// A pod without a name of its own.
fn annotated(annotations: &Value) -> Value {
    let mut pod = pod("", &json!({}));
    pod["metadata"] = json!({"generateName": "web-", "annotations": annotations});
    pod
}

const ANNOTATIONS: [(&str, &str, Fate); 31] = [
    (
        "proxy-uid",
        "0",
        Denied("proxy-uid: \"0\" is not a user ID other than 0"),
    ),
    (
        "proxy-uid",
        "99999999999999999999",
        Denied("is not a user ID other than 0"),
    ),
    ("proxy-uid", "1e3", Denied("is not a user ID other than 0")),
    ("proxy-uid", "-1", Refused("runAsUser: Invalid value: -1")),
    (
        "proxy-uid",
        "4294967296",
        Refused("runAsUser: Invalid value: 4294967296"),
    ),
    (
        "proxy-gid",
        "99999999999999999999",
        Meshed("proxy-gid: \"99999999999999999999\" is not an integer"),
    ),
    (
        "proxy-cpu-request",
        "-1",
        Denied("proxy-cpu-request: \"-1\" is not a resource quantity"),
    ),
    ("proxy-cpu-request", "1e999", Meshed("")),
    (
        "proxy-memory-limit",
        "lots",
        Denied("proxy-memory-limit: \"lots\" is not a resource quantity"),
    ),
    (
        "proxy-memory-limit",
        "5Gi\n",
        Denied("proxy-memory-limit: \"5Gi\\n\" is not a resource quantity"),
    ),
    ("inbound-port", "70000", Refused("containerPort: Invalid value: 70000")),
    ("inbound-port", "0", Refused("containerPort: Required value")),
    (
        "admin-port",
        "99999999999999",
        Meshed("admin-port: \"99999999999999\" is not a port number"),
    ),
    (
        "control-port",
        "1.5",
        Meshed("control-port: \"1.5\" is not a port number"),
    ),
    (
        "opaque-ports",
        "1-70000,a\"b",
        Meshed("opaque-ports: none of \"1-70000\", \"a\\\"b\" is a port"),
    ),
    (
        "proxy-cpu-ratio-limit",
        "NaN",
        Meshed("proxy-cpu-ratio-limit: \"NaN\" is not a number between 0 and 1"),
    ),
    (
        "proxy-cpu-ratio-limit",
        "1e308",
        Meshed("is not a number between 0 and 1"),
    ),
    (
        "shutdown-grace-period",
        "999999999999h",
        Meshed("shutdown-grace-period: \"999999999999h\" is not a duration"),
    ),
    ("proxy-outbound-connect-timeout", "-1ms", Meshed("is not a duration")),
    (
        "close-wait-timeout",
        "soon",
        Meshed("close-wait-timeout: \"soon\" is not a duration"),
    ),
    (
        "default-inbound-policy",
        "\"}",
        Meshed("default-inbound-policy: \"\\\"}\" is not one of"),
    ),
    (
        "proxy-log-http-headers",
        "yes",
        Denied("logHTTPHeaders must be one of: insecure | off (found \"yes\")"),
    ),
    (
        "proxy-log-level",
        "warn,linkerd[name=\"inbound\"]=trace\n\\",
        Meshed(""),
    ),
    (
        "proxy-image",
        "evil\nprivileged: true",
        Meshed("is not the name of an image"),
    ),
    (
        "proxy-image",
        " ",
        Refused("must not have leading or trailing whitespace"),
    ),
    (
        "image-pull-policy",
        "Perhaps",
        Refused("imagePullPolicy: Unsupported value: \"Perhaps\""),
    ),
    (
        "proxy-additional-env",
        "[{\"name\": \"A\"}",
        Meshed("proxy-additional-env: "),
    ),
    (
        "proxy-additional-env",
        "[{\"name\": \"A\", \"value\": 7}]",
        Meshed("proxy-additional-env: "),
    ),
    (
        "proxy-additional-env",
        "[{\"name\": \"A\", \"valueFrom\": {\"fieldRef\": 7}}]",
        Meshed("proxy-additional-env: "),
    ),
    (
        "skip-inbound-ports",
        "80,\"},{,90-80,70000",
        Meshed("skip-inbound-ports: "),
    ),
    ("skip-outbound-ports", "\n", Meshed("is not a port or a range of ports")),
];

#[tokio::test]
async fn annotations_that_mean_nothing_are_decided_about() {
    for (values, level) in [(CNI, "baseline"), (PLAIN, "privileged")] {
        let scene = Scene::with_values(values).await;
        let namespace = scene.meshed(level).await;
        for (key, value, fate) in ANNOTATIONS {
            let key = format!("config.linkerd.io/{key}");
            let reply = namespace.create_pod(&annotated(&json!({key.as_str(): value}))).await;
            fate.check(&format!("{key}={value:?} with {level}"), &reply);
        }
    }
}

#[tokio::test]
async fn annotations_of_a_namespace_are_as_harmless() {
    let scene = Scene::with_values(CNI).await;
    for (key, value, fate) in [
        (
            "proxy-additional-env",
            "[{\"name\": \"A\", \"value\": \"\\\"\\n\\\\\"}]",
            Meshed(""),
        ),
        (
            "proxy-log-level",
            "warn,linkerd[name=\"inbound\"]=trace\n\\",
            Meshed(""),
        ),
        (
            "proxy-uid",
            "0",
            Denied("namespace annotation config.linkerd.io/proxy-uid: \"0\""),
        ),
        (
            "admin-port",
            "x",
            Meshed("namespace annotation config.linkerd.io/admin-port: \"x\""),
        ),
    ] {
        let key = format!("config.linkerd.io/{key}");
        let namespace = scene.namespace("bad", &[], &[INJECT, (&key, value)]).await;
        let reply = namespace.create_pod(&annotated(&json!({}))).await;
        fate.check(&format!("{key}={value:?}"), &reply);
        if reply.accepted() {
            assert_eq!(mesh::annotation(&reply.body, &key), Some(value));
        }
    }
}

#[tokio::test]
async fn large_pods_are_meshed_or_refused() {
    let scene = Scene::with_values(PLAIN).await;
    let namespace = scene.meshed("privileged").await;
    let reply = namespace.create_pod(&crowded(500)).await;
    Meshed("").check("a pod with 500 containers", &reply);
    assert_eq!(mesh::containers(&reply.body).count(), 502);

    for key in ["config.linkerd.io/proxy-uid", "linkerd.io/setup-iptables"] {
        let reply = namespace
            .create_pod(&annotated(&json!({key: "9".repeat(1 << 20)})))
            .await;
        Denied("\"999").check(key, &reply);
        assert!(
            reply.message().len() < 10_000,
            "{} bytes about {key}",
            reply.message().len()
        );
    }

    let note = |size: usize| annotated(&json!({"note": "\"\n\\".repeat(size / 3)}));
    let reply = namespace.create_pod(&note(ANNOTATIONS_LIMIT / 2)).await;
    Meshed("").check("a pod with long annotations", &reply);
    let too_long = Refused("metadata.annotations: Too long: may not be more than 262144 bytes");
    too_long.check("a pod with a megabyte", &namespace.create_pod(&note(1 << 20)).await);
    // Injection itself has no room left.
    too_long.check("a full pod", &namespace.create_pod(&note(ANNOTATIONS_LIMIT - 10)).await);
}

fn crowded(containers: usize) -> Value {
    let mut pod = annotated(&json!({}));
    let container = |number| json!({"name": format!("c{number}"), "image": "web"});
    pod["spec"]["containers"] = (0..containers).map(container).collect();
    pod
}

/// The API server sends nothing of the kind; who else reaches the port may.
#[tokio::test]
async fn whatever_is_posted_is_answered() {
    let scene = Scene::with_values(PLAIN).await;
    let namespace = scene.meshed("privileged").await;
    let web = json!([{"name": "web", "image": "web"}]);
    for (what, spec) in [
        ("no spec", json!(null)),
        ("a text for a spec", json!("spec")),
        ("an empty spec", json!({})),
        (
            "no containers",
            json!({"containers": null, "initContainers": null, "volumes": null}),
        ),
        (
            "containers in a mapping",
            json!({"containers": {}, "initContainers": "x", "volumes": 3}),
        ),
        (
            "a node selector in a list",
            json!({"containers": web, "nodeSelector": [1]}),
        ),
        (
            "numbers without meaning",
            json!({"containers": [{
            "name": "web", "image": "web", "ports": [{"containerPort": 1e300}, {"containerPort": -1}],
            "securityContext": {"runAsUser": 1e300},
        }], "terminationGracePeriodSeconds": -9e99}),
        ),
    ] {
        let odd = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": spec});
        assert_answered(&scene, &namespace, what, odd).await;
    }
    for (what, metadata) in [
        ("annotations in a list", json!({"annotations": [], "labels": "x"})),
        (
            "annotations that are no texts",
            json!({"annotations": {"linkerd.io/inject": true, "config.linkerd.io/proxy-uid": 7}}),
        ),
        (
            "a megabyte",
            json!({"annotations": {"config.linkerd.io/proxy-log-level": "\"\\\n".repeat(350_000)}}),
        ),
        (
            "350,000 ports",
            json!({"annotations": {"config.linkerd.io/skip-inbound-ports": "80,".repeat(350_000)}}),
        ),
        ("an owner that is none", json!({"ownerReferences": [7]})),
        (
            "an owner with a path",
            json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "../a", "uid": 7}]}),
        ),
    ] {
        let odd = json!({"metadata": metadata, "spec": {"containers": web}});
        assert_answered(&scene, &namespace, what, odd).await;
    }
    let review = review(&namespace, &crowded(1));
    let half = review.len() / 2;
    for (what, body, status) in [
        ("nothing", Vec::new(), 400),
        ("half a review", review[..half].to_vec(), 400),
        ("no JSON", b"\xff\xfe{".to_vec(), 400),
        ("many brackets", vec![b'['; 1 << 20], 413),
        ("brackets that do not close", vec![b'['; 1 << 10], 400),
        ("another kind", br#"{"apiVersion": "v1", "kind": "Pod"}"#.to_vec(), 400),
        (
            "no request",
            br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#.to_vec(),
            400,
        ),
    ] {
        let (answered, text) = scene.webhook.post(body).await.unwrap();
        assert_eq!(answered, status, "{what}: {text}");
        assert!(text.len() > 10, "{what}: {text}");
    }
    // What stands in the way of one review stands in the way of no other.
    Meshed("").check("a pod after all this", &namespace.create_pod(&crowded(1)).await);
}

fn review(namespace: &Namespace, pod: &Value) -> Vec<u8> {
    let request = json!({
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": namespace.name,
        "operation": "CREATE", "object": pod,
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}

/// Posts a review of `pod`, which wants a proxy: the answer is a patch that makes it whole, or says why there is none.
async fn assert_answered(scene: &Scene, namespace: &Namespace, what: &str, mut pod: Value) {
    let (status, text) = scene.webhook.post(review(namespace, &pod)).await.unwrap();
    assert_eq!(status, 200, "{what}: {text}");
    let response = text.parse::<Value>().unwrap()["response"].take();
    if response["allowed"] == false {
        assert!(
            response["status"]["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{what}: {text}"
        );
        return;
    }
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    json_patch::patch(&mut pod, &patch).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(mesh::redirection(&pod), Some("init-container"), "{what}: {pod}");
}
