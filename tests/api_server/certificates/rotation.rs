//! A certificate is renewed while pods are created through it.

use serde_json::json;

use super::shop::Visitors;
use super::site::Site;
use crate::announce;

#[tokio::test]
async fn pods_are_created_while_certificates_and_authorities_change() {
    let site = Site::new().await;
    let shop = site.register().await;
    // Of its 90 days 80 are over: it is shown, and another is made at once.
    let first = site.write_pair(-80, 10).await;
    let replicas = site.start_both().await;
    shop.open().await;
    let visitors = Visitors::of(&shop);
    let mut certificates = vec![first];
    visitors
        .during(async {
            let second = site.renewed(&replicas, certificates.last().unwrap()).await;
            certificates.push(second);
            // Time passes again: what is written is older than it was.
            let old = site.write_pair(-70, 20).await;
            let third = site.renewed(&replicas, &old).await;
            certificates.extend([old, third]);
            // Somebody renews it by hand.
            site.write(&json!({"tls.crt": "", "tls.key": ""})).await;
            let fourth = site.renewed(&replicas, certificates.last().unwrap()).await;
            certificates.push(fourth);
            // Somebody meddles with it.
            site.write(&json!({"tls.key": "AAAA", "tls.crt": "AAAA"})).await;
            let fifth = site.renewed(&replicas, certificates.last().unwrap()).await;
            certificates.push(fifth);
        })
        .await;
    let failed = visitors.failed();
    assert!(
        failed.is_empty(),
        "{} of {}: {failed:#?}",
        failed.len(),
        visitors.count()
    );

    // Every authority is trusted until its certificate has ended: some replica might still show it.
    assert_eq!(site.bundle(0).await.len(), certificates.len());
    assert_eq!(site.bundle(0).await, site.bundle(1).await);
    announce(&format!(
        "pods created through two replicas while {} certificates and their authorities came into use: {}, {} of them failed",
        certificates.len() - 1,
        visitors.count(),
        failed.len()
    ));
}

#[tokio::test]
async fn a_replica_that_starts_while_certificates_change_shows_one_that_is_trusted() {
    let site = Site::new().await;
    let shop = site.register().await;
    let old = site.write_pair(-80, 10).await;
    let first = site.start(0).await;
    // It shows the old one, for the new one has to settle.
    let second = site.start(1).await;
    shop.open().await;
    site.renewed(&[first, second], &old).await;
}
