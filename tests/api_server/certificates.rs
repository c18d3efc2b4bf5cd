//! The certificate that replicas make, keep and renew themselves, on a real API server that calls them through a Service and
//! fails closed.

mod repair;
mod rights;
mod rotation;
mod shop;
mod site;

use shop::Visitors;
pub(crate) use site::{SETTLE, certificate_in, data, issued_in, shown_at, trusted_by};
use site::{Site, tells};

use crate::announce;

#[tokio::test]
async fn replicas_that_start_at_once_share_one_certificate() {
    let site = Site::without_secret().await;
    site.may_create_secrets().await;
    let shop = site.register().await;
    // Whoever comes now is refused, and comes again.
    let before = shop.visit().await;
    assert!(before.contains("failed calling webhook"), "{before}");

    let replicas = site.start_both().await;
    let secret = site.secret().await;
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let keys: Vec<_> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"], "and no key of an authority");
    for replica in 0..2 {
        assert_eq!(site.shown_by(replica).await, Some(site.certificate().await));
    }
    let mut makers = 0;
    for replica in &replicas {
        tells(replica, "outrigger_certificate_trusted", 1).await;
        tells(replica, "outrigger_certificate_failing", 0).await;
        let series = "outrigger_certificate_steps_total{step=\"make\"}";
        makers += i32::from(replica.metric(series).await > 0.0);
        assert!(!replica.log().contains("PRIVATE"), "{}", replica.log());
    }
    assert_eq!(makers, 1, "one of them has made it");

    shop.open().await;
    let visitors = Visitors::of(&shop);
    for _ in 0..10 {
        visitors.come().await;
    }
    let failed = visitors.failed();
    assert!(failed.is_empty(), "{failed:#?}");
    announce(&format!(
        "pods created through two replicas after a start without a Secret: {}",
        visitors.count()
    ));
}
