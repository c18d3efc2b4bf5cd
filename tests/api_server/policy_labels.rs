//! What `outrigger policy labels` prints for workloads, applied, admits them injected; the next stricter level would not.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Namespace, Reply, poll, shared};
use crate::mesh;
use crate::printed::{manifests, pods, printed};
use crate::scene::{CNI, ENFORCE, INJECT, PLAIN, Scene};

/// A watch tells within milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A workload that breaks no policy.
const CLEAN: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - {name: web, image: web, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
";

/// Applies labels as the command's own comment says.
async fn apply(namespace: &Value) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("namespace.json");
    fs::write(&file, namespace.to_string()).unwrap();
    let arguments = ["apply", "--server-side", "--field-manager=outrigger", "--filename"];
    let arguments = arguments.map(OsStr::new).into_iter().chain([file.as_os_str()]);
    let output = shared().await.kubectl(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether the pod is admitted with a proxy, or was never to have one.
fn is_admitted(reply: &Reply, pod: &Value) -> bool {
    let disabled = mesh::annotation(pod, "linkerd.io/inject") == Some("disabled");
    reply.accepted() && (disabled || mesh::redirection(&reply.body).is_some())
}

/// What the namespace says to `pods` at this moment.
async fn ask(namespace: &Namespace, pods: &[(&str, Value)]) -> Vec<Reply> {
    let mut replies = Vec::new();
    for (_, pod) in pods {
        replies.push(namespace.try_pod(pod).await);
    }
    replies
}

/// Checks that `level` is printed for `text`, a manifest of namespace `name`, and that it is the strictest that will do.
async fn is_the_strictest(name: &str, text: &str, values: &str, level: &str, stricter: &str) {
    let scene = Scene::with_values(values).await;
    let labels = [scene.registration.label()];
    let namespace = Namespace::create_named(&scene.client, name, &labels, &[INJECT]).await;
    for account in ["emoji", "voting", "web", "db"] {
        let object = json!({"metadata": {"name": account}});
        assert_eq!(namespace.post("api/v1", "serviceaccounts", &object).await.code, 201);
    }
    let cni = if values == CNI { "all" } else { "none" };
    let arguments = ["labels", "--server-version", "1.36", "--cni", cni, "--namespace", name];
    let objects = printed(&arguments, text);
    assert_eq!(objects[0]["metadata"]["labels"][ENFORCE], level, "{objects:#?}");
    apply(&objects[0]).await;

    let workloads = pods(text);
    let all = async || {
        let replies = ask(&namespace, &workloads).await;
        let mut pairs = replies.iter().zip(&workloads);
        pairs.all(|(reply, (_, pod))| is_admitted(reply, pod)).then_some(())
    };
    let admitted = poll(LIMIT, all).await;
    assert!(admitted.is_some(), "{:#?}", ask(&namespace, &workloads).await);
    for (_, pod) in &workloads {
        let reply = namespace.create_pod(pod).await;
        assert!(is_admitted(&reply, pod), "{}: {}", reply.code, reply.message());
    }

    namespace.label(&[(ENFORCE, stricter)]).await;
    let words = format!("violates PodSecurity \"{stricter}:v1.36\": ");
    let refused = async || {
        let replies = ask(&namespace, &workloads).await;
        let mut refused = replies.iter().filter(|reply| !reply.accepted());
        refused.any(|reply| reply.message().contains(&words)).then_some(())
    };
    let refused = poll(LIMIT, refused).await;
    assert!(refused.is_some(), "{:#?}", ask(&namespace, &workloads).await);
}

#[tokio::test]
async fn for_workloads_that_say_nothing_of_security() {
    let text = manifests("emojivoto").replace("emojivoto", "labels-emojivoto");
    is_the_strictest("labels-emojivoto", &text, CNI, "baseline", "restricted").await;
}

#[tokio::test]
async fn for_workloads_that_ask_for_more() {
    is_the_strictest("labels-mixed", &manifests("mixed"), PLAIN, "privileged", "baseline").await;
}

#[tokio::test]
async fn for_workloads_that_only_linkerd_init_makes_ask_for_more() {
    let text = CLEAN.replace("NAMESPACE", "labels-init");
    is_the_strictest("labels-init", &text, PLAIN, "privileged", "baseline").await;
}
