//! A pod's way through the plugin.

use super::*;

const NEEDS: &str =
    r#"non-default capabilities (container "app" must not include "NET_ADMIN" in securityContext.capabilities.add)"#;

fn labels(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), json!(value)))
        .collect()
}

fn question<'q>(release: u32, configuration: &'q Configuration, labels: &'q Value) -> Question<'q> {
    Question {
        server: server(release),
        configuration,
        namespace: "shop",
        labels: labels.as_object(),
        user: "ada",
    }
}

fn net_admin() -> Value {
    pod(&[
        ("$/capabilities/add", json!(["NET_ADMIN"])),
        ("/spec/runtimeClassName", json!("gvisor")),
    ])
}

#[test]
fn enforcement_refuses_in_the_servers_words_and_does_not_warn() {
    let (configuration, labels) = (
        Configuration::default(),
        labels(&[("enforce", "baseline"), ("audit", "baseline")]),
    );
    let admission = question(36, &configuration, &labels).admission();
    let pod = net_admin();
    let review = admission.review(&Pod::new(&pod));
    assert_eq!(review.policy.to_string(), "baseline:latest");
    assert_eq!(
        review.verdict,
        Verdict::Denied {
            message: format!("violates PodSecurity \"baseline:latest\": {NEEDS}")
        }
    );
    assert_eq!(
        review.audit,
        Some(format!("would violate PodSecurity \"baseline:latest\": {NEEDS}"))
    );
    assert_eq!((review.warning, review.exempt), (None, None));

    let plain = self::pod(&[]);
    let review = admission.review(&Pod::new(&plain));
    assert_eq!(
        (review.verdict, review.warning, review.audit),
        (Verdict::Allowed, None, None)
    );
}

#[test]
fn warnings_and_audit_speak_where_nothing_is_refused() {
    let (configuration, labels) = (
        Configuration::default(),
        labels(&[("warn", "restricted"), ("warn-version", "v1.99")]),
    );
    let admission = question(36, &configuration, &labels).admission();
    let pod = net_admin();
    let review = admission.review(&Pod::new(&pod));
    assert_eq!(
        (review.policy, review.verdict, review.audit),
        (Policy::PRIVILEGED, Verdict::Allowed, None)
    );
    assert!(
        review
            .warning
            .unwrap()
            .starts_with("would violate PodSecurity \"restricted:v1.99\": unrestricted cap")
    );
}

#[test]
fn invalid_labels_enforce_the_strictest_level() {
    let (configuration, labels) = (Configuration::default(), labels(&[("enforce", "none")]));
    let admission = question(36, &configuration, &labels).admission();
    let pod = net_admin();
    let review = admission.review(&Pod::new(&pod));
    assert!(matches!(review.verdict, Verdict::Denied { .. }));
    assert_eq!(review.policy.to_string(), "restricted:latest");
    assert_eq!(admission.policies().errors.len(), 1);
}

#[test]
fn exemptions_spare_everything() {
    let labels = labels(&[("enforce", "baseline")]);
    let exempting = |exemptions| Configuration {
        exemptions,
        ..Configuration::default()
    };
    let pod = net_admin();
    for (exemptions, exempt) in [
        (
            Exemptions {
                namespaces: vec!["shop".into()],
                usernames: vec!["ada".into()],
                ..Default::default()
            },
            Some("namespace"),
        ),
        (
            Exemptions {
                usernames: vec!["ada".into()],
                ..Default::default()
            },
            Some("user"),
        ),
        (
            Exemptions {
                runtime_classes: vec!["gvisor".into()],
                ..Default::default()
            },
            Some("runtimeClass"),
        ),
        (
            Exemptions {
                usernames: vec!["Ada".into()],
                namespaces: vec!["sho".into()],
                ..Default::default()
            },
            None,
        ),
    ] {
        let configuration = exempting(exemptions);
        let admission = question(36, &configuration, &labels).admission();
        let review = admission.review(&Pod::new(&pod));
        assert_eq!(review.exempt.map(Exemption::name), exempt);
        assert_eq!(review.verdict == Verdict::Allowed, exempt.is_some());
        assert_eq!(review.policy.to_string(), "baseline:latest");
    }
}

#[test]
fn cluster_defaults_stand_in_for_labels() {
    let enforce = policy("baseline:v1.30");
    let configuration = Configuration {
        defaults: Defaults {
            enforce,
            ..Defaults::default()
        },
        ..Configuration::default()
    };
    let none = json!({});
    let pod = net_admin();
    let denied = question(36, &configuration, &none)
        .admission()
        .review(&Pod::new(&pod))
        .verdict;
    assert_eq!(
        denied,
        Verdict::Denied {
            message: format!("violates PodSecurity \"baseline:v1.30\": {NEEDS}")
        }
    );
    let labels = labels(&[("enforce", "privileged")]);
    let admission = question(36, &configuration, &labels).admission();
    assert_eq!(admission.policies().enforce.to_string(), "privileged:v1.30");
    assert_eq!(admission.review(&Pod::new(&pod)).policy, Policy::PRIVILEGED);
}

#[test]
fn early_releases_have_no_plugin_or_one_behind_a_gate() {
    let (configuration, labels) = (
        Configuration::default(),
        labels(&[("enforce", "baseline"), ("warn", "baseline")]),
    );
    let pod = net_admin();
    let verdict = |release| {
        let admission = question(release, &configuration, &labels).admission();
        let review = admission.review(&Pod::new(&pod));
        (review.verdict, review.warning.is_some(), review.audit.is_some())
    };
    assert_eq!(verdict(21), (Verdict::Allowed, false, false));
    assert!(matches!(verdict(22), (Verdict::Unknown { why }, false, false) if why.ends_with(NEEDS)));
    assert!(matches!(verdict(23).0, Verdict::Denied { .. }));
}

#[test]
fn release_1_22_warns_in_other_words() {
    let (configuration, labels) = (Configuration::default(), labels(&[("warn", "baseline")]));
    let pod = net_admin();
    let admission = question(22, &configuration, &labels).admission();
    let warning = format!("would violate \"latest\" version of \"baseline\" PodSecurity profile: {NEEDS}");
    assert_eq!(admission.review(&Pod::new(&pod)).warning, Some(warning));
}
