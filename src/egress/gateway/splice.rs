//! Bytes from one connection to another, unread.
//!
//! `tokio::io::copy_bidirectional` holds two buffers for as long as a connection lasts. Here buffers belong to threads: ten
//! thousand connections that are idle have none.

use super::activity::Activity;
use std::cell::RefCell;
use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::task;

/// Bytes that are carried at a time, and kept at most for a receiver that is slow: as many as HAProxy's buffers have.
const BUFFER: usize = 16 << 10;

thread_local! {
    /// One buffer for all connections of a thread: one that is idle costs none.
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// How a direction goes on.
enum Step {
    /// Nothing was there after all.
    Idle,
    /// All that came was written, but for these bytes.
    Left(Vec<u8>),
    /// The sender has said everything.
    End,
}

/// Carries bytes both ways until both sides have said everything. What one side ends, the other is told; a side that does not
/// read holds up the other.
///
/// # Errors
/// As soon as either fails.
pub(super) async fn splice(client: &mut TcpStream, server: &mut TcpStream, activity: &Activity) -> io::Result<()> {
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let there = carry(client_reads, server_writes, activity);
    let back = carry(server_reads, client_writes, activity);
    tokio::try_join!(there, back).map(|_| ())
}

async fn carry(from: ReadHalf<'_>, mut to: WriteHalf<'_>, activity: &Activity) -> io::Result<()> {
    loop {
        // Two fast sides would never let go of the thread.
        task::consume_budget().await;
        from.readable().await?;
        match step(&from, &to)? {
            Step::Idle => {}
            Step::End => break,
            Step::Left(bytes) => {
                activity.touch();
                if !bytes.is_empty() {
                    to.write_all(&bytes).await?;
                }
            }
        }
    }
    activity.half_close();
    match to.shutdown().await {
        // It has gone already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        done => done,
    }
}

fn step(from: &ReadHalf<'_>, to: &WriteHalf<'_>) -> io::Result<Step> {
    let unless_blocked = |done: io::Result<usize>| match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    };
    SHARED.with_borrow_mut(|buffer| {
        let read = match unless_blocked(from.try_read(buffer))? {
            None => return Ok(Step::Idle),
            Some(0) => return Ok(Step::End),
            Some(count) => buffer.get(..count).unwrap_or_default(),
        };
        let written = unless_blocked(to.try_write(read))?.unwrap_or(0);
        Ok(Step::Left(read.get(written..).unwrap_or_default().to_vec()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        (ours.unwrap(), theirs.unwrap().0)
    }

    #[tokio::test]
    async fn every_byte_arrives_and_ends_are_passed_on_one_by_one() {
        let ((mut client, mut inner), (mut outer, mut server)) = (pair().await, pair().await);
        let activity = Activity::new();
        let splicing = splice(&mut inner, &mut outer, &activity);
        let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let asked = async {
            client.write_all(&sent).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answered = async {
            let mut all = Vec::new();
            server.read_to_end(&mut all).await.unwrap();
            // The client is heard no more, and still listens.
            server.write_all(b"done").await.unwrap();
            server.shutdown().await.unwrap();
            all
        };
        let (spliced, answer, got) = tokio::join!(splicing, asked, answered);
        spliced.unwrap();
        assert_eq!(answer, "done");
        assert!(got == sent, "{} bytes", got.len());
    }

    #[tokio::test]
    async fn a_side_that_breaks_off_ends_both() {
        let ((client, mut inner), (mut outer, mut server)) = (pair().await, pair().await);
        client.set_zero_linger().unwrap();
        drop(client);
        let activity = Activity::new();
        assert!(splice(&mut inner, &mut outer, &activity).await.is_err());
        drop(outer);
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
