//! What others do to the Secret or to the registration is put right.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::site::{LIMIT, Site, data};
use crate::cluster::poll;

#[tokio::test]
async fn a_secret_that_cannot_be_used_does_not_keep_a_replica_from_starting() {
    let site = Site::new().await;
    let shop = site.register().await;
    let (one, two) = (site.issued(-1, 10), site.issued(-1, 10));
    let mut mismatched = data(&one);
    mismatched["tls.key"] = data(&two)["tls.key"].clone();
    let expired = data(&site.issued(-90, -1));
    let garbage = json!({"tls.crt": "AAAA", "tls.key": "AAAA", "ca.crt": "AAAA", "next-tls.crt": "AAAA"});
    for unusable in [expired, mismatched, garbage] {
        site.write(&unusable).await;
        let before = site.stored().await;
        let replica = site.start(0).await;
        let stored = site.certificate().await;
        assert_ne!(before, Some(stored.clone()), "{}", replica.log());
        assert_eq!(site.shown_by(0).await, Some(stored));
        shop.open_by(0).await;
        assert!(replica.log().contains("step=\"make\""), "{}", replica.log());
        assert!(replica.stop().await.status.success());
    }
}

#[tokio::test]
async fn a_bundle_that_others_change_is_completed_and_all_else_is_left_alone() {
    let site = Site::new().await;
    let shop = site.register().await;
    let replicas = site.start_both().await;
    shop.open().await;
    let others = json!({"name": "other.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None", "failurePolicy": "Ignore", "admissionReviewVersions": ["v1"], "rules": []});
    let ours = site.bundle(0).await;
    assert_eq!(ours.len(), 1);
    for text in ["", "Q0FfQlVORExF"] {
        site.reregister(|configuration| {
            // A platform writes requirements of its own into selectors.
            let entry = &mut configuration["webhooks"][0];
            entry["namespaceSelector"]["matchExpressions"] =
                json!([{"key": "platform.example.com/managed", "operator": "DoesNotExist"}]);
            entry["clientConfig"]["caBundle"] = text.into();
            let entries = configuration["webhooks"].as_array_mut().unwrap();
            entries.truncate(2);
            entries.push(others.clone());
        })
        .await;
        let written = site.registered().await;
        let completed = async || (site.bundle(0).await == ours).then_some(());
        poll(LIMIT, completed).await.expect("the bundle is completed");
        let mut after = site.registered().await;
        let bundle = &mut after["webhooks"][0]["clientConfig"]["caBundle"];
        *bundle = Value::Null;
        let mut before = written.clone();
        before["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
        assert_eq!(after["webhooks"], before["webhooks"], "nothing else is written");
        shop.open().await;
    }
    drop(replicas);
}

#[tokio::test]
async fn what_is_trusted_already_stays_until_it_ends() {
    let site = Site::new().await;
    let foreign = site.issued(-1, 10);
    let ended = site.issued(-20, -1);
    let shop = site.register().await;
    site.reregister(|configuration| {
        let text = format!("{}{}", foreign.authority, ended.authority);
        configuration["webhooks"][1]["clientConfig"]["caBundle"] = STANDARD.encode(text).into();
    })
    .await;
    let _replicas = site.start_both().await;
    shop.open().await;
    assert_eq!((site.bundle(0).await.len(), site.bundle(1).await.len()), (1, 2));
    // Two installations share no bundle, and neither touches what is the other's.
    let other = Site::new().await;
    let others = other.register().await;
    let before = site.registered().await;
    let _other_replicas = other.start_both().await;
    others.open().await;
    assert_eq!(site.registered().await, before);
    shop.open().await;
}
