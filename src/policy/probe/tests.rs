use super::*;
use crate::policy::pod_security::{Level, Policy, Version};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const BASELINE: Policy = Policy {
    level: Level::Baseline,
    version: Version::Latest,
};

fn refused(code: u16, message: &str) -> (String, String) {
    match classify(code, message) {
        Answer::Refused(refusal) => (refusal.by.to_string(), refusal.message),
        other @ (Answer::Admitted | Answer::Unknown(_)) => panic!("{message}: {other}"),
    }
}

#[test]
fn a_refusal_names_who_refuses() {
    for (code, message, by, words) in [
        (
            403,
            "pods \"p-x7k2p\" is forbidden: violates PodSecurity \"baseline:v1.30\": non-default capabilities (container \
             \"linkerd-init\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)",
            "pod-security baseline:v1.30",
            "non-default capabilities (container \"linkerd-init\" must not include \"NET_ADMIN\" in \
             securityContext.capabilities.add)",
        ),
        (
            422,
            "pods \"p-x\" is forbidden: ValidatingAdmissionPolicy 'no-net-admin' with binding 'no-net-admin' denied \
             request: NET_ADMIN is not for you",
            "validating-admission-policy no-net-admin",
            "NET_ADMIN is not for you",
        ),
        (
            403,
            "admission webhook \"validate.kyverno.svc-fail\" denied the request: exceeded quota: of my patience",
            "webhook validate.kyverno.svc-fail",
            "exceeded quota: of my patience",
        ),
        (
            400,
            "admission webhook \"mute.example.com\" denied the request without explanation",
            "webhook mute.example.com",
            "without explanation",
        ),
        (
            422,
            "Pod \"p-x\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
            "validation",
            "Pod \"p-x\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
        ),
        (
            403,
            "pods \"p-x\" is forbidden: image policy webhook backend denied one or more images",
            "admission-plugin",
            "image policy webhook backend denied one or more images",
        ),
    ] {
        assert_eq!(refused(code, message), (by.to_owned(), words.to_owned()), "{message}");
    }
}

#[test]
fn what_says_nothing_of_policies_is_told_apart() {
    for (code, message, cause) in [
        (
            403,
            "pods \"p\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3",
            Cause::Quota,
        ),
        (
            403,
            "pods \"p\" is forbidden: failed quota: small: must specify limits.cpu for: linkerd-proxy",
            Cause::Quota,
        ),
        (
            403,
            "pods \"p\" is forbidden: [maximum cpu usage per Container is 500m, but limit is 1, maximum memory usage per \
             Container is 1Mi, but limit is 250Mi]",
            Cause::LimitRange,
        ),
        (
            403,
            "pods \"p\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000",
            Cause::LimitRange,
        ),
        (
            403,
            "pods \"p\" is forbidden: unable to validate against any security context constraint: [provider …]",
            Cause::Grant,
        ),
        (
            403,
            "pods \"p\" is forbidden: PodSecurityPolicy: unable to admit pod: []",
            Cause::Grant,
        ),
        (
            403,
            "pods \"p\" is forbidden: unable to create new content in namespace shop because it is being terminated",
            Cause::Terminating,
        ),
        (
            403,
            "pods \"p\" is forbidden: error looking up service account shop/default: serviceaccount \"default\" not found",
            Cause::NoAccount,
        ),
        (
            403,
            "pods is forbidden: User \"system:serviceaccount:linkerd:outrigger-probe\" cannot create resource \"pods\" in \
             API group \"\" in the namespace \"shop\"",
            Cause::Forbidden,
        ),
        (
            400,
            "admission webhook \"audit.example.com\" does not support dry run",
            Cause::NoDryRun,
        ),
        (
            500,
            "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: Post \
             \"https://10.0.0.1/\": context deadline exceeded",
            Cause::WebhookFails,
        ),
        (404, "namespaces \"shop\" not found", Cause::NoNamespace),
        (401, "Unauthorized", Cause::Forbidden),
        (429, "too many requests", Cause::Busy),
        (
            504,
            "Timeout: request did not complete within the allotted timeout",
            Cause::Timeout,
        ),
        (500, "etcdserver: leader changed", Cause::Busy),
        (503, "", Cause::Busy),
        (400, "", Cause::Other),
    ] {
        assert_eq!(classify(code, message).cause(), Some(cause), "{message}");
    }
    assert_eq!(classify(201, ""), Answer::Admitted);
}

