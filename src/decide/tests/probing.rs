//! What a probe found out.

use super::*;
use crate::policy::pod_security::{Level, Policy, Version};
use crate::policy::probe::{Answer, Cause, Finding, Refuser};
use std::time::Duration;

const BASELINE: Policy = Policy {
    level: Level::Baseline,
    version: Version::Latest,
};

fn found(plain: Answer, init_container: Answer, cni: Answer) -> Word {
    Word::Found {
        finding: Arc::new(Finding {
            at: 0,
            labels: String::new(),
            plain,
            init_container,
            cni,
        }),
        age: Duration::from_secs(42),
    }
}

fn refused_by_level() -> Answer {
    Answer::refused(Refuser::PodSecurity(BASELINE), "non-default capabilities")
}

fn refused_by_policy() -> Answer {
    Answer::refused(
        Refuser::ValidatingAdmissionPolicy("no-net-admin".to_owned()),
        "NET_ADMIN is not for you",
    )
}

/// A pod that gets the init container where nothing refuses it, and the plugin where something does.
fn probed(probe: Word) -> Case {
    let mut case = case().covered(partly(Some(("cni", "yes"))));
    case.probe = probe;
    case
}

fn opinions(decision: &Decision) -> Vec<(&str, &str)> {
    let of_probe = decision.policies.iter().filter(|opinion| opinion.by == "probe");
    of_probe
        .map(|opinion| (opinion.policy.as_str(), opinion.say()))
        .collect()
}

fn trace(decision: &Decision) -> String {
    decision.trace.facts().join("\n")
}

#[test]
fn a_default_that_no_label_shows_leaves_the_plugin() {
    let decision = probed(found(Answer::Admitted, refused_by_level(), Answer::Admitted)).decide();
    assert_eq!(
        (decision.redirection(), decision.code()),
        (Redirection::Cni, "cni_on_some_nodes")
    );
    assert_eq!(decision.pod_security().unwrap().policy, "baseline:latest");
    let trace = trace(&decision);
    for line in [
        "probe: found 42s ago: init-container: refused by pod-security baseline:latest: non-default capabilities",
        "probe: found 42s ago: cni: admitted",
        "probe: namespace shop: privileged:latest was expected, a dry run shows baseline:latest",
        "pod-security enforces baseline:latest",
    ] {
        assert!(trace.lines().any(|fact| fact == line), "{line}: {trace}");
    }
    assert!(
        decision
            .warnings
            .iter()
            .all(|warning| warning.caution != Caution::ProbeContradicts),
        "{trace}"
    );
}

#[test]
fn a_level_that_was_found_is_applied_to_the_pod_at_hand() {
    let mut case = probed(found(Answer::Admitted, refused_by_level(), Answer::Admitted));
    case.coverage = Coverage::None;
    case.pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let decision = case.decide();
    assert_eq!(decision.code(), "refused_anyway", "{}", decision.message());
    case.pod["spec"]["containers"][0]["securityContext"].take();
    let message = case.decide().message();
    assert!(
        message.contains("the cluster's default for namespace shop is baseline:latest"),
        "{message}"
    );
    assert_eq!(message.matches("dry run").count(), 1, "{message}");
}

