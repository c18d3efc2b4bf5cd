use super::*;
use crate::cli::check::finding::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// 2026-07-01.
const NOW: i64 = 1_782_864_000;

const HOST: &str = "linkerd-proxy-injector.linkerd.svc";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2040, 1, 1);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate in PEM for `name`, from the first of a month in 2026 to that of another year's.
fn issue(authority: &Authority, name: &str, from: (i32, u8), to: (i32, u8)) -> String {
    let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(from.0, from.1, 1);
    parameters.not_after = date_time_ymd(to.0, to.1, 1);
    let key = KeyPair::generate().unwrap();
    parameters.signed_by(&key, authority).unwrap().pem()
}

fn trusting(authority: &Authority, secret: &str) -> Certificates {
    Certificates {
        bundle: Some(STANDARD.encode(authority.pem())),
        host: Some(HOST.to_owned()),
        secret: Stored::Certificate(secret.as_bytes().to_vec()),
        now: NOW,
        ..Certificates::default()
    }
}

fn codes(certificates: &Certificates) -> Vec<(&'static str, Status)> {
    let findings = judge(certificates);
    findings.iter().map(|it| (it.code.word(), it.status)).collect()
}

#[test]
fn a_certificate_is_judged_by_what_is_left_of_its_life() {
    let authority = authority("one");
    for (from, to, code) in [
        ((2026, 6), (2027, 6), "serving_certificate"),
        ((2025, 9), (2026, 9), "serving_certificate_ending"),
        ((2025, 6), (2026, 6), "serving_certificate_expired"),
    ] {
        let found = codes(&trusting(&authority, &issue(&authority, HOST, from, to)));
        assert_eq!(found[0], ("ca_bundle", Status::Ok));
        assert_eq!(found[1].0, code);
    }
}

#[test]
fn a_certificate_must_be_of_the_bundle_and_have_the_name() {
    let (authority, other) = (authority("one"), authority("other"));
    let life = ((2026, 6), (2027, 6));
    for (secret, code) in [
        (issue(&other, HOST, life.0, life.1), "serving_certificate_not_trusted"),
        (
            issue(&authority, "other.linkerd.svc", life.0, life.1),
            "serving_certificate_not_trusted",
        ),
        ("nothing".to_owned(), "serving_certificate_unreadable"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            "serving_certificate_unreadable",
        ),
    ] {
        assert_eq!(codes(&trusting(&authority, &secret))[1], (code, Status::Failed));
    }
    let mut alone = trusting(&authority, &issue(&authority, HOST, life.0, life.1));
    alone.bundle = None;
    assert_eq!(
        codes(&alone),
        [("serving_certificate", Status::Unknown)],
        "nobody has compared it"
    );
    alone.secret = Stored::Missing("pair".to_owned());
    assert_eq!(codes(&alone), [("serving_certificate_missing", Status::Failed)]);
    let mut unusable = trusting(&authority, "");
    for bundle in ["%", "", &STANDARD.encode("no PEM")] {
        unusable.bundle = Some(bundle.to_owned());
        assert_eq!(codes(&unusable)[0], ("ca_bundle_unusable", Status::Failed), "{bundle}");
    }
}

#[test]
fn a_certificate_that_is_itself_in_the_bundle_needs_no_other() {
    let (authority, other) = (authority("one"), authority("other"));
    let own_authority = |name: &str| {
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = date_time_ymd(2026, 6, 1);
        parameters.not_after = date_time_ymd(2027, 6, 1);
        parameters
    };
    let key = KeyPair::generate().unwrap();
    let self_signed = |name: &str| own_authority(name).self_signed(&key).unwrap().pem();
    let issued = own_authority(HOST).signed_by(&key, &authority).unwrap().pem();
    let plain = issue(&other, HOST, (2026, 6), (2027, 6));
    let judged = |secret: &str, bundle: &str| {
        let certificates = Certificates {
            bundle: Some(STANDARD.encode(bundle)),
            ..trusting(&authority, secret)
        };
        codes(&certificates)[1]
    };
    for pinned in [self_signed(HOST), issued.clone(), plain] {
        assert_eq!(judged(&pinned, &pinned), ("serving_certificate", Status::Ok));
    }
    let elsewhere = self_signed("other.linkerd.svc");
    let refused = ("serving_certificate_not_trusted", Status::Failed);
    assert_eq!(judged(&elsewhere, &elsewhere), refused);
    assert_eq!(judged(&self_signed(HOST), &authority.pem()), refused);
    // Go takes the certificate of a CA for a server's, and rustls does not.
    assert_eq!(
        judged(&issued, &authority.pem()),
        ("serving_certificate", Status::Unknown)
    );
}

#[test]
fn what_is_presented_is_judged_as_the_api_server_does() {
    let (authority, other) = (authority("one"), authority("other"));
    let good = issue(&authority, HOST, (2026, 6), (2027, 6));
    let mut certificates = trusting(&authority, &good);
    let mut presenting = |pem: &str| {
        certificates.presented = Some(Presented::Chain {
            chain: read(pem.as_bytes()).unwrap(),
            address: "10.0.0.1:443".to_owned(),
        });
        judge(&certificates).pop().unwrap()
    };
    assert_eq!(presenting(&good).code, Code::Handshake);
    let finding = presenting(&issue(&other, HOST, (2026, 6), (2027, 6)));
    assert_eq!(finding.code, Code::HandshakeFailed);
    assert!(finding.message.contains("UnknownIssuer"), "{}", finding.message);
    let finding = presenting(&issue(&authority, HOST, (2025, 6), (2026, 6)));
    assert!(finding.message.contains("ended 30 days ago"), "{}", finding.message);
    certificates.presented = Some(Presented::Broken {
        why: "plain HTTP".to_owned(),
    });
    let broken = judge(&certificates).pop().unwrap();
    assert_eq!((broken.code, broken.status), (Code::HandshakeBroken, Status::Failed));
}

#[test]
fn the_trust_anchor_that_lasts_longest_counts() {
    let authority = authority("one");
    let anchor = |from: (i32, u8), to: (i32, u8)| issue(&authority, "root.linkerd.cluster.local", from, to);
    let old = anchor((2016, 6), (2026, 6));
    let judge = |pem: &str| anchors(pem, NOW);
    assert_eq!(judge(&old).code, Code::TrustAnchorsExpired);
    let rotating = judge(&(old + &anchor((2026, 6), (2036, 6))));
    assert_eq!(rotating.code, Code::TrustAnchors);
    assert!(rotating.message.contains("1 of them ended"), "{}", rotating.message);
    assert_eq!(judge(&anchor((2016, 8), (2026, 8))).code, Code::TrustAnchorsEnding);
    assert_eq!(judge(&anchor((2016, 10), (2026, 10))).code, Code::TrustAnchors);
    assert_eq!(judge("none").code, Code::TrustAnchorsUnreadable);
}

#[test]
fn times_are_told_in_their_largest_unit() {
    let spans = [0, 119, 120, 7199, 7200, 172_800, 31_536_000].map(span);
    assert_eq!(
        spans,
        [
            "0 seconds",
            "119 seconds",
            "2 minutes",
            "119 minutes",
            "2 hours",
            "2 days",
            "365 days"
        ]
    );
}
