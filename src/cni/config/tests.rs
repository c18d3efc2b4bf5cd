use super::*;
use proptest::prelude::*;

const SOUND: &str = r#"{"cniVersion": "1.1.0", "name": "net", "type": "outrigger-cni""#;

fn failure(text: &str) -> Failure {
    NetworkConfig::parse(text).unwrap_err()
}

#[test]
fn what_is_malformed_is_refused_with_the_code_of_the_specification() {
    let table = [
        ("", 6, "the network configuration cannot be decoded: "),
        ("nonsense", 6, "the network configuration cannot be decoded: "),
        ("[]", 6, "the network configuration cannot be decoded: "),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\"",
            6,
            "the network configuration cannot be decoded: ",
        ),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": \"net\"} x",
            6,
            "the network configuration cannot be decoded: ",
        ),
        (
            "{\"cniVersion\": 1.1, \"name\": \"net\"}",
            6,
            "the network configuration cannot be decoded: cniVersion: ",
        ),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": 7}",
            6,
            "the network configuration cannot be decoded: name: ",
        ),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": \"net\", \"linkerd\": {\"proxy-uid\": \"root\"}}",
            6,
            "the network configuration cannot be decoded: linkerd.proxy-uid: ",
        ),
        (
            "{\"name\": \"net\"}",
            1,
            "cniVersion \"0.1.0\" is not supported; expected one of 0.3.0, ",
        ),
        ("{\"cniVersion\": \"\", \"name\": \"net\"}", 1, "cniVersion \"0.1.0\""),
        (
            "{\"cniVersion\": \"9.9.9\", \"name\": \"net\", \"linkerd\": 7}",
            1,
            "cniVersion \"9.9.9\" is not supported",
        ),
        (
            "{\"cniVersion\": \"1.1.0\"}",
            7,
            "network configuration: name: \"\" is no name",
        ),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": \"../x\"}",
            7,
            "network configuration: name: \"../x\" is no name",
        ),
        (
            "{\"cniVersion\": \"1.1.0\", \"name\": \"net\", \"prevResult\": [1]}",
            7,
            "network configuration: prevResult: expected",
        ),
    ];
    for (text, code, said) in table {
        let failure = failure(text);
        assert!(failure.to_string().starts_with(said), "{text}: {failure}");
        assert_eq!(failure.code(), code, "{text}");
    }
}

#[test]
fn the_previous_result_keeps_every_byte() {
    let previous = r#"{ "cniVersion":"1.0.0", "zzz": 12345678901234567890123, "a": 1e400, "ips":[ ],"ü":"\u00fc" }"#;
    let text = format!("{SOUND}, \"prevResult\": {previous}}}");
    assert_eq!(NetworkConfig::parse(&text).unwrap().previous(), Some(previous));
    for none in ["", ", \"prevResult\": null"] {
        assert_eq!(
            NetworkConfig::parse(&format!("{SOUND}{none}}}")).unwrap().previous(),
            None
        );
    }
}

#[test]
fn keys_that_are_absent_null_or_foreign_do_no_harm() {
    let text = format!(
        "{SOUND}, \"policy\": {{\"x\": 1}}, \"ipam\": [], \"kubernetes\": {{\"k8s_api_root\": \"x\"}}, \"linkerd\": \
         {{\"ports-to-redirect\": null, \"iptables-mode\": \"\", \"use-wait-flag\": true}}, \"outrigger\": {{\"new\": 1}}}}"
    );
    let config = NetworkConfig::parse(&text).unwrap();
    assert_eq!(
        (config.mode(), config.kubeconfig(), config.socket()),
        (Ok(Mode::Auto), None, DEFAULT_SOCKET)
    );
    assert_eq!(config.log_level(), LogLevel::Warn);
    let given = format!(
        "{SOUND}, \"log_level\": \"Debug\", \"kubernetes\": {{\"kubeconfig\": \"/k\"}}, \"linkerd\": {{\"iptables-mode\": \
         \"nft\"}}, \"outrigger\": {{\"socket\": \"/s\"}}}}"
    );
    let config = NetworkConfig::parse(&given).unwrap();
    assert_eq!(
        (config.mode(), config.kubeconfig(), config.socket()),
        (Ok(Mode::Nft), Some("/k"), "/s")
    );
    assert_eq!(config.log_level(), LogLevel::Debug);
    let wrong = format!("{SOUND}, \"linkerd\": {{\"iptables-mode\": \"ebtables\"}}}}");
    let failure = NetworkConfig::parse(&wrong).unwrap().mode().unwrap_err();
    assert_eq!(failure.code(), 7);
    assert!(
        failure
            .to_string()
            .contains("\"ebtables\" is none; expected legacy, nft, plain, native or auto")
    );
}

#[test]
fn errors_are_answered_in_the_version_of_the_call() {
    assert_eq!(version_of("{\"cniVersion\": \"0.4.0\"}"), Version::V040);
    for text in ["", "{}", "{\"cniVersion\": \"0.2.0\"}", "{\"cniVersion\": \"1.0.0\""] {
        assert_eq!(version_of(text), Version::LATEST, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(mut text in "\\PC{0,40}", at in 0_usize..300, cut in 0_usize..300) {
        let sound = format!("{SOUND}, \"prevResult\": {{\"ips\": []}}, \"linkerd\": {{\"ipv6\": true}}}}");
        prop_assert!(NetworkConfig::parse(&text).is_err());
        let (at, cut) = (at.min(sound.len()), cut.min(sound.len()));
        text = format!("{}{text}{}", &sound[..at.min(cut)], &sound[at.max(cut)..]);
        match NetworkConfig::parse(&text) {
            Ok(config) => prop_assert!(config.previous().is_none_or(|previous| text.contains(previous))),
            Err(failure) => prop_assert!([1, 6, 7].contains(&failure.code()) && !failure.to_string().contains('\n')),
        }
    }
}
