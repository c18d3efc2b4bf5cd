//! The rules as one nftables table, by netlink.

use super::socket::{Listed, Socket};
use super::{Applied, ApplyError};
use crate::redirect::nft::{self, DecodeError, Listing, Table, TableFamily};
use crate::redirect::{Family, Redirection};
use std::io;

/// What people read.
const NAME: &str = "native nftables";

/// How often a listing is begun again because the tables changed meanwhile.
const LISTINGS: usize = 20;

pub(super) fn apply(redirection: &Redirection, family: TableFamily) -> Result<Applied, ApplyError> {
    let wanted = Table::new(redirection, family);
    let socket = open()?;
    let before = read(&socket)?.table();
    let in_force = |table: &Option<Table>| table.as_ref().is_some_and(|table| table.redirects_alike(&wanted));
    if before.as_ref().is_ok_and(in_force) {
        return Ok(Applied {
            by: NAME.to_owned(),
            ..Applied::default()
        });
    }
    write(&socket, &before, &wanted)?;
    let after = read(&socket).and_then(|listing| Ok(listing.table()?));
    if after.as_ref().is_ok_and(in_force) {
        return Ok(Applied {
            by: NAME.to_owned(),
            changed: true,
            ..Applied::default()
        });
    }
    let cause = after.err().unwrap_or_else(|| ApplyError::Unverified {
        by: NAME.to_owned(),
        family: Family::V4,
    });
    Err(match undo(&socket, before) {
        Ok(()) => cause,
        Err(undo) => ApplyError::NotUndone {
            cause: Box::new(cause),
            undo: Box::new(undo),
        },
    })
}

fn write(socket: &Socket, before: &Result<Option<Table>, DecodeError>, wanted: &Table) -> Result<(), ApplyError> {
    if let Ok(None) = before
        && commit(socket, nft::create(wanted)).is_ok()
    {
        return Ok(());
    }
    commit(socket, nft::replace(wanted))
}

pub(super) fn check(redirection: &Redirection, family: TableFamily) -> Result<(), ApplyError> {
    let wanted = Table::new(redirection, family);
    let found = read(&open()?)?.table()?;
    let error = ApplyError::NotInForce {
        by: NAME.to_owned(),
        family: Family::V4,
    };
    if found.is_some_and(|table| table.redirects_alike(&wanted)) {
        Ok(())
    } else {
        Err(error)
    }
}

pub(super) fn remove() -> Result<(), ApplyError> {
    commit(&open()?, nft::remove())
}

/// Whether a table of ours has rules for incoming connections; `None` where that may not be asked.
pub(super) fn redirects_inbound() -> Option<bool> {
    let listing = read(&open().ok()?).ok()?;
    Some(
        listing
            .table()
            .ok()?
            .is_some_and(|table| !table.rules.inbound.is_empty()),
    )
}

/// Puts back what was there; a table that could not be read cannot be put back and leaves the new one.
fn undo(socket: &Socket, before: Result<Option<Table>, DecodeError>) -> Result<(), ApplyError> {
    match before {
        Ok(Some(table)) => commit(socket, nft::replace(&table)),
        Ok(None) => commit(socket, nft::remove()),
        Err(_) => Ok(()),
    }
}

fn open() -> Result<Socket, ApplyError> {
    Socket::open().map_err(|source| ApplyError::Netlink {
        action: "open a netlink socket",
        source,
    })
}

fn commit(socket: &Socket, batch: nft::Batch) -> Result<(), ApplyError> {
    socket.commit(batch).map_err(|source| ApplyError::Netlink {
        action: "write the rules",
        source,
    })
}

fn read(socket: &Socket) -> Result<Listing, ApplyError> {
    list(socket).map_err(|source| ApplyError::Netlink {
        action: "list the rules",
        source,
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
