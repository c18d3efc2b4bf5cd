use super::*;

fn parsed(args: &[&str]) -> Options {
    Options::try_parse_from([&["network-validator"], args].concat()).unwrap()
}

#[test]
fn the_command_is_well_formed() {
    use clap::CommandFactory as _;
    Options::command().debug_assert();
}

#[test]
fn durations_need_a_unit() {
    for (text, seconds) in [
        ("10s", 10),
        ("0", 0),
        ("2m", 120),
        ("1h", 3600),
        ("1d", 86400),
        ("1500ms", 1),
    ] {
        assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
    }
    for text in [
        "10",
        "",
        "s",
        "-1s",
        "1.5s",
        "10 s",
        "99999999999999999999s",
        "999999999999999999d",
    ] {
        assert!(duration(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
    }
}

#[test]
fn a_listener_for_both_families_proves_both() {
    assert_eq!(families(&parsed(&[])), [Family::V4]);
    assert_eq!(families(&parsed(&["--connect-addr", "[fd00::1]:1"])), [Family::V6]);
    assert_eq!(
        families(&parsed(&["--listen-addr", "[::]:4140"])),
        [Family::V6, Family::V4]
    );
}

#[test]
fn the_worst_counts_and_a_family_that_is_not_there_does_not() {
    let bad = Outcome::NotRedirected("x".to_owned());
    let none = Outcome::NotTested("y".to_owned());
    assert_eq!(verdict(&[Outcome::Redirected, none.clone(), bad.clone()]), bad);
    assert_eq!(verdict(&[none.clone(), Outcome::Redirected]), Outcome::Redirected);
    assert_eq!(verdict(&[none.clone(), none.clone()]), none);
}

#[test]
fn arguments_that_are_wrong_are_told() {
    assert_eq!(
        main(["network-validator".into(), "--timeout=10".into()]),
        ExitCode::from(2)
    );
    assert_eq!(main(["network-validator".into(), "--off".into()]), ExitCode::SUCCESS);
}
