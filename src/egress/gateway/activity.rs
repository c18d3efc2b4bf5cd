//! How long a connection has been silent, and streams that note when it is not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// When anything last came from either side of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    begin: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
    is_half_closed: AtomicBool,
}

impl Default for Activity {
    fn default() -> Self {
        Self::new()
    }
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            last: AtomicU64::new(0),
            is_half_closed: AtomicBool::new(false),
        }
    }

    /// Notes that something came.
    pub(super) fn touch(&self) {
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Notes that one side has said all that it will: the other may still have long to think.
    pub(super) fn half_close(&self) {
        self.is_half_closed.store(true, Ordering::Relaxed);
        self.touch();
    }

    /// Waits until nothing has come for `idle`; twice as long where one side only listens.
    pub(super) async fn silence(&self, idle: Duration) {
        loop {
            let idle = match self.is_half_closed.load(Ordering::Relaxed) {
                true => idle * 2,
                false => idle,
            };
            let due = self.begin + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// A stream that notes what comes, after bytes that came before.
#[derive(Debug)]
pub(super) struct Noted<S> {
    before: Vec<u8>,
    /// How many of those were read.
    read: usize,
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Noted<S> {
    /// `stream`, which begins with the bytes that were read of it `before`.
    pub(super) fn new(before: Vec<u8>, stream: S, activity: Arc<Activity>) -> Self {
        Self {
            before,
            read: 0,
            stream,
            activity,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = this.before.get(this.read..).unwrap_or_default();
        if !left.is_empty() {
            let now = left.get(..buffer.remaining()).unwrap_or(left);
            buffer.put_slice(now);
            this.read += now.len();
            if this.read == this.before.len() {
                this.before = Vec::new();
                this.read = 0;
            }
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            this.activity.touch();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_came_before_is_read_first() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b" world").await.unwrap();
        drop(theirs);
        let mut noted = Noted::new(b"hello".to_vec(), ours, Arc::new(Activity::new()));
        let mut three = [0; 3];
        noted.read_exact(&mut three).await.unwrap();
        let mut rest = String::new();
        noted.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&three[..], &rest[..]), (&b"hel"[..], "lo world"));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_from_the_last_byte_and_longer_where_half_is_closed() {
        let (activity, begin) = (Activity::new(), Instant::now());
        let idle = Duration::from_secs(10);
        let touched = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            activity.touch();
        };
        tokio::join!(activity.silence(idle), touched);
        assert_eq!(begin.elapsed().as_secs(), 17);
        activity.half_close();
        activity.silence(idle).await;
        assert_eq!(begin.elapsed().as_secs(), 37);
    }
}
