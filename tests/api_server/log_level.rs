//! How much is logged changes while the webhook runs.

use std::time::Duration;

use crate::cluster::{Webhook, WebhookOptions, poll, shared};
use crate::scene::CNI;

/// A line is written before the connection that it is about is closed.
const LIMIT: Duration = Duration::from_secs(30);

/// How often the webhook has written that a connection has failed, which it does from `debug` on.
fn failures(webhook: &Webhook) -> usize {
    webhook.log().matches("connection failed").count()
}

/// Makes a connection that fails; by then others that did so before have been written about.
async fn fail(webhook: &Webhook) {
    let series = "outrigger_connections_failed_total{reason=\"handshake\"}";
    let before = webhook.metric(series).await;
    assert!(webhook.post_without_trust().await.is_err());
    let failed = async || (webhook.metric(series).await > before).then_some(());
    poll(LIMIT, failed).await.expect("the connection has failed");
}

#[tokio::test]
async fn the_log_level_changes_while_the_webhook_runs() {
    let webhook = Webhook::start(shared().await, WebhookOptions::with_values(CNI))
        .await
        .unwrap();
    assert_eq!(webhook.read("/log-level").await.unwrap(), (200, "info\n".to_owned()));
    fail(&webhook).await;
    fail(&webhook).await;
    assert_eq!(failures(&webhook), 0, "{}", webhook.log());

    assert_eq!(
        webhook.put("/log-level", "debug\n").await.unwrap(),
        (200, "debug\n".to_owned())
    );
    fail(&webhook).await;
    let written = async || (failures(&webhook) == 1).then_some(());
    poll(LIMIT, written)
        .await
        .unwrap_or_else(|| panic!("{}", webhook.log()));

    let (status, said) = webhook.put("/log-level", "loud").await.unwrap();
    assert_eq!(status, 400);
    assert!(
        said.contains("\"loud\" is no log level: expected panic, fatal, error, warn"),
        "{said}"
    );
    assert_eq!(webhook.read("/log-level").await.unwrap().1, "debug\n");

    assert_eq!(webhook.put("/log-level", "error").await.unwrap().0, 200);
    fail(&webhook).await;
    fail(&webhook).await;
    assert_eq!(failures(&webhook), 1, "{}", webhook.log());
    assert!(webhook.log().contains("log level changed"), "{}", webhook.log());
}
