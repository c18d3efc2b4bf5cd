//! A list of ports: nothing is lost, what is written reads back, and merging changes no port.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outrigger::redirect::PortList;

fuzz_target!(|text: &str| {
    let Ok(parsed) = PortList::parse(text) else { return };
    let entries = if text.is_empty() { 0 } else { text.split(',').count() };
    assert_eq!(parsed.list.ranges().len() + parsed.dropped.len(), entries);
    if !parsed.list.is_empty() {
        let again = PortList::parse(&parsed.list.to_string()).expect("what is written reads back");
        assert_eq!(again.list, parsed.list);
        assert!(again.dropped.is_empty());
    }
    let merged = parsed.list.merged();
    assert!(
        merged
            .windows(2)
            .all(|pair| u32::from(pair[0].last()) + 1 < u32::from(pair[1].first()))
    );
    for range in parsed.list.ranges() {
        assert!(
            merged
                .iter()
                .any(|whole| whole.contains(range.first()) && whole.contains(range.last()))
        );
    }
});