#[test]
fn a_quota_that_demands_figures_is_told_from_one_that_is_used_up() {
    assert!(
        classify(
            403,
            "pods \"p\" is forbidden: failed quota: small: must specify cpu for: app"
        )
        .demands_figures()
    );
    assert!(!classify(403, "pods \"p\" is forbidden: exceeded quota: small").demands_figures());
}

#[test]
fn a_quota_that_refuses_shows_that_all_others_admit() {
    for words in [
        "exceeded quota: small, requested: limits.cpu=1, used: limits.cpu=0, limited: limits.cpu=500m",
        "failed quota: small: must specify requests.ephemeral-storage for: probe",
        "status unknown for quota: small, resources: pods",
    ] {
        let answer = classify(403, &format!("pods \"p\" is forbidden: {words}"));
        assert_eq!(answer.but_for_quotas(), Answer::Admitted, "{words}");
    }
    for (code, message) in [
        (
            403,
            "admission webhook \"w\" denied the request: exceeded quota: of my patience",
        ),
        (
            403,
            "pods \"p\" is forbidden: maximum cpu usage per Container is 500m, but limit is 1",
        ),
    ] {
        let answer = classify(code, message);
        assert_eq!(answer.clone().but_for_quotas(), answer);
    }
}

fn labels() -> Map<String, Value> {
    json!({"kubernetes.io/metadata.name": "shop", "team": "a"})
        .as_object()
        .unwrap()
        .clone()
}

