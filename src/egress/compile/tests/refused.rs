//! Policies that a placement cannot enforce.

use super::*;

#[test]
fn nothing_is_widened_and_nothing_is_dropped_silently() {
    let compiled = compiled([
        (
            "shop/a",
            json!({"hosts": ["a.example"], "workloads": {"serviceAccounts": ["web"]}, "allowlist": "Enabled"}),
        ),
        ("shop/b", json!({"hosts": ["b.example"], "traceHeaders": "W3C"})),
        ("shop/c", json!({"hosts": ["c.example"], "placement": "Gateway"})),
    ]);
    // What waits for a gateway is for every workload, and closes what policies of that kind close.
    let expected = ["shop outrigger-outside Allow ", "shop outrigger-metadata Deny "];
    let networks = networks(&compiled);
    assert!(
        networks.len() == 2 && networks.iter().zip(expected).all(|(it, start)| it.starts_with(start)),
        "{networks:?}"
    );
    assert!(routes(&compiled).is_empty());
    assert_eq!(
        verdicts(&compiled),
        [
            "EgressPolicy/shop/a SelectorUnsupported NotAccepted",
            "EgressPolicy/shop/b TraceTranslationUnsupported NotAccepted",
            "EgressPolicy/shop/c Accepted Pending",
        ]
    );
    assert!(!compiled.verdicts[0].is_good() && compiled.verdicts[2].is_good());
}

#[test]
fn the_allowlist_of_a_refused_policy_is_kept() {
    let compiled = compiled([(
        "shop/a",
        json!({"hosts": ["a.example"], "allowlist": "Enabled", "traceHeaders": "W3C"}),
    )]);
    assert!(networks(&compiled)[0].starts_with("shop outrigger-outside Deny"));
    assert!(routes(&compiled).is_empty());
    assert_eq!(
        verdicts(&compiled),
        ["EgressPolicy/shop/a TraceTranslationUnsupported NotAccepted"]
    );
}
