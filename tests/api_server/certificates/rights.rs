//! What the webhook may not do, and what is not its own to do: said plainly, and nothing is changed.

use serde_json::{Value, json};

use super::site::{LIMIT, Site, data, tells};
use crate::cluster::{Verb, Webhook, WebhookOptions, call, poll};

/// Waits until a replica says why it is not ready.
async fn not_ready(replica: &Webhook, why: &str) {
    let says = async || match replica.read("/ready").await {
        Ok((500, text)) => text.contains(why).then_some(text),
        _ => None,
    };
    let said = poll(LIMIT, says).await;
    said.unwrap_or_else(|| panic!("it does not say {why:?}: {}", replica.log()));
}

#[tokio::test]
async fn without_the_right_to_its_secret_a_replica_is_not_ready_and_says_so() {
    let site = Site::new().await;
    site.may_not_touch("secrets").await;
    let replica = site.launch(0).await;
    let secret = format!("Secret {}/linkerd-proxy-injector-k8s-tls", site.namespace.name);
    not_ready(
        &replica,
        &format!(
            "there is no certificate: cannot read {secret}: secrets \"linkerd-proxy-injector-k8s-tls\" is forbidden"
        ),
    )
    .await;
    tells(&replica, "outrigger_certificate_failing", 1).await;
    let log = replica.log();
    assert!(
        log.contains("the certificate cannot be looked after, trying again"),
        "{log}"
    );

    let missing = Site::without_secret().await;
    let replica = missing.launch(0).await;
    not_ready(&replica, "there is no certificate: cannot create Secret").await;
}

#[tokio::test]
async fn without_the_right_to_the_registration_nothing_that_works_is_changed() {
    let site = Site::new().await;
    let pair = site.write_pair(-80, 10).await;
    let shop = site.register().await;
    let authority = data_of(&site.secret().await, "ca.crt");
    site.reregister(|configuration| {
        for entry in configuration["webhooks"].as_array_mut().unwrap() {
            entry["clientConfig"]["caBundle"] = authority.clone();
        }
    })
    .await;
    site.may_not_touch("mutatingwebhookconfigurations").await;
    let replicas = site.start_both().await;
    shop.open().await;
    for replica in &replicas {
        tells(replica, "outrigger_certificate_failing", 1).await;
        let log = replica.log();
        assert!(log.contains("cannot read MutatingWebhookConfiguration"), "{log}");
    }
    // Another waits, and is not used.
    let waiting = async || site.secret().await["data"]["next-tls.crt"].is_string().then_some(());
    poll(LIMIT, waiting).await.expect("another is made");
    assert_eq!(site.certificate().await, pair);
    assert_eq!(site.shown_by(0).await, Some(pair));
}

fn data_of(secret: &Value, key: &str) -> Value {
    secret["data"][key].clone()
}

#[tokio::test]
async fn what_others_look_after_is_left_to_them() {
    let kept = Site::new().await;
    kept.write_pair(-80, 10).await;
    let path = format!(
        "/api/v1/namespaces/{}/secrets/linkerd-proxy-injector-k8s-tls",
        kept.namespace.name
    );
    let patch = json!({"metadata": {"annotations": {"cert-manager.io/certificate-name": "webhook"}}});
    assert!(
        call(&kept.client, Verb::Patch, &path, Some(&patch))
            .await
            .unwrap()
            .accepted()
    );
    let before = kept.secret().await;
    let replica = kept.launch(0).await;
    not_ready(&replica, "linkerd-proxy-injector-k8s-tls: cert-manager looks after it").await;
    assert_eq!(kept.secret().await, before);

    let other = Site::new().await;
    other.write(&data(&kept.issued(-1, 10))).await;
    let before = other.secret().await;
    let replica = other.launch(0).await;
    not_ready(&replica, "it holds the certificate of another Service").await;
    assert_eq!(other.secret().await, before);

    let injected = Site::new().await;
    injected.register().await;
    injected
        .reregister(|configuration| {
            configuration["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "linkerd/webhook"});
        })
        .await;
    let before = injected.registered().await;
    let replica = injected.launch(0).await;
    not_ready(&replica, "cert-manager fills in caBundle").await;
    assert_eq!(injected.registered().await, before);
}

#[tokio::test]
async fn a_certificate_that_others_look_after_is_judged_and_holds_nobody_up() {
    let site = Site::new().await;
    let _shop = site.register().await;
    let issued = site.issued(-1, 10);
    let start = async |pair: (String, String)| {
        let options = WebhookOptions {
            manages_certificate: false,
            pair: Some(pair),
            ..site.options(0)
        };
        site.start_with(options).await
    };
    site.reregister(|configuration| {
        for entry in configuration["webhooks"].as_array_mut().unwrap() {
            entry["clientConfig"]["caBundle"] = data(&issued)["ca.crt"].clone();
        }
    })
    .await;
    let good = start((issued.certificate.clone(), issued.key.to_string())).await;
    tells(&good, "outrigger_certificate_trusted", 1).await;
    drop(good);
    let other = site.issued(-1, 10);
    let bad = start((other.certificate.clone(), other.key.to_string())).await;
    tells(&bad, "outrigger_certificate_trusted", 0).await;
    assert!(
        bad.log().contains("API servers do not take the certificate in use"),
        "{}",
        bad.log()
    );
    assert_eq!(bad.read("/ready").await.unwrap().0, 200);
}

/// Somebody installs once more, in another namespace: the registration, of which there is one in a cluster, calls that Service.
#[tokio::test]
async fn a_registration_that_another_installation_has_taken_is_named() {
    let site = Site::new().await;
    let shop = site.register().await;
    let replicas = site.start_both().await;
    shop.open().await;
    site.reregister(|configuration| {
        for entry in configuration["webhooks"].as_array_mut().unwrap() {
            entry["clientConfig"]["service"]["namespace"] = "second".into();
        }
    })
    .await;
    let taken = site.registered().await;
    for replica in &replicas {
        tells(replica, "outrigger_certificate_failing", 1).await;
        let (log, service) = (replica.log(), &site.namespace.name);
        let words = format!(
            "{}: no entry calls Service {service}/linkerd-proxy-injector",
            site.registration
        );
        assert!(log.contains(&words), "{log}");
    }
    assert_eq!(site.registered().await, taken, "what is another's is left alone");
}
