use super::*;
use proptest::prelude::*;

fn list(text: &str) -> (String, Vec<String>) {
    let parsed = PortList::parse(text).unwrap();
    (
        parsed.list.to_string(),
        parsed.dropped.iter().map(|error| error.entry().to_owned()).collect(),
    )
}

#[test]
fn keeps_the_order_and_what_is_given_twice() {
    assert_eq!(
        list("4191,25,6000-8000,25"),
        ("4191,25,6000-8000,25".to_owned(), vec![])
    );
    assert_eq!(list("80-80"), ("80".to_owned(), vec![]));
    assert_eq!(list("0,65535"), ("0,65535".to_owned(), vec![]));
}

#[test]
fn an_empty_list_is_no_error() {
    assert_eq!(list(""), (String::new(), vec![]));
    assert_eq!(PortList::read([]).unwrap().list, PortList::default());
}

#[test]
fn junk_is_dropped_and_named() {
    for (text, kept, junk) in [
        ("22,abc,33", "22,33", vec!["abc"]),
        ("22, 33", "22", vec![" 33"]),
        ("22,70000", "22", vec!["70000"]),
        ("22,", "22", vec![""]),
        ("90-80,1", "1", vec!["90-80"]),
        ("1-2-3,-5,5-,7", "7", vec!["1-2-3", "-5", "5-"]),
        ("99999999999999999999,7", "7", vec!["99999999999999999999"]),
        ("٣,7", "7", vec!["٣"]),
    ] {
        let expected: Vec<String> = junk.into_iter().map(str::to_owned).collect();
        assert_eq!(list(text), (kept.to_owned(), expected), "{text}");
    }
}

#[test]
fn a_list_of_junk_alone_is_an_error_that_names_it() {
    for text in ["abc", " 33", ",", "90-80,x"] {
        let error = PortList::parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn an_error_says_what_is_wrong() {
    for (text, why) in [
        ("90-80", "reversed"),
        (" 1", "blank"),
        ("70000", "above 65535"),
        ("x", "no number"),
        ("", "missing"),
    ] {
        let error = text.parse::<PortRange>().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn merges_what_overlaps_or_touches() {
    let parsed = PortList::parse("9001,7000-9000,6000-8000,5,65535,1-3,4").unwrap();
    let merged: PortList = parsed.list.merged().into_iter().collect();
    assert_eq!(merged.to_string(), "1-5,6000-9001,65535");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(ranges in prop::collection::vec((any::<u16>(), any::<u16>()), 1..40)) {
        let list: PortList = ranges.iter().filter_map(|&(a, b)| PortRange::new(a.min(b), a.max(b))).collect();
        let parsed = PortList::parse(&list.to_string()).unwrap();
        prop_assert_eq!(&parsed.list, &list);
        prop_assert!(parsed.dropped.is_empty());
    }

    #[test]
    fn merging_keeps_every_port_and_adds_none(ranges in prop::collection::vec((any::<u16>(), 0_u16..300), 1..40), probe: u16) {
        let list: PortList = ranges.iter().filter_map(|&(a, n)| PortRange::new(a, a.saturating_add(n))).collect();
        let merged = list.merged();
        prop_assert_eq!(merged.iter().any(|range| range.contains(probe)), list.contains(probe));
        prop_assert!(merged.windows(2).all(|pair| u32::from(pair[0].last()) + 1 < u32::from(pair[1].first())));
    }

    #[test]
    fn nothing_is_lost_and_nothing_panics(text in ".{0,40}") {
        if let Ok(parsed) = PortList::parse(&text) {
            let entries = if text.is_empty() { 0 } else { text.split(',').count() };
            prop_assert_eq!(parsed.list.ranges().len() + parsed.dropped.len(), entries);
        }
    }
}
