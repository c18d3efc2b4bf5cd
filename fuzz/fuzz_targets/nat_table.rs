//! What iptables-save shows: any text is read, and what is then wanted is in force once it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outrigger::redirect::iptables::{SavedTables, restore, wanted};
use outrigger::redirect::{Family, Redirection};

fuzz_target!(|text: &str| {
    let Ok(table) = SavedTables::parse(text) else { return };
    let rules = Redirection {
        inbound_port: 4143,
        outbound_port: 4140,
        proxy_uid: Some(2102),
        ..Redirection::default()
    };
    let rules = rules.iptables_rules(Family::V4);
    let lines = wanted(&rules, &table);
    let written = restore(table.lines(), &lines);
    assert!(written.starts_with("*nat\n") && written.ends_with("COMMIT\n"));
    if table.enforces(&rules) {
        assert!(table.rules().is_some_and(|shown| shown.redirects_alike(&rules)));
    }
    // From nothing, the whole of it is written: then it is read as wanted.
    let whole = SavedTables::parse(&restore(SavedTables::default().lines(), &lines)).expect("what is written is whole");
    assert!(whole.enforces(&rules));
});
