use super::*;
use crate::webhook::certificate::issue::issue;
use kube::Client;
use std::time::{Duration, SystemTime};

const HOST: &str = "linkerd-proxy-injector.linkerd.svc";

/// The time for which certificates are made: some day of 2017, and a day more.
const NOW: i64 = 1_500_000_000;

fn issued(host: &str) -> Issued {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    issue("authority", &[host.to_owned()], now, now + Duration::from_secs(86_400)).unwrap()
}

fn read(object: &Value) -> Result<Option<Secret>, Trouble> {
    let client = Client::new(axum::Router::new(), "default");
    let answer = Answer {
        now: NOW,
        body: Some(object.to_string().into_bytes().into()),
    };
    Secret::read(answer, &Object::secret(client, "linkerd", "tls"))
}

/// The Secret with `data`.
fn secret(data: &Value) -> Secret {
    let object = json!({"metadata": {"resourceVersion": "7"}, "data": data});
    read(&object).unwrap().unwrap()
}

/// What the API server makes of a patch.
fn patched(secret: &Secret, patch: &Patch<Value>) -> Secret {
    let Patch::Merge(patch) = patch else {
        panic!("{patch:?}")
    };
    assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
    let mut object = json!({"metadata": {"resourceVersion": "7"}, "data": secret.data.0});
    json_patch::merge(&mut object, patch);
    read(&object).unwrap().unwrap()
}

fn id(found: &Found) -> Id {
    let Found::Usable(material) = found else {
        panic!("{found:?}")
    };
    material.id
}

#[tokio::test]
async fn pairs_move_from_place_to_place() {
    let empty = secret(&json!({}));
    assert!(matches!(empty.current(HOST, NOW), Found::Empty));
    let first = patched(&empty, &empty.made(&issued(HOST)));
    assert!(matches!(first.next(HOST, NOW), Found::Empty));
    let Found::Usable(material) = first.current(HOST, NOW) else {
        panic!("usable")
    };
    assert_eq!((material.begin, material.end), (NOW, NOW + 86_400));
    assert_eq!(material.authorities.len(), 1);

    let staged = patched(&first, &first.staged(&issued(HOST)));
    assert_eq!(id(&staged.current(HOST, NOW)), material.id);
    let waiting = id(&staged.next(HOST, NOW));
    assert_ne!(waiting, material.id);

    let promoted = patched(&staged, &staged.promoted());
    assert_eq!(id(&promoted.current(HOST, NOW)), waiting);
    assert!(matches!(promoted.next(HOST, NOW), Found::Empty));
    assert_eq!(
        promoted.data.0.keys().collect::<Vec<_>>(),
        ["ca.crt", "tls.crt", "tls.key"]
    );

    let again = patched(&staged, &staged.made(&issued(HOST)));
    assert!(matches!(again.next(HOST, NOW), Found::Empty));
}

#[tokio::test]
async fn what_is_created_is_what_is_read() {
    let mut object = created("linkerd", "tls", &issued(HOST));
    assert_eq!(object["type"], "kubernetes.io/tls");
    object["metadata"]["resourceVersion"] = "1".into();
    assert!(matches!(
        read(&object).unwrap().unwrap().current(HOST, NOW),
        Found::Usable(_)
    ));
}

#[tokio::test]
async fn what_cannot_be_shown_says_why() {
    let (one, two) = (issued(HOST), issued(HOST));
    let why = |certificate: &str, key: &str| {
        let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
        let Found::Unusable(why) = secret(&data).current(HOST, NOW) else {
            panic!("unusable")
        };
        why
    };
    assert!(why(&one.certificate, &two.key).contains("the key does not go with the first certificate"));
    assert!(why("garbage", &one.key).contains("holds no certificate in PEM"));
    assert!(why(&one.certificate, "").contains("holds no private key in PEM"));
    assert!(why(&one.certificate, &one.certificate).contains("holds no private key in PEM"));
}

#[tokio::test]
async fn what_others_look_after_is_foreign() {
    let other = issued("another.linkerd.svc");
    let data = values(CURRENT, &other);
    let object = |metadata: Value| json!({"metadata": metadata, "data": data});
    let found = |metadata, host: &str, now| read(&object(metadata)).unwrap().unwrap().current(host, now);
    let plain = || json!({"resourceVersion": "1"});
    let owned = json!({"resourceVersion": "1", "ownerReferences": [{"kind": "Certificate", "name": "webhook"}]});
    let annotated = json!({"resourceVersion": "1", "annotations": {"cert-manager.io/certificate-name": "webhook"}});
    for (metadata, host, expected) in [
        (plain(), HOST, "the certificate of another Service"),
        (owned, "another.linkerd.svc", "Certificate webhook looks after it"),
        (annotated, "another.linkerd.svc", "cert-manager looks after it"),
    ] {
        let found = found(metadata, host, NOW);
        assert!(
            matches!(&found, Found::Foreign(why) if why.contains(expected)),
            "{found:?}"
        );
    }
    assert!(matches!(found(plain(), "another.linkerd.svc", NOW), Found::Usable(_)));
    // One that has ended is of no use to the other Service either.
    assert!(matches!(found(plain(), HOST, NOW + 86_400), Found::Unusable(_)));
}

#[tokio::test]
async fn no_key_is_ever_written_into_a_message() {
    let issued = issued(HOST);
    let secret = patched(&secret(&json!({})), &secret(&json!({})).made(&issued));
    let found = secret.current(HOST, NOW);
    let error = read(&json!({"metadata": {}, "data": {"tls.key": STANDARD.encode(&*issued.key)}})).unwrap_err();
    let line = issued.key.lines().nth(1).unwrap();
    for text in [
        format!("{secret:?}"),
        format!("{found:?}"),
        format!("{issued:?}"),
        error.to_string(),
    ] {
        assert!(!text.contains("PRIVATE"), "{text}");
        assert!(!text.contains(line) && !text.contains(&STANDARD.encode(line)), "{text}");
    }
    assert_eq!(
        error.to_string(),
        "cannot read Secret linkerd/tls: the answer is no Secret"
    );
}
