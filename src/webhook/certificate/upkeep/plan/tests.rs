use super::*;

mod model;

const DAY: i64 = 86_400;

/// A pair that begins at 0, and was made for `life` days.
fn pair(id: u8, life: i64, trust: Trust) -> Place {
    Place::Usable(Pair {
        id: [id; 32],
        begin: 0,
        end: life * DAY,
        trust,
    })
}

/// What is to be done at the beginning of `day`.
fn step(day: i64, current: Place, next: Place, bundles: Bundles) -> Step {
    let now = day * DAY;
    next_step(&Seen {
        now,
        current,
        next,
        bundles,
    })
}

#[test]
fn what_is_of_no_use_is_replaced_at_once() {
    let waiting = pair(2, 180, Trust::New);
    for useless in [
        Place::Empty,
        Place::Unusable,
        pair(1, 90, Trust::Settled),
        pair(1, 90, Trust::Missing),
    ] {
        for bundles in [Bundles::Closed, Bundles::Complete, Bundles::Lacking] {
            assert_eq!(step(90, useless, Place::Empty, bundles), Step::Make);
            assert_eq!(step(90, useless, Place::Unusable, bundles), Step::Make);
            assert_eq!(step(90, useless, pair(2, 90, Trust::Settled), bundles), Step::Make);
            assert_eq!(step(90, useless, waiting, bundles), Step::Promote);
        }
    }
    // An hour before its end it is of no use any more.
    let last = |seconds| {
        next_step(&Seen {
            now: 90 * DAY - seconds,
            current: pair(1, 90, Trust::Settled),
            next: Place::Empty,
            bundles: Bundles::Closed,
        })
    };
    assert_eq!((last(MARGIN + 1), last(MARGIN)), (Step::Stage, Step::Make));
}

#[test]
fn what_is_foreign_is_left_alone() {
    for next in [Place::Empty, pair(2, 90, Trust::Settled)] {
        assert_eq!(step(0, Place::Foreign, next, Bundles::Lacking), Step::Leave);
    }
}

#[test]
fn another_is_made_after_two_thirds_of_a_life_and_used_once_it_is_settled() {
    let current = pair(1, 90, Trust::Settled);
    let next = |trust| pair(2, 150, trust);
    let table = [
        (59, Place::Empty, Bundles::Complete, Step::Rest),
        (59, Place::Unusable, Bundles::Complete, Step::Rest),
        (59, Place::Empty, Bundles::Lacking, Step::Publish),
        (60, Place::Empty, Bundles::Complete, Step::Stage),
        (60, Place::Empty, Bundles::Closed, Step::Stage),
        (60, Place::Unusable, Bundles::Complete, Step::Stage),
        (60, next(Trust::Missing), Bundles::Lacking, Step::Publish),
        (60, next(Trust::New), Bundles::Complete, Step::Rest),
        (60, next(Trust::Settled), Bundles::Complete, Step::Promote),
        // Where others fill the bundles in, it waits for them.
        (60, next(Trust::Missing), Bundles::Closed, Step::Rest),
        (60, next(Trust::Unknown), Bundles::Closed, Step::Rest),
        (60, next(Trust::Settled), Bundles::Closed, Step::Promote),
        // One that nobody will ever trust is replaced.
        (60, next(Trust::Missing), Bundles::Complete, Step::Stage),
        (59, next(Trust::Missing), Bundles::Complete, Step::Rest),
        // One that somebody put there is used, too.
        (10, next(Trust::Settled), Bundles::Complete, Step::Promote),
    ];
    for (day, next, bundles, expected) in table {
        assert_eq!(
            step(day, current, next, bundles),
            expected,
            "day {day}, {next:?}, {bundles:?}"
        );
    }
}

#[test]
fn one_whose_authority_nobody_knows_is_replaced_as_soon_as_another_is_trusted() {
    let lost = pair(1, 90, Trust::Missing);
    assert_eq!(step(1, lost, Place::Empty, Bundles::Complete), Step::Stage);
    assert_eq!(
        step(1, lost, pair(2, 90, Trust::Missing), Bundles::Lacking),
        Step::Publish
    );
    assert_eq!(step(1, lost, pair(2, 90, Trust::New), Bundles::Complete), Step::Promote);
    // Where bundles cannot be read, or are not ours, it may be all right.
    assert_eq!(step(1, lost, Place::Empty, Bundles::Closed), Step::Rest);
    assert_eq!(
        step(1, pair(1, 90, Trust::Unknown), Place::Empty, Bundles::Closed),
        Step::Rest
    );
}

#[test]
fn one_that_begins_in_the_future_is_replaced_without_haste() {
    let current = pair(1, 90, Trust::Missing);
    assert_eq!(step(-1, current, Place::Empty, Bundles::Closed), Step::Stage);
    assert_eq!(step(0, current, Place::Empty, Bundles::Closed), Step::Rest);
}

#[test]
fn a_good_pair_is_given_up_only_for_one_that_is_settled() {
    let of = |id, trust| Pair {
        id: [id; 32],
        begin: 0,
        end: 90 * DAY,
        trust,
    };
    for (shown, current, expected) in [
        (Trust::Settled, Trust::Missing, false),
        (Trust::Settled, Trust::New, false),
        (Trust::New, Trust::New, false),
        (Trust::Settled, Trust::Settled, true),
        (Trust::Unknown, Trust::Unknown, false),
        (Trust::Missing, Trust::Missing, true),
        (Trust::Missing, Trust::New, true),
    ] {
        let (shown, current) = (of(1, shown), of(2, current));
        assert_eq!(
            takes_over(Some(&shown), &current, DAY),
            expected,
            "{shown:?} {current:?}"
        );
        assert!(takes_over(Some(&shown), &current, 90 * DAY), "it has ended");
        assert!(
            !takes_over(Some(&shown), &shown, 90 * DAY),
            "there is nothing to change"
        );
        assert!(takes_over(None, &current, DAY));
    }
}

#[test]
fn what_is_not_vouched_for_any_more_has_to_settle_anew() {
    let at = Duration::from_secs;
    let mut confidence = Confidence::new(at(100));
    let (one, two) = ([1; 32], [2; 32]);
    assert_eq!(confidence.pending(at(0)), None);
    confidence.note(&[one], at(10));
    confidence.note(&[one, two], at(60));
    assert_eq!(confidence.trust(&one, at(109)), Trust::New);
    assert_eq!(confidence.pending(at(109)), Some(at(1)));
    assert_eq!(confidence.trust(&one, at(110)), Trust::Settled);
    assert_eq!(confidence.pending(at(110)), Some(at(50)));
    confidence.note(&[two], at(120));
    confidence.note(&[one, two], at(130));
    assert_eq!(confidence.trust(&one, at(200)), Trust::New);
    assert_eq!(confidence.trust(&two, at(200)), Trust::Settled);
}
