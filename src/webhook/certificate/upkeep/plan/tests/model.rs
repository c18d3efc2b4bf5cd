//! A model of a cluster: replicas that look, and act later on what they saw; time that passes; hands that meddle.

use super::*;
use proptest::prelude::*;

/// How long it takes in the model until a pair is settled, and for how long an API server may be behind.
const SETTLE: i64 = 120;

/// A pair of the model. Its authority has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    id: u8,
    begin: i64,
    end: i64,
    /// Whether its authority is in the Secret.
    known: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Empty,
    Garbage,
    Pair(Made),
}

/// Authorities, and when each ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bundle {
    authorities: Vec<(u8, i64)>,
    junk: bool,
}

/// The objects, each with its version.
#[derive(Clone, Debug, Default)]
struct Stored {
    /// Nothing where there is no Secret.
    secret: Option<(Slot, Slot)>,
    secret_version: u32,
    bundle: Bundle,
    bundle_version: u32,
}

struct Replica {
    confidence: Confidence,
    shown: Option<Made>,
    /// What it saw, and what it is going to do.
    intent: Option<(Stored, Step)>,
}

struct World {
    now: i64,
    count: u8,
    stored: Stored,
    /// The bundles of the past, and since when each was in force.
    history: Vec<(i64, Bundle)>,
    replicas: [Replica; 3],
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Look(usize),
    Act(usize),
    Restart(usize),
    Tick(i64),
    /// Days, after which every replica has looked and acted.
    Pass(i64),
    DeleteSecret,
    GarbleCurrent,
    GarbleNext,
    EmptyBundle,
    JunkBundle,
    /// Somebody's own pair, with or without its authority.
    Give(bool),
}

impl Bundle {
    fn has(&self, pair: &Made) -> bool {
        self.authorities.iter().any(|(id, _)| *id == pair.id)
    }

    fn completed(&self, (current, next): (Slot, Slot), now: i64) -> Self {
        let ours = [current, next].into_iter().filter_map(|slot| match slot {
            Slot::Pair(pair) => pair.known.then_some((pair.id, pair.end)),
            Slot::Empty | Slot::Garbage => None,
        });
        let mut authorities = self.authorities.clone();
        for authority in ours {
            if !authorities.contains(&authority) {
                authorities.push(authority);
            }
        }
        authorities.retain(|(_, end)| now < *end);
        Self {
            authorities,
            junk: false,
        }
    }
}

impl Replica {
    fn new() -> Self {
        Self {
            confidence: Confidence::new(Duration::from_secs(SETTLE.unsigned_abs())),
            shown: None,
            intent: None,
        }
    }

    fn look(&mut self, stored: &Stored, now: i64) {
        let at = Duration::from_secs(now.unsigned_abs());
        let (current, next) = stored.secret.unwrap_or_default();
        let pairs = [current, next].into_iter().filter_map(|slot| match slot {
            Slot::Pair(pair) => Some(pair),
            Slot::Empty | Slot::Garbage => None,
        });
        let trusted: Vec<_> = pairs
            .chain(self.shown)
            .filter(|pair| stored.bundle.has(pair) && pair.begin <= now)
            .map(|pair| [pair.id; 32])
            .collect();
        self.confidence.note(&trusted, at);
        let seen = |pair: &Made| Pair {
            id: [pair.id; 32],
            begin: pair.begin,
            end: pair.end,
            trust: match trusted.contains(&[pair.id; 32]) {
                true => self.confidence.trust(&[pair.id; 32], at),
                false => Trust::Missing,
            },
        };
        let place = |slot| match slot {
            Slot::Empty => Place::Empty,
            Slot::Garbage => Place::Unusable,
            Slot::Pair(pair) => Place::Usable(seen(&pair)),
        };
        let lacking = stored.bundle.completed((current, next), now) != stored.bundle;
        let step = next_step(&Seen {
            now,
            current: place(current),
            next: place(next),
            bundles: if lacking { Bundles::Lacking } else { Bundles::Complete },
        });
        if let Slot::Pair(pair) = current
            && takes_over(self.shown.as_ref().map(seen).as_ref(), &seen(&pair), now)
        {
            self.shown = Some(pair);
        }
        self.intent = Some((stored.clone(), step));
    }
}

impl World {
    fn new(now: i64) -> Self {
        Self {
            now,
            count: 0,
            stored: Stored::default(),
            history: Vec::new(),
            replicas: [Replica::new(), Replica::new(), Replica::new()],
        }
    }

    fn made(&mut self, begin: i64, end: i64, known: bool) -> Slot {
        self.count += 1;
        Slot::Pair(Made {
            id: self.count,
            begin,
            end,
            known,
        })
    }

    fn write_secret(&mut self, secret: Option<(Slot, Slot)>) {
        self.stored.secret = secret;
        self.stored.secret_version += 1;
    }

    fn write_bundle(&mut self, bundle: Bundle) {
        self.history.push((self.now, self.stored.bundle.clone()));
        self.stored.bundle = bundle;
        self.stored.bundle_version += 1;
    }

    /// Does what the replica had in mind; the API server refuses it where something has changed since.
    fn act(&mut self, replica: usize) {
        let Some((seen, step)) = self.replicas[replica].intent.take() else {
            return;
        };
        if step == Step::Publish {
            if seen.bundle_version == self.stored.bundle_version {
                let secret = seen.secret.unwrap_or_default();
                self.write_bundle(seen.bundle.completed(secret, self.now));
            }
            return;
        }
        if seen.secret_version != self.stored.secret_version {
            return;
        }
        let (current, next) = seen.secret.unwrap_or_default();
        let secret = match step {
            Step::Make => (self.made(self.now, self.now + LIFE, true), Slot::Empty),
            Step::Stage => (current, self.made(self.now, self.now + LIFE, true)),
            Step::Promote => (next, Slot::Empty),
            Step::Publish | Step::Rest | Step::Leave => return,
        };
        self.write_secret(Some(secret));
    }

