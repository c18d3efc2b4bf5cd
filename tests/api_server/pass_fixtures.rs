//! The property that names the product: what a level admits without the proxy, it admits with it.
//!
//! The control group asks a real server about each pod as it is; what the server refuses then is not injection's doing.

use serde_json::Value;

use crate::cluster::Reply;
use crate::conformance_folder::conformance;
use crate::fixtures::{Question, ask, questions, release, report, report_refusals};
use crate::mesh;
use crate::scene::{CNI, INJECT, Scene};

/// How Linkerd redirects traffic where nothing else is configured, asked for in the namespace.
const LINKERDS_WAY: (&str, &str) = ("linkerd.io/setup-iptables", "init-container");

#[tokio::test]
async fn what_a_level_admits_it_admits_injected() {
    let Some(folder) = conformance() else { return };
    let scene = Scene::with_values(CNI).await;
    let (client, label) = (&scene.client, scene.registration.label());
    let release = release(client).await;
    let questions = questions(&folder, release);
    let admitted = |_: &Question, reply: &Reply| reply.accepted();

    let control = ask(client, &questions, &[], &[]).await;
    report("clean pods admitted un-injected", &questions, &control, admitted);
    report_refusals(&questions, &control);
    let known = questions
        .iter()
        .zip(&control)
        .filter(|(question, _)| question.is_known_to(release));
    for (question, reply) in known {
        assert!(reply.accepted(), "at {}: {}", question.version, reply.message());
    }

    let injected = ask(client, &questions, &[label], &[INJECT]).await;
    report("clean pods admitted injected", &questions, &injected, admitted);
    report("  with proxy and validator", &questions, &injected, is_meshed);
    report("  Windows pods, left alone", &questions, &injected, |question, _| {
        question.is_for_windows()
    });
    for ((question, before), after) in questions.iter().zip(&control).zip(&injected) {
        assert_eq!(
            (before.code, before.accepted()),
            (after.code, after.accepted()),
            "{}:{} about {}: {}",
            question.level,
            question.version,
            question.name,
            after.message()
        );
        if before.accepted() {
            assert_harmless(question, &before.body, &after.body);
        }
    }

    let linkerds = ask(client, &questions, &[label], &[INJECT, LINKERDS_WAY]).await;
    report(
        "clean pods meshed with linkerd-init, Linkerd's way",
        &questions,
        &linkerds,
        is_meshed,
    );
    report("  denied with the reason", &questions, &linkerds, |_, reply| {
        is_denied_by_us(reply)
    });
    for ((question, before), after) in questions.iter().zip(&control).zip(&linkerds) {
        assert!(!is_meshed(question, after), "{}: {}", question.name, after.body);
        let denied = before.accepted() && !question.is_for_windows();
        assert_eq!(is_denied_by_us(after), denied, "{}: {}", question.name, after.body);
    }
}

fn is_meshed(_: &Question, reply: &Reply) -> bool {
    reply.accepted() && mesh::redirection(&reply.body).is_some()
}

fn is_denied_by_us(reply: &Reply) -> bool {
    reply.code == 403
        && reply.message().starts_with(
            "admission webhook \"linkerd-proxy-injector.linkerd.io\" denied the request: no way to redirect the pod's \
             traffic is left: init-container: violates PodSecurity ",
        )
}

/// Checks what injection made of an admitted pod: meshed without a privilege, or, for Windows, nothing at all.
fn assert_harmless(question: &Question, before: &Value, after: &Value) {
    if question.is_for_windows() {
        assert_eq!(own_part(before), own_part(after), "{}", question.name);
        return;
    }
    assert_eq!(mesh::redirection(after), Some("cni"), "{}", question.name);
    assert_eq!(mesh::gained_capabilities(before, after), [""; 0], "{}", question.name);
}

/// What does not differ between two pods of the same manifest.
fn own_part(pod: &Value) -> (Value, &Value, &Value) {
    let metadata = &pod["metadata"];
    (
        mesh::without_random_names(&pod["spec"]),
        &metadata["annotations"],
        &metadata["labels"],
    )
}
