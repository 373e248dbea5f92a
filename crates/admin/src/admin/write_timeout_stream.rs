//! A stream that fails when the client reads its response too slowly.
//!
//! The timeout starts when something cannot be written, and ends when [`TAKEN_BYTES_MIN`] more are written
//! or nothing is left to write. So a client that reads only a byte from time to time loses its connection
//! and frees its response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::Connection;

/// The bytes that the client must read within the timeout, if there are as many.
const TAKEN_BYTES_MIN: usize = 16 << 10;

pub(super) struct WriteTimeoutStream<S> {
    stream: S,
    /// No limit if zero.
    timeout: Duration,
    connection: Arc<Connection>,
    waiting: Option<PendingWrite>,
}

/// A write that could not be completed.
struct PendingWrite {
    deadline: Pin<Box<Sleep>>,
    taken: usize,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S, timeout: Duration, connection: Arc<Connection>) -> Self {
        WriteTimeoutStream { stream, timeout, connection, waiting: None }
    }

    fn end_waiting(&mut self) {
        if self.waiting.take().is_some() {
            self.connection.set_blocked(false);
        }
    }

    fn note_taken(&mut self, bytes: usize) {
        let Some(waiting) = &mut self.waiting else { return };
        waiting.taken += bytes;
        if waiting.taken >= TAKEN_BYTES_MIN {
            self.end_waiting();
        }
    }

    /// Continues to wait, or fails if the timeout has expired.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.waiting.is_none() {
            self.connection.set_blocked(true);
        }
        let timeout = self.timeout;
        let waiting = self.waiting.get_or_insert_with(|| PendingWrite {
            deadline: Box::pin(sleep_until(Instant::now() + timeout)),
            taken: 0,
        });
        if timeout.is_zero() || waiting.deadline.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "timed out: the client reads too slowly",
        )))
    }

    fn after_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.wait(context),
            Poll::Ready(Ok(bytes)) => {
                self.note_taken(bytes);
                written
            }
            Poll::Ready(Err(_)) => written,
        }
    }

    fn after_flush(
        &mut self,
        context: &mut Context<'_>,
        flushed: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if flushed.is_pending() {
            return self.wait(context);
        }
        self.end_waiting();
        flushed
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.after_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.after_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.after_flush(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.after_flush(context, shut_down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::connections::Connections;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn pair() -> (WriteTimeoutStream<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(64);
        let connection = Connections::new(1).admit(Ipv4Addr::LOCALHOST.into()).unwrap();
        (WriteTimeoutStream::new(near, TIMEOUT, connection), far)
    }

    /// Writes much to a reader that takes this many bytes every ten seconds.
    async fn write_to_reader_of(bytes_at_once: usize) -> io::Result<()> {
        let (mut near, mut far) = pair();
        let reads = async {
            let mut piece = vec![0; bytes_at_once];
            while far.read_exact(&mut piece).await.is_ok() {
                tokio::time::sleep(TIMEOUT / 3).await;
            }
        };
        tokio::select! {
            written = near.write_all(&[0; 1 << 20]) => written,
            () = reads => unreachable!("the writer is not dropped"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_single_bytes_is_too_slow() {
        let error = write_to_reader_of(1).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        write_to_reader_of(TAKEN_BYTES_MIN).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_between_two_responses_does_not_count() {
        let (mut near, mut far) = pair();
        for _ in 0..3 {
            let (written, _) = tokio::join!(
                async {
                    near.write_all(&[0; 100]).await?;
                    near.flush().await
                },
                async { far.read_exact(&mut [0; 100]).await.unwrap() },
            );
            written.unwrap();
            tokio::time::sleep(TIMEOUT * 2).await;
        }
    }
}