fn finding() -> Finding {
    Finding {
        at: 1_000_000,
        labels: digest(Some(&labels())),
        plain: Answer::Admitted,
        init_container: Answer::refused(Refuser::PodSecurity(BASELINE), "non-default capabilities"),
        cni: Answer::Admitted,
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(1_000_000 + seconds)
}

fn reread(findings: &[(&str, &Finding)]) -> Report {
    let (data, left_out) = Report::write(findings);
    assert_eq!(left_out, 0);
    Report::read(data.iter().map(|(key, text)| (key.as_str(), text.as_str())))
}

#[test]
fn only_a_plain_pod_that_is_admitted_says_something_of_the_others() {
    let finding = finding();
    assert!(matches!(finding.of(Shape::InitContainer), Found::Refused(_)));
    assert_eq!((finding.of(Shape::Cni), finding.doubt()), (Found::Admitted, None));
    for plain in [
        Answer::refused(
            Refuser::ValidatingAdmissionPolicy("labels".to_owned()),
            "team is missing",
        ),
        Answer::unknown(Cause::Timeout, "10 s"),
    ] {
        let finding = Finding {
            plain,
            ..finding.clone()
        };
        for shape in Shape::ALL {
            assert_eq!(finding.of(shape), Found::Unknown(&finding.plain));
        }
        assert!(finding.doubt().unwrap().starts_with("a plain pod is "));
    }
}

#[test]
fn what_fails_for_a_while_leaves_what_is_known() {
    let before = finding();
    let (failed, no_dry_run) = (
        Answer::unknown(Cause::Busy, "etcdserver: leader changed"),
        Answer::unknown(Cause::NoDryRun, "audit.example.com"),
    );
    let now = Finding {
        at: before.at + 600,
        ..finding()
    };
    let plain_failed = Finding {
        plain: failed.clone(),
        init_container: no_dry_run.clone(),
        cni: no_dry_run.clone(),
        ..now.clone()
    };
    assert_eq!(plain_failed.clone().or_known(&before), before);
    let cni_failed = Finding {
        init_container: Answer::refused(Refuser::Webhook("w".to_owned()), "no"),
        cni: failed,
        ..now.clone()
    };
    let known = Finding {
        at: before.at,
        cni: Answer::Admitted,
        ..cni_failed.clone()
    };
    assert_eq!(cni_failed.clone().or_known(&before), known);
    // What does not pass is news, and so is what nothing better is known of.
    let lasting = Finding { cni: no_dry_run, ..now };
    assert_eq!(lasting.clone().or_known(&before), lasting);
    for useless in [
        Finding {
            at: before.at - 3600,
            ..finding()
        },
        Finding {
            labels: digest(None),
            ..finding()
        },
        plain_failed,
    ] {
        assert_eq!(cni_failed.clone().or_known(&useless), cni_failed);
    }
}

#[test]
fn other_words_are_no_news() {
    let of = |name: &str, words| Finding {
        cni: Answer::refused(Refuser::Webhook(name.to_owned()), words),
        ..finding()
    };
    assert!(of("w", "refused at 12:00").says_the_same(&of("w", "refused at 12:10")));
    assert!(!of("w", "no").says_the_same(&of("v", "no")) && !of("w", "no").says_the_same(&finding()));
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let plain = Finding {
        plain: Answer::unknown(Cause::WebhookFails, "slow.example.com: context deadline exceeded"),
        cni: Answer::refused(Refuser::Webhook("w.example.com".to_owned()), "no\nway"),
        ..finding()
    };
    let report = reread(&[("shop", &finding()), ("slow", &plain)]);
    let found: BTreeMap<_, _> = report.findings().collect();
    assert_eq!(found["shop"], &finding());
    assert!(found["slow"].says_the_same(&plain));
    let word = report.word("shop", Some(&labels()), at(42));
    let Word::Found { finding: found, age } = word else {
        panic!("{word:?}");
    };
    assert_eq!((&*found, ago(age)), (&finding(), "42s ago".to_owned()));
    let standing = report.standing(at(42));
    assert_eq!((standing.usable, standing.unknown), (1, 1));
}

#[test]
fn what_is_old_or_of_other_labels_is_stale() {
    let report = reread(&[("shop", &finding())]);
    let stale = |word: Word| match word {
        Word::Stale { why } => why,
        other @ (Word::Absent | Word::Unknown { .. } | Word::Found { .. }) => panic!("{other:?}"),
    };
    let old = stale(report.word("shop", Some(&labels()), at(3601 * 2)));
    assert_eq!(old, "found 2h ago, and 60m is the most that counts");
    let changed = stale(report.word("shop", None, at(1)));
    assert_eq!(changed, "found when namespace shop had other labels");
    assert_eq!(report.standing(at(3601)).stale, 1);
    let early = report.word("shop", Some(&labels()), Duration::from_secs(1_000_000 - 3600));
    assert!(matches!(early, Word::Unknown { .. }), "{early:?}");
}

#[test]
fn junk_is_unknown_and_harms_nobody_else() {
    let (mut data, _) = Report::write(&[("shop", &finding()), ("other", &finding())]);
    let read = |data: &BTreeMap<String, String>| Report::read(data.iter().map(|(key, text)| (&**key, &**text)));
    let why = |report: &Report| match report.word("shop", Some(&labels()), at(1)) {
        Word::Unknown { why } => why,
        other @ (Word::Absent | Word::Stale { .. } | Word::Found { .. }) => panic!("{other:?}"),
    };
    for junk in [
        "",
        "null",
        "[]",
        "{}",
        "{\"at\":-1}",
        "\u{0}",
        &"x".repeat(9000),
        r#"{"at":1,"labels":"","plain":{"verdict":"yes"},"init-container":{"verdict":"admitted"},"cni":{"verdict":"admitted"}}"#,
        r#"{"at":1,"labels":"","plain":{"verdict":"refused","by":"pod-security","policy":"strict"},"init-container":{"verdict":"admitted"},"cni":{"verdict":"admitted"}}"#,
    ] {
        data.insert("shop".to_owned(), junk.to_owned());
        let report = read(&data);
        assert!(
            why(&report).starts_with("ConfigMap outrigger-probe-findings, key shop: "),
            "{junk}"
        );
        let other = report.word("other", Some(&labels()), at(1));
        assert!(matches!(other, Word::Found { .. }), "{other:?}");
        assert_eq!(report.standing(at(1)).unreadable, 1);
    }
    data.insert("_format".to_owned(), "2".to_owned());
    assert!(why(&read(&data)).ends_with("_format is \"2\": expected \"1\""));
    data.remove("_format");
    assert!(why(&read(&data)).ends_with("_format is missing: expected \"1\""));
    assert_eq!(read(&data).findings().count(), 0);
    data.clear();
    assert_eq!(read(&data).word("shop", None, at(1)), Word::Absent);
}

#[test]
fn two_thousand_namespaces_that_have_much_to_say_fit_into_one_config_map() {
    let long = "no ".repeat(1000);
    let talkative = Finding {
        init_container: Answer::refused(Refuser::Webhook("w".repeat(100)), &long),
        cni: Answer::refused(Refuser::Webhook("w".repeat(40)), &long),
        ..finding()
    };
    let names: Vec<_> = (0..2000).map(|number| format!("{number:063}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), &talkative)).collect();
    let (data, left_out) = Report::write(&all);
    let size: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
    assert!(size < 1 << 20, "{size}");
    assert_eq!((left_out, data.len()), (0, 2001));
    let report = Report::read(data.iter().map(|(key, text)| (&**key, &**text)));
    assert_eq!(report.findings().count(), 2000);
}