    fn look(&mut self, replica: usize) {
        self.replicas[replica].look(&self.stored, self.now);
    }

    /// Every replica looks and acts, often enough for one rotation.
    fn work(&mut self) {
        for _ in 0..6 {
            for replica in 0..self.replicas.len() {
                self.look(replica);
                self.act(replica);
            }
            self.now += SETTLE / 2;
        }
    }

    fn apply(&mut self, action: Action) {
        let (current, next) = self.stored.secret.unwrap_or_default();
        match action {
            Action::Look(replica) => self.look(replica),
            Action::Act(replica) => self.act(replica),
            Action::Restart(replica) => self.replicas[replica] = Replica::new(),
            Action::Tick(seconds) => self.now += seconds,
            Action::Pass(days) => {
                self.now += days * DAY;
                self.work();
            }
            Action::DeleteSecret => self.write_secret(None),
            Action::GarbleCurrent => self.write_secret(Some((Slot::Garbage, next))),
            Action::GarbleNext => self.write_secret(Some((current, Slot::Garbage))),
            Action::EmptyBundle => self.write_bundle(Bundle::default()),
            Action::JunkBundle => self.write_bundle(Bundle {
                authorities: vec![(0, self.now + DAY)],
                junk: true,
            }),
            Action::Give(known) => {
                let given = self.made(self.now - DAY, self.now + 10 * DAY, known);
                self.write_secret(Some((given, next)));
            }
        }
    }

    /// Whether every API server takes what each replica shows, though it may have heard last of what was in force a while ago.
    fn is_served(&self) -> bool {
        let recent = self.history.iter().filter(|(until, _)| self.now - until < SETTLE);
        let bundles: Vec<_> = recent.map(|(_, bundle)| bundle).chain([&self.stored.bundle]).collect();
        let shown = self.replicas.iter().filter_map(|replica| replica.shown);
        shown
            .into_iter()
            .all(|pair| self.now < pair.end && bundles.iter().all(|bundle| bundle.has(&pair)))
    }

    /// Whether nothing is left to do, and all replicas show what is in the Secret.
    fn is_at_rest(&mut self) -> bool {
        (0..self.replicas.len()).for_each(|replica| self.look(replica));
        let current = self.stored.secret.map(|(current, _)| current);
        self.replicas.iter().all(|replica| {
            let rests = matches!(replica.intent, Some((_, Step::Rest)));
            rests && replica.shown.map(Slot::Pair) == current
        })
    }
}

fn harmless() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Action::Look),
        4 => (0..3_usize).prop_map(Action::Act),
        1 => (0..3_usize).prop_map(Action::Restart),
        2 => (0..200_i64).prop_map(Action::Tick),
        2 => (0..10_i64).prop_map(Action::Pass),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => harmless(),
        1 => Just(Action::DeleteSecret),
        1 => Just(Action::GarbleCurrent),
        1 => Just(Action::GarbleNext),
        1 => Just(Action::EmptyBundle),
        1 => Just(Action::JunkBundle),
        1 => any::<bool>().prop_map(Action::Give),
        1 => (0..200_i64).prop_map(Action::Pass),
    ]
}

fn slot() -> impl Strategy<Value = Option<(i64, i64, bool)>> {
    prop::option::of((-100..100_i64, 0..200_i64, any::<bool>()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_replicas_show_is_taken_by_every_api_server_at_every_moment(
        actions in prop::collection::vec(harmless(), 1..120),
    ) {
        let mut world = World::new(1000 * DAY);
        world.work();
        world.now += SETTLE;
        prop_assert!(world.is_at_rest());
        for action in actions {
            world.apply(action);
            prop_assert!(world.is_served(), "after {action:?}: {:?} {:?}", world.stored,
                world.replicas.iter().map(|replica| replica.shown).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_deleted_or_damaged_secret_disturbs_nobody_who_knows_what_was_in_it(
        actions in prop::collection::vec(prop_oneof![
            3 => (0..3_usize).prop_map(Action::Look),
            3 => (0..3_usize).prop_map(Action::Act),
            1 => Just(Action::DeleteSecret),
            1 => Just(Action::GarbleCurrent),
            1 => Just(Action::GarbleNext),
            1 => any::<bool>().prop_map(Action::Give),
            1 => (0..200_i64).prop_map(Action::Tick),
        ], 1..80),
    ) {
        let mut world = World::new(1000 * DAY);
        world.work();
        for action in actions {
            world.apply(action);
            prop_assert!(world.is_served(), "after {action:?}");
        }
    }

    #[test]
    fn everything_comes_to_rest_whatever_has_happened(
        current in slot(),
        next in slot(),
        actions in prop::collection::vec(any_action(), 0..60),
    ) {
        let mut world = World::new(1000 * DAY);
        let mut given = |slot: Option<(i64, i64, bool)>| slot.map_or(Slot::Garbage, |(begin, life, known)| {
            let begin = world.now + begin * DAY;
            world.made(begin, begin + life * DAY, known)
        });
        let secret = (given(current), given(next));
        world.write_secret(Some(secret));
        for action in actions {
            world.apply(action);
        }
        for _ in 0..6 {
            world.work();
        }
        prop_assert!(world.is_at_rest(), "{:?}", world.stored);
        world.now += SETTLE;
        prop_assert!(world.is_served(), "{:?}", world.stored);
    }
}
