use super::*;

fn parse(args: &[&str]) -> Result<Options, clap::Error> {
    Options::try_parse_from([&["proxy-init"], args].concat())
}

fn parsed(args: &[&str]) -> Options {
    parse(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

#[test]
fn the_command_is_well_formed() {
    use clap::CommandFactory as _;
    Options::command().debug_assert();
}

#[test]
fn integers_are_written_in_every_way_that_go_reads() {
    for args in [
        &["-p4143"][..],
        &["-p=4143"],
        &["-p", "4143"],
        &["--incoming-proxy-port", "0x102f"],
        &["-wp", "4143"],
    ] {
        assert_eq!(parsed(args).incoming_proxy_port, 4143, "{args:?}");
    }
    for (text, value) in [
        ("010", Some(8)),
        ("0b11", Some(3)),
        ("-1", Some(-1)),
        ("1_0", None),
        ("0x1_0", Some(16)),
        ("", None),
    ] {
        assert_eq!(integer(text).ok(), value, "{text}");
    }
    assert_eq!(parsed(&["-u", "-1"]).proxy_uid, -1);
    assert_eq!(parsed(&["-p", "1", "-p", "2"]).incoming_proxy_port, 2);
}

#[test]
fn booleans_take_a_value_only_behind_an_equals_sign() {
    assert!(parsed(&[]).ipv6);
    assert!(!parsed(&["--ipv6=false"]).ipv6);
    assert!(!parsed(&["--ipv6=F"]).ipv6);
    let stray = parsed(&["--ipv6", "false", "foo"]);
    assert!(stray.ipv6);
    assert_eq!(stray.rest.len(), 2);
    assert!(parse(&["--ipv6=maybe"]).is_err());
    assert!(parsed(&["--simulate", "-w"]).simulate);
}

#[test]
fn lists_are_csv_and_append() {
    let options = parsed(&[
        "--inbound-ports-to-ignore",
        "22,\"33,44\"",
        "--inbound-ports-to-ignore=",
        "--inbound-ports-to-ignore",
        "55,",
    ]);
    let entries: Vec<&str> = options
        .inbound_ports_to_ignore
        .iter()
        .flat_map(|list| &list.0)
        .map(String::as_str)
        .collect();
    assert_eq!(entries, ["22", "33,44", "55", ""]);
    let listed = parsed(&["-r", "1,2", "-r", "3"]);
    assert_eq!(listed.ports_to_redirect, [Integers(vec![1, 2]), Integers(vec![3])]);
    for args in [
        ["-r", "1, 2"],
        ["-r", ""],
        ["--subnets-to-ignore", "\"a"],
        ["--subnets-to-ignore", "a\"b"],
    ] {
        assert!(parse(&args).is_err(), "{args:?}");
    }
}

#[test]
fn the_mode_wins_over_the_path() {
    let of = |args: &[&str]| mode(&parsed(args)).map_err(|error| error.to_string());
    assert_eq!(of(&[]), Ok(Mode::Legacy));
    assert_eq!(
        of(&["--iptables-mode", "nft", "--firewall-bin-path", "/x"]),
        Ok(Mode::Nft)
    );
    assert_eq!(of(&["--firewall-bin-path", "iptables-nft"]), Ok(Mode::Nft));
    assert_eq!(of(&["--iptables-mode", "auto"]), Ok(Mode::Auto));
    assert!(
        of(&["--firewall-bin-path", "/usr/sbin/iptables-nft"])
            .unwrap_err()
            .contains("/usr/sbin/iptables-nft")
    );
    assert!(of(&["--iptables-mode", "ebpf"]).unwrap_err().contains("ebpf"));
}

#[test]
fn what_is_wrong_is_named() {
    let fails = |args: &[&str]| {
        let args = [&["-p", "4143", "-o", "4140"], args].concat();
        format!("{:#}", redirection(&parsed(&args), &mut Vec::new()).unwrap_err())
    };
    for (args, named) in [
        (&["-p", "65536"][..], "--incoming-proxy-port 65536"),
        (&["-o", "-1"], "--outgoing-proxy-port is missing"),
        (&["-r", "70000"], "--ports-to-redirect 70000"),
        (&["-u", "4294967295"], "--proxy-uid 4294967295"),
        (
            &["--inbound-ports-to-ignore", "abc"],
            "--inbound-ports-to-ignore: no entry of \"abc\"",
        ),
        (
            &["--subnets-to-ignore", "10.0.0.0"],
            "--subnets-to-ignore: \"10.0.0.0\"",
        ),
    ] {
        assert!(fails(args).contains(named), "{args:?}: {}", fails(args));
    }
}

#[test]
fn what_is_ignored_is_warned_of() {
    let mut warnings = Vec::new();
    let options = parsed(&["-p", "0", "-o", "4140", "--outbound-ports-to-ignore", "22, 33"]);
    let redirection = redirection(&options, &mut warnings).unwrap();
    assert_eq!(redirection.skip_outbound_ports.to_string(), "22");
    for named in ["\" 33\"", "--proxy-uid", "--incoming-proxy-port is 0"] {
        assert!(
            warnings.iter().any(|warning| warning.contains(named)),
            "{named}: {warnings:?}"
        );
    }
}
