//! The webhook's process comes, goes, and comes back, while pods are created.

use futures::join;
use serde_json::json;

use crate::cluster::{FailurePolicy, Namespace, Registration, Webhook, WebhookOptions, shared};
use crate::scene::{CNI, INJECT};
use crate::{mesh, pod};

#[tokio::test]
async fn the_failure_policy_decides_while_the_webhook_is_away() {
    join!(
        come_and_go(FailurePolicy::Fail, 500),
        come_and_go(FailurePolicy::Ignore, 201)
    );
}

/// Stops a webhook and starts it again; a pod that is created meanwhile gets `code`, and no proxy.
async fn come_and_go(policy: FailurePolicy, code: u16) {
    let cluster = shared().await;
    let client = cluster.client().await;
    let webhook = Webhook::start(cluster, WebhookOptions::with_values(CNI)).await.unwrap();
    let registration = Registration::create(&client, &webhook, policy).await;
    let namespace = Namespace::create(&client, "restart", &[registration.label()], &[INJECT]).await;
    let outcome = async |name| {
        let reply = namespace.create_pod(&pod(name, &json!({}))).await;
        (reply.code, mesh::redirection(&reply.body), reply.message().to_owned())
    };
    let meshed = (201, Some("cni"), String::new());
    assert_eq!(outcome("before").await, meshed);

    let stopped = webhook.stop().await;
    assert!(stopped.status.success(), "{}", stopped.status);
    let (got, proxy, message) = outcome("meanwhile").await;
    assert_eq!((got, proxy), (code, None), "{policy:?}: {message}");
    if code == 500 {
        let reason = "failed calling webhook \"linkerd-proxy-injector.linkerd.io\"";
        assert!(message.contains(reason), "{message}");
    }

    let _back = stopped.start().await.unwrap();
    assert_eq!(outcome("after").await, meshed);
}

#[tokio::test]
async fn a_webhook_that_cannot_start_says_why() {
    let fails = async |change: fn(&mut WebhookOptions)| {
        let mut options = WebhookOptions::with_values(CNI);
        change(&mut options);
        Webhook::start(shared().await, options).await.unwrap_err()
    };
    let error = fails(|options| options.flags = vec!["--no-such-flag".to_owned()]).await;
    assert!(error.contains("the webhook ended: exit status: 2"), "{error}");
    assert!(error.contains("unexpected argument '--no-such-flag' found"), "{error}");

    let error = fails(|options| options.values = "proxy: {uid: [1]}".to_owned()).await;
    assert!(error.contains("the webhook ended: exit status: 2"), "{error}");
    assert!(error.contains("values document: proxy.uid: "), "{error}");

    let error = fails(|options| options.pair = Some((String::new(), String::new()))).await;
    assert!(error.contains("the webhook ended: exit status: 2"), "{error}");
    assert!(error.contains("tls.crt"), "{error}");
}
