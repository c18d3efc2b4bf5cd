//! The rules in the nat tables of iptables, and the fence in its filter tables, by its programs.

use super::programs::{Back, Programs};
use super::{Applied, ApplyError, Options, Wait, families, has_ipv6_address};
use crate::redirect::iptables::{Lines, SavedTables, restore, wanted};
use crate::redirect::{Family, Redirection, RuleSet};

/// How often a change is planned anew because something else changed the table meanwhile.
const ATTEMPTS: usize = 5;

/// The tables of one family and what was in them.
struct Nat {
    family: Family,
    programs: Programs,
    before: SavedTables,
    filter: Filter,
    wait: Wait,
}

/// Whether the filter table is looked at. Doing so makes one, and needs the kernel to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    /// A fence is wanted.
    Fenced,
    /// None is wanted, but one may be there: there is none without redirection.
    WithRedirection,
    /// None is wanted and none is there.
    Unfenced,
}

impl Filter {
    const fn of(redirection: &Redirection) -> Self {
        match redirection.fence {
            Some(_) => Self::Fenced,
            None => Self::WithRedirection,
        }
    }
}

pub(super) fn apply(redirection: &Redirection, back: Back, options: Options) -> Result<Applied, ApplyError> {
    let mut warnings = Vec::new();
    let mut find = |family| {
        let (programs, warning) = Programs::find(back, family)?;
        warnings.extend(warning);
        Ok(programs)
    };
    let nats = open_all((options, Filter::of(redirection)), &mut find)?;
    change_all(redirection, nats, warnings)
}

/// As [`apply`], but without looking for another back end.
pub(super) fn apply_exactly(redirection: &Redirection, back: Back, options: Options) -> Result<Applied, ApplyError> {
    let nats = open_all((options, Filter::of(redirection)), &mut |family| {
        Programs::exactly(back, family)
    })?;
    change_all(redirection, nats, Vec::new())
}

pub(super) fn check(redirection: &Redirection, back: Back, options: Options) -> Result<(), ApplyError> {
    let nats = open_all((options, Filter::of(redirection)), &mut |family| {
        Programs::find(back, family).map(|(programs, _)| programs)
    })?;
    match nats
        .nats
        .iter()
        .find(|nat| !nat.before.enforces(&redirection.iptables_rules(nat.family)))
    {
        Some(nat) => Err(ApplyError::NotInForce {
            by: nat.programs.name.clone(),
        }),
        None => Ok(()),
    }
}

pub(super) fn remove(back: Back, options: Options) -> Result<(), ApplyError> {
    let nats = open_all((options, Filter::WithRedirection), &mut |family| {
        Programs::find(back, family).map(|(programs, _)| programs)
    })?;
    nats.nats.iter().try_for_each(|nat| nat.put(&Lines::default()))
}

/// Whether the IPv4 table redirects incoming connections; `None` where that may not be asked.
pub(super) fn redirects_inbound(back: Back) -> Option<bool> {
    let programs = Programs::exactly(back, Family::V4).ok()?;
    let nat = Nat::open(Family::V4, programs, (Filter::Unfenced, Wait::Usual)).ok()?;
    Some(nat.before.reaches_inbound_chain())
}

/// The tables that are there, and what people should know of those that are not.
struct Nats {
    nats: Vec<Nat>,
    warnings: Vec<String>,
}

/// Reads every table before one is touched.
fn open_all(
    (options, filter): (Options, Filter),
    find: &mut dyn FnMut(Family) -> Result<Programs, ApplyError>,
) -> Result<Nats, ApplyError> {
    let mut nats = Nats {
        nats: Vec::new(),
        warnings: Vec::new(),
    };
    for &family in families(options.ipv6) {
        match find(family).and_then(|programs| Nat::open(family, programs, (filter, options.wait))) {
            Ok(nat) => nats.nats.push(nat),
            Err(error) => nats.warnings.push(dispense(family, error)?),
        }
    }
    Ok(nats)
}

