//! A netlink socket to nftables.

use crate::redirect::nft::{Batch, Message, MessageKind, messages};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The kernel answers at once; this only keeps a pod's start from hanging for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Room for the largest batch that port lists can make: 65,536 intervals of two elements.
const SEND_BUFFER: usize = 16 << 20;

/// No listing comes in larger pieces (`NLMSG_GOODSIZE` is 8 KiB, libmnl reads 32 KiB).
const RECEIVE_BUFFER: usize = 64 << 10;

/// How one listing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Whole,
    /// The tables changed meanwhile.
    Interrupted,
}

#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn open() -> io::Result<Self> {
        let protocol = Some(netlink::NETFILTER);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        // Not every container may; then the kernel's own limit holds, which is enough for thousands of ports.
        let _forced = set_socket_send_buffer_size_force(&socket, SEND_BUFFER);
        Ok(Self(socket))
    }

    /// Sends a batch; the kernel takes all of it or none.
    ///
    /// It is the last thing done with a socket: behind an error, answers may be left unread.
    pub(super) fn commit(self, batch: Batch) -> io::Result<()> {
        let (bytes, last) = batch.finish();
        self.send(&bytes)?;
        let mut outcome = None;
        while outcome.is_none() {
            self.receive(|message| {
                if let MessageKind::Outcome(error) = message.kind {
                    // The first error is the cause; a later acknowledgement does not heal it.
                    if error != 0 || message.sequence == last {
                        outcome = outcome.or(Some(error));
                    }
                }
            })?;
        }
        result(outcome.unwrap_or(0))
    }

    /// Asks for a listing and hands on each object of it.
    pub(super) fn list(&self, request: &[u8], mut take: impl FnMut(MessageKind<'_>)) -> io::Result<Listed> {
        self.send(request)?;
        let mut listed = Listed::Whole;
        let mut outcome = None;
        while outcome.is_none() {
            self.receive(|message| match message.kind {
                MessageKind::Outcome(error) | MessageKind::Done(error) => outcome = Some(error),
                MessageKind::Interrupted(done) => {
                    listed = Listed::Interrupted;
                    outcome = outcome.or_else(|| done.then_some(0));
                }
                object @ MessageKind::Object(..) => take(object),
            })?;
        }
        result(outcome.unwrap_or(0)).map(|()| listed)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send(&self.0, bytes, SendFlags::empty())?;
        Ok(())
    }

    fn receive(&self, take: impl FnMut(Message<'_>)) -> io::Result<()> {
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let (length, _) = recv(&self.0, &mut buffer, RecvFlags::empty())?;
        messages(buffer.get(..length).unwrap_or_default()).for_each(take);
        Ok(())
    }
}

fn result(error: i32) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(error).into())
    }
}
