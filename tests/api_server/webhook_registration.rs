//! How the harness has a webhook called: registration, and a certificate that changes between two requests.

mod stand_in;

use serde_json::{Value, json};

use crate::cluster::{Authority, FailurePolicy, Namespace, Registration, TlsDir, Webhook, WebhookOptions, shared};
use crate::pod;
use stand_in::StandIn;

fn mark(reply: &Value) -> &Value {
    &reply["metadata"]["annotations"]["stand-in"]
}

#[tokio::test]
async fn a_certificate_changes_between_two_requests() {
    let client = shared().await.client().await;
    let authority = Authority::new();
    let tls = TlsDir::new(&authority);
    let server = StandIn::start(tls.path().to_owned()).await;
    let registration = Registration::create(&client, server.address, &authority, FailurePolicy::Fail).await;
    let called = Namespace::create(&client, "called", &[registration.label()], &[]).await;
    let not_called = Namespace::create(&client, "not-called", &[], &[]).await;
    assert_eq!(
        mark(&not_called.try_pod(&pod("web", &json!({}))).await.body),
        &Value::Null
    );

    assert_eq!(
        mark(&called.create_pod(&pod("before", &json!({}))).await.body),
        "called"
    );
    let rotated = tls.rotate(&authority);
    assert_eq!(authority.served_by(server.address).await, Some(rotated.der));
    assert_eq!(mark(&called.create_pod(&pod("after", &json!({}))).await.body), "called");
}

#[tokio::test]
async fn the_failure_policy_decides_when_nobody_answers() {
    let client = shared().await.client().await;
    let authority = Authority::new();
    let closed = crate::cluster::Port::reserve();
    for (policy, code) in [(FailurePolicy::Fail, 500), (FailurePolicy::Ignore, 201)] {
        let registration = Registration::create(&client, closed.address(), &authority, policy).await;
        let namespace = Namespace::create(&client, "unanswered", &[registration.label()], &[]).await;
        let reply = namespace.try_pod(&pod("web", &json!({}))).await;
        assert_eq!(reply.code, code, "{policy:?}: {}", reply.message());
    }
}

#[tokio::test]
async fn a_webhook_that_cannot_start_says_why() {
    let cluster = shared().await;
    let options = WebhookOptions {
        values: String::new(),
        on_failure: FailurePolicy::Fail,
        flags: vec!["--no-such-flag".to_owned()],
    };
    let error = Webhook::start(cluster, &cluster.client().await, options)
        .await
        .unwrap_err();
    assert!(error.contains("the webhook ended"), "{error}");
}
