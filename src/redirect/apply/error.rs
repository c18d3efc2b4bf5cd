//! Why rules could not be put in force.

use crate::redirect::iptables::SaveError;
use crate::redirect::nft::DecodeError;
use std::io;
use std::path::PathBuf;

/// Why rules could not be put in force, in one sentence that names the cause.
///
/// The sentence is whole: no error here has a source to be printed behind it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// There is no such network namespace, or it may not be entered.
    #[error("cannot enter the network namespace {path:?}: {why}")]
    Namespace {
        /// Its path.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// The kernel would not take or list a table.
    #[error("native nftables: cannot {action}: {why}{}", hint(why))]
    Netlink {
        /// What was asked.
        action: &'static str,
        /// What it answered.
        why: io::Error,
    },
    /// The table is not what was written here.
    #[error("native nftables: {0}")]
    Table(DecodeError),
    /// No complete set of programs is in PATH.
    #[error(
        "{wanted} is not in PATH, and no other of {looked_for} is there with its -save program; \
         install iptables or use --iptables-mode auto, which needs no program"
    )]
    NoProgram {
        /// The program asked for.
        wanted: String,
        /// The programs that would do.
        looked_for: String,
    },
    /// There is a program to read the tables and none to write them in one commit.
    #[error(
        "{0} is not in PATH, and without it the rules cannot be written in one commit; install it beside the others"
    )]
    NoRestore(String),
    /// A program failed.
    #[error("{program} failed ({status}): {said}")]
    Program {
        /// Which.
        program: String,
        /// How it ended.
        status: String,
        /// What it said, its hints left out.
        said: String,
    },
    /// A program printed what is no table.
    #[error("{program}: {why}")]
    Save {
        /// Which.
        program: String,
        /// What is wrong.
        why: SaveError,
    },
    /// The kernel shows other rules than those written.
    #[error("{by} took the rules, but shows others; something else writes the same chains")]
    Unverified {
        /// By which means they were written.
        by: String,
    },
    /// The old rules could not be put back.
    #[error("{cause}; putting the old rules back failed too: {undo}")]
    NotUndone {
        /// The first error.
        cause: Box<Self>,
        /// The second.
        undo: Box<Self>,
    },
    /// Nothing that could write the rules works.
    #[error("the rules can be written by no means: {causes}")]
    NothingWorks {
        /// What happened with each.
        causes: String,
    },
    /// A check found other rules, or none.
    #[error("{by}: the rules are not in force")]
    NotInForce {
        /// Where it looked.
        by: String,
    },
}

/// What people can do about an error of the kernel.
fn hint(why: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(why) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "; the container needs the NET_ADMIN capability (or a seccomp or SELinux policy forbids netlink)"
        }
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT) => {
            "; the node's kernel lacks a module: nf_tables, nft_chain_nat, nft_redir or nft_meta (Linux 5.2 or later)"
        }
        _ => "",
    }
}
