//! A list of subnets: what is written reads back, and every subnet is of one family.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outrigger::redirect::{Family, SubnetList};

fuzz_target!(|text: &str| {
    let Ok(list) = SubnetList::parse(text) else { return };
    assert_eq!(SubnetList::parse(&list.to_string()).as_ref(), Ok(&list));
    assert_eq!(
        list.of(Family::V4).count() + list.of(Family::V6).count(),
        list.iter().count()
    );
    assert!(list.iter().all(|subnet| subnet.net().trunc() == subnet.net()));
});
