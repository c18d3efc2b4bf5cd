//! The rules as one nftables table, by netlink.

use super::socket::{Listed, Socket};
use super::{Applied, ApplyError};
use crate::redirect::Redirection;
use crate::redirect::nft::{self, DecodeError, Listing, Table, TableFamily};
use std::io;

/// What people read.
const NAME: &str = "native nftables";

/// How often a listing is begun again because the tables changed meanwhile.
const LISTINGS: usize = 20;

pub(super) fn apply(redirection: &Redirection, family: TableFamily) -> Result<Applied, ApplyError> {
    let wanted = Table::new(redirection, family);
    let before = read()?.table();
    let in_force = |table: &Option<Table>| table.as_ref().is_some_and(|table| table.redirects_alike(&wanted));
    let done = |changed| Applied {
        by: NAME.to_owned(),
        changed,
        warnings: Vec::new(),
    };
    if before.as_ref().is_ok_and(in_force) {
        return Ok(done(false));
    }
    write(&before, &wanted)?;
    let after = read().and_then(|listing| listing.table().map_err(ApplyError::Table));
    if after.as_ref().is_ok_and(in_force) {
        return Ok(done(true));
    }
    let unverified = || ApplyError::Unverified { by: NAME.to_owned() };
    let cause = after.err().unwrap_or_else(unverified);
    Err(match undo(before) {
        Ok(()) => cause,
        Err(undo) => ApplyError::NotUndone {
            cause: Box::new(cause),
            undo: Box::new(undo),
        },
    })
}

pub(super) fn check(redirection: &Redirection, family: TableFamily) -> Result<(), ApplyError> {
    let wanted = Table::new(redirection, family);
    match read()?.table().map_err(ApplyError::Table)? {
        Some(table) if table.redirects_alike(&wanted) => Ok(()),
        Some(_) | None => Err(ApplyError::NotInForce { by: NAME.to_owned() }),
    }
}

pub(super) fn remove() -> Result<(), ApplyError> {
    commit(nft::remove())
}

/// Whether a table of ours has rules for incoming connections; `None` where that may not be asked.
pub(super) fn redirects_inbound() -> Option<bool> {
    let table = read().ok()?.table().ok()?;
    Some(table.is_some_and(|table| !table.rules.inbound.is_empty()))
}

/// Where there is no table, one is made, which is cheaper; a table that came meanwhile is replaced like any other.
fn write(before: &Result<Option<Table>, DecodeError>, wanted: &Table) -> Result<(), ApplyError> {
    let made = matches!(before, Ok(None)) && commit(nft::create(wanted)).is_ok();
    if made { Ok(()) } else { commit(nft::replace(wanted)) }
}

/// Puts back what was there; a table that could not be read cannot be put back and leaves the new one.
fn undo(before: Result<Option<Table>, DecodeError>) -> Result<(), ApplyError> {
    match before {
        Ok(Some(table)) => commit(nft::replace(&table)),
        Ok(None) => commit(nft::remove()),
        Err(_) => Ok(()),
    }
}

fn open() -> Result<Socket, ApplyError> {
    Socket::open().map_err(|why| ApplyError::Netlink {
        action: "open a netlink socket",
        why,
    })
}

fn commit(batch: nft::Batch) -> Result<(), ApplyError> {
    open()?.commit(batch).map_err(|why| ApplyError::Netlink {
        action: "write the rules",
        why,
    })
}

fn read() -> Result<Listing, ApplyError> {
    list(&open()?).map_err(|why| ApplyError::Netlink {
        action: "list the rules",
        why,
    })
}

fn list(socket: &Socket) -> io::Result<Listing> {
    for _ in 0..LISTINGS {
        let mut listing = Listing::default();
        if list_into(socket, &mut listing)? == Listed::Whole {
            return Ok(listing);
        }
    }
    Err(io::Error::other("the tables change all the time"))
}

fn list_into(socket: &Socket, listing: &mut Listing) -> io::Result<Listed> {
    let mut listed = Listed::Whole;
    let mut requests = vec![nft::list_chains()];
    while !requests.is_empty() {
        for request in &requests {
            if socket.list(request, |object| listing.take(object))? == Listed::Interrupted {
                listed = Listed::Interrupted;
            }
        }
        requests = listing.next_requests();
    }
    Ok(listed)
}
