use super::*;
use tempfile::TempDir;

/// A certificate and its key in PEM.
fn pem() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[expect(clippy::disallowed_methods, reason = "the tests play the kubelet")]
fn folder(certificate: &str, key: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("tls.crt"), certificate).unwrap();
    std::fs::write(folder.path().join("tls.key"), key).unwrap();
    folder
}

fn error(certificate: &str, key: &str) -> String {
    Certificate::load(folder(certificate, key).path())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_chain_is_loaded_whole() {
    let ((leaf, key), (issuer, _)) = (pem(), pem());
    let certificate = Certificate::load(folder(&format!("{leaf}{issuer}"), &key).path()).unwrap();
    assert_eq!(certificate.current().unwrap().cert.len(), 2);
}

#[test]
fn a_bad_pair_is_refused_with_file_and_reason() {
    let ((certificate, key), (_, other)) = (pem(), pem());
    let mismatch = error(&certificate, &other);
    assert!(
        mismatch.contains("tls.crt with ") && mismatch.contains("tls.key: the key does not go with"),
        "{mismatch}"
    );
    assert!(error("", &key).ends_with("the certificate file holds no certificate in PEM"));
    assert!(error(&key, &key).ends_with("the certificate file holds no certificate in PEM"));
    assert!(error(&certificate, "").contains("the key file holds no private key in PEM"));
    assert!(error(&certificate, &certificate).contains("the key file holds no private key in PEM"));
    let cut = certificate.get(..certificate.len() / 2).unwrap();
    assert!(
        error(cut, &key).contains("the certificate file holds no certificate in PEM"),
        "{}",
        error(cut, &key)
    );
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(
        error(garbage, &key).contains("the key does not go with"),
        "{}",
        error(garbage, &key)
    );
    let empty = TempDir::new().unwrap();
    let missing = Certificate::load(empty.path()).unwrap_err().to_string();
    assert!(
        missing.starts_with("cannot read ") && missing.contains("tls.crt"),
        "{missing}"
    );
}

#[test]
fn a_self_made_certificate_ends_within_a_year() {
    let certificate = Certificate::make(&["linkerd-proxy-injector.linkerd.svc".to_owned()]).unwrap();
    let end = not_after(certificate.current().unwrap().cert.first().unwrap()).unwrap();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let left = u64::try_from(end).unwrap() - now;
    assert!((364 * 86_400..=365 * 86_400).contains(&left), "{left}");
}