#[test]
fn what_a_policy_of_others_refuses_is_not_chosen() {
    let webhook = Answer::refused(Refuser::Webhook("deny.example.com".to_owned()), "no");
    for (answer, policy) in [
        (refused_by_policy(), "validating-admission-policy no-net-admin"),
        (webhook, "webhook deny.example.com"),
    ] {
        let finding = found(Answer::Admitted, answer, Answer::Admitted);
        let decision = probed(finding.clone()).decide();
        assert_eq!(decision.redirection(), Redirection::Cni);
        assert!(opinions(&decision).contains(&("dry-run", "admitted")), "{decision:?}");
        let mut alone = probed(finding);
        alone.coverage = Coverage::None;
        let denied = alone.decide();
        let said = opinions(&denied);
        assert_eq!((said.len(), said[0].0), (1, policy));
        let message = denied.message();
        for part in [
            &format!("init-container: a dry run of such a pod was refused by {policy}: "),
            &format!("{policy} refuses it in namespace shop, as a dry run shows"),
            "have the policy that refused the dry run take it",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[test]
fn what_says_nothing_changes_nothing() {
    let unrelated = Answer::refused(
        Refuser::ValidatingAdmissionPolicy("labels".to_owned()),
        "team is missing",
    );
    let unknown = |cause| Answer::unknown(cause, "");
    for probe in [
        found(unrelated, unknown(Cause::Other), unknown(Cause::Other)),
        found(unknown(Cause::Timeout), unknown(Cause::Other), unknown(Cause::Other)),
        found(Answer::Admitted, unknown(Cause::Quota), unknown(Cause::Quota)),
        Word::Unknown { why: "junk".to_owned() },
        Word::Stale { why: "old".to_owned() },
    ] {
        for coverage in [Coverage::None, Coverage::Declared, partly(Some(("cni", "yes")))] {
            let of = |probe: Word| {
                let mut case = probed(probe);
                case.coverage = coverage.clone();
                case.decide()
            };
            let (with, without) = (of(probe.clone()), of(Word::Absent));
            assert_eq!((with.outcome.clone(), &with.patch), (without.outcome, &without.patch));
            assert_eq!((&with.policies, &with.warnings), (&without.policies, &without.warnings));
            let trace = trace(&with);
            let word = if let Word::Stale { .. } = probe {
                "probe: stale: "
            } else {
                "probe: unknown: "
            };
            assert!(trace.contains(word), "{word}: {trace}");
        }
    }
}

#[test]
fn a_shape_of_which_nothing_is_known_yields_to_one_that_is_admitted() {
    let unknown = || Answer::unknown(Cause::WebhookFails, "slow.example.com");
    let decision = probed(found(Answer::Admitted, unknown(), Answer::Admitted)).decide();
    assert_eq!(decision.redirection(), Redirection::Cni);
    let mut alone = probed(found(Answer::Admitted, unknown(), Answer::Admitted));
    alone.coverage = Coverage::None;
    let decision = alone.decide();
    assert_eq!(
        decision.redirection(),
        Redirection::InitContainer,
        "nothing else is left"
    );
    assert_eq!(opinions(&decision).len(), 1);
}

#[test]
fn what_was_configured_is_confirmed_or_contradicted() {
    const VALUES: &str = "{linkerdVersion: v1, outrigger: {podSecurity: {defaults: {enforce: baseline}}}}";
    let of = |init_container| {
        let mut case = probed(found(Answer::Admitted, init_container, Answer::Admitted));
        case.values = VALUES;
        case.decide()
    };
    let confirmed = of(refused_by_level());
    assert_eq!(confirmed.redirection(), Redirection::Cni);
    assert!(
        trace(&confirmed).contains("probe: confirms what is configured"),
        "{}",
        trace(&confirmed)
    );
    assert_eq!(confirmed.warnings.len(), 1, "{:?}", confirmed.warnings);

    let contradicted = of(Answer::Admitted);
    assert_eq!(
        contradicted.redirection(),
        Redirection::InitContainer,
        "the finding wins"
    );
    assert_eq!(contradicted.pod_security().unwrap().exempt, Some("namespace"));
    let warnings: Vec<_> = contradicted.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["probe_contradicts: namespace shop: baseline:latest was expected, a dry run shows that it is exempt"]
    );
}

#[test]
fn an_exempt_creator_stays_exempt() {
    const VALUES: &str = "{linkerdVersion: v1, outrigger: {podSecurity: {defaults: {enforce: baseline}, exemptions: \
                          {usernames: ['system:serviceaccount:kube-system:replicaset-controller']}}}}";
    let mut case = probed(found(Answer::Admitted, refused_by_level(), Answer::Admitted));
    case.values = VALUES;
    let decision = case.decide();
    assert_eq!(
        decision.redirection(),
        Redirection::InitContainer,
        "{}",
        trace(&decision)
    );
    assert_eq!(decision.pod_security().unwrap().exempt, Some("user"));
}