fn change_all(redirection: &Redirection, nats: Nats, mut warnings: Vec<String>) -> Result<Applied, ApplyError> {
    let Nats { nats, warnings: more } = nats;
    warnings.extend(more);
    let mut changed = false;
    for (index, nat) in nats.iter().enumerate() {
        match nat.change(&redirection.iptables_rules(nat.family)) {
            Ok(one) => changed |= one,
            Err(cause) => match dispense(nat.family, cause) {
                Ok(warning) => {
                    // That of the table before may be there.
                    if nat.filter == Filter::Fenced {
                        nat.put(nat.before.lines())?;
                    }
                    warnings.push(warning);
                }
                Err(cause) => return Err(undo_all(nats.get(..=index).unwrap_or_default(), cause)),
            },
        }
        let narrow = |jump: &str| format!("{}: only what this matches is redirected: {jump}", nat.programs.name);
        warnings.extend(nat.before.narrow_jumps().map(narrow));
    }
    let by = nats.first().map(|nat| nat.programs.name.clone()).unwrap_or_default();
    Ok(Applied { by, changed, warnings })
}

/// Makes a warning of an error that costs nothing: connections of a family without addresses cannot bypass its rules.
fn dispense(family: Family, error: ApplyError) -> Result<String, ApplyError> {
    let needless = matches!(error, ApplyError::Program { .. }) && family == Family::V6 && !has_ipv6_address();
    let warning = || format!("no IPv6 rules, and no IPv6 address that would need them: {error}");
    if needless { Ok(warning()) } else { Err(error) }
}

fn undo_all(nats: &[Nat], cause: ApplyError) -> ApplyError {
    let failed = nats.iter().rev().find_map(|nat| nat.put(nat.before.lines()).err());
    match failed {
        Some(undo) => ApplyError::NotUndone {
            cause: Box::new(cause),
            undo: Box::new(undo),
        },
        None => cause,
    }
}

impl Nat {
    fn open(family: Family, programs: Programs, (filter, wait): (Filter, Wait)) -> Result<Self, ApplyError> {
        let before = read(&programs, filter)?;
        let without = filter == Filter::WithRedirection && !before.is_ours();
        Ok(Self {
            family,
            programs,
            before,
            filter: if without { Filter::Unfenced } else { filter },
            wait,
        })
    }

    /// Puts the rules in force; whether anything had to be changed for it.
    fn change(&self, rules: &RuleSet) -> Result<bool, ApplyError> {
        let mut now = self.before.clone();
        let mut outcome = Ok(());
        for attempt in 0..ATTEMPTS {
            if now.enforces(rules) {
                return Ok(attempt > 0);
            }
            outcome = self
                .programs
                .restore(&restore(now.lines(), &wanted(rules, &now)), self.wait);
            let after = read(&self.programs, self.filter)?;
            if outcome.is_err() && after == now {
                break;
            }
            now = after;
        }
        outcome?;
        if now.enforces(rules) {
            return Ok(true);
        }
        Err(ApplyError::Unverified {
            by: self.programs.name.clone(),
        })
    }

    /// Puts our part of the table into a state.
    fn put(&self, lines: &Lines) -> Result<(), ApplyError> {
        let now = read(&self.programs, self.filter)?;
        if now.lines() == lines {
            return Ok(());
        }
        self.programs.restore(&restore(now.lines(), lines), self.wait)
    }
}

fn read(programs: &Programs, filter: Filter) -> Result<SavedTables, ApplyError> {
    let parse = |text: &str| {
        SavedTables::parse(text).map_err(|why| ApplyError::Save {
            program: programs.save_name().to_owned(),
            why,
        })
    };
    let mut text = programs.save("nat")?;
    let nat = parse(&text)?;
    match filter {
        Filter::Fenced => text += &programs.save("filter")?,
        // A kernel without that table has no fence.
        Filter::WithRedirection if nat.is_ours() => text += &programs.save("filter").unwrap_or_default(),
        Filter::WithRedirection | Filter::Unfenced => return Ok(nat),
    }
    parse(&text)
}
