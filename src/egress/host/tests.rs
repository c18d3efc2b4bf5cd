use super::*;
use proptest::prelude::*;

fn name(text: &str) -> Name {
    match Host::parse(text) {
        Ok(Host::Name(name)) => name,
        other => panic!("{text}: {other:?}"),
    }
}

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_name_has_one_form() {
    for (text, form) in [
        ("api.github.com", "api.github.com"),
        ("API.GitHub.com.", "api.github.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example.", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        // Full stops of other scripts end labels, too (UTS 46).
        ("example。com", "example.com"),
        ("ｅｘａｍｐｌｅ.com", "example.com"),
        ("my_bucket.example.com", "my_bucket.example.com"),
    ] {
        assert_eq!(name(text).as_str(), form, "{text}");
    }
}

#[test]
fn an_address_is_no_name_however_it_is_written() {
    for (text, address) in [
        ("169.254.169.254", "169.254.169.254"),
        ("169.254.169.254.", "169.254.169.254"),
        ("2852039166", "169.254.169.254"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("0xA9.0xFE.0xA9.0xFE", "169.254.169.254"),
        ("0251.0376.0251.0376", "169.254.169.254"),
        ("169.254.43518", "169.254.169.254"),
        ("１６９.２５４.１６９.２５４", "169.254.169.254"),
        ("127.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[::ffff:169.254.169.254]", "169.254.169.254"),
        ("FD00:EC2::254", "fd00:ec2::254"),
    ] {
        let expected: IpAddr = address.parse().unwrap();
        assert_eq!(Host::parse(text), Ok(Host::Address(expected)), "{text}");
    }
}

#[test]
fn what_is_no_host_is_refused() {
    let long = format!("{}.example.com", "a".repeat(64));
    let longest = format!("{}example.com", "a.".repeat(125));
    for text in [
        "",
        ".",
        "a..b",
        ".example.com",
        "example.com..",
        "exa mple.com",
        "exam\u{0}ple.com",
        "example.com/",
        "user@example.com",
        "%65xample.com",
        "example.com:443",
        "[::1",
        "[example.com]",
        "fe80::1%eth0",
        "1.2.3.4.5",
        "256.256.256.256",
        "example.1",
        "xn--a.example",
        "*.example.com",
        "a,b.example.com",
        "sn\u{ad}ow\u{202e}.example\u{2028}",
        &long,
        &longest,
    ] {
        assert!(Host::parse(text).is_err(), "{text:?}: {:?}", Host::parse(text));
    }
}

#[test]
fn a_pattern_means_no_more_than_it_says() {
    let any = pattern("*.Example.COM.");
    for text in [
        "www.example.com",
        "a.b.example.com",
        "WWW.EXAMPLE.com.",
        "x_y.example.com",
    ] {
        assert!(any.covers(&name(text)), "{text}");
    }
    for text in [
        "example.com",
        "www.example.net",
        "example.com.evil.test",
        "www.example.com.evil.test",
        "notexample.com",
        "wwwexample.com",
        "example.co",
    ] {
        assert!(!any.covers(&name(text)), "{text}");
    }
    let one = pattern("example.com");
    assert!(one.covers(&name("EXAMPLE.com.")));
    for text in ["www.example.com", "example.com.evil.test", "example.comm"] {
        assert!(!one.covers(&name(text)), "{text}");
    }
    assert!(pattern("*.bücher.example").covers(&name("www.xn--bcher-kva.example")));
    assert_eq!(pattern("*.Bücher.example.").to_string(), "*.xn--bcher-kva.example");
}

#[test]
fn a_pattern_that_means_too_much_or_nothing_is_refused() {
    for (text, why) in [
        ("*", "every host"),
        ("*.", "neither a name nor an address"),
        ("*.com", "top-level domain"),
        ("*.*", "every host"),
        ("a.*.b", "whole first label"),
        ("*.*.example.com", "whole first label"),
        ("a*.example.com", "whole first label"),
        ("*a.example.com", "whole first label"),
        ("example.*", "whole first label"),
        ("localhost", "has a dot"),
        ("10.0.0.1", "belongs into addresses"),
        ("*.0.0.1", "belongs into addresses"),
        ("0x7f.1", "belongs into addresses"),
        ("[::1]", "belongs into addresses"),
        ("example.com:443", "belongs into ports"),
        ("https://example.com", "a scheme nowhere"),
        ("-a.example.com", "hyphens between"),
        ("a-.example.com", "hyphens between"),
        ("a_b.example.com", "hyphens between"),
        ("", "neither a name nor an address"),
    ] {
        let error = HostPattern::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn exact_names_come_before_wildcards_and_longer_ones_before_shorter() {
    let mut patterns = ["*.example.com", "www.example.com", "*.a.example.com"].map(pattern);
    patterns.sort_by_key(|pattern| Reverse(pattern.exactness()));
    let order: Vec<_> = patterns.iter().map(ToString::to_string).collect();
    assert_eq!(order, ["www.example.com", "*.a.example.com", "*.example.com"]);
}

/// A label that the Gateway API takes.
const LABELS: &str = "[a-z0-9]([a-z0-9]{0,8}[a-z])?";

proptest! {
    #[test]
    fn nothing_panics(text in ".{0,300}") {
        let _host = Host::parse(&text);
        let _pattern = HostPattern::parse(&text);
    }

    #[test]
    fn the_form_is_read_as_itself(text in "[a-zA-Z0-9.\u{e0}-\u{f6}-]{1,40}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            prop_assert_eq!(Host::parse(&host.to_string().to_uppercase()), Ok(host));
        }
    }

    #[test]
    fn every_address_is_one(bits in any::<u32>()) {
        let address = IpAddr::V4(bits.into());
        for text in [address.to_string(), bits.to_string(), format!("{bits:#x}"), format!("0{bits:o}")] {
            prop_assert_eq!(Host::parse(&text), Ok(Host::Address(address)));
            prop_assert!(HostPattern::parse(&text).is_err());
        }
    }

    #[test]
    fn a_wildcard_covers_what_ends_in_its_labels(prefix in LABELS, domain in LABELS, other in LABELS) {
        let base = format!("{domain}.test");
        let any = HostPattern::parse(&format!("*.{base}"));
        prop_assume!(any.is_ok() && Host::parse(&format!("{prefix}.{base}")).is_ok());
        let any = any.unwrap();
        let (below, beside) = (name(&format!("{prefix}.{base}")), name(&format!("{prefix}{base}")));
        prop_assert!(any.covers(&below));
        prop_assert!(!any.covers(&name(&base)));
        prop_assert!(!any.covers(&beside));
        if let Ok(Host::Name(elsewhere)) = Host::parse(&format!("{prefix}.{base}.{other}.example")) {
            prop_assert!(!any.covers(&elsewhere));
        }
    }
}
