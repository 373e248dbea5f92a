//! Waits for the next event of a connection: readable or writable socket, output from the core, or
//! a deadline.
//!
//! One future polls all of them, instead of one for each: most waits end at the first poll, and a
//! wait costs no allocation and no lock. The socket is read right here: only a read that knows how much space
//! there was can distinguish an emptied socket from one that may have more, and saves the second read that would
//! only say so.

use std::future::{Future, poll_fn};
use std::io;
use std::task::{Context, Poll};

use tokio::sync::watch;

use super::{Connection, EndReason, Stage};
use crate::clients::wire::Wire;

impl Connection {
    /// Waits until there is something to do. Bytes that were received meanwhile are in the intake.
    pub(super) async fn wait(&mut self) -> Result<(), EndReason> {
        if !self.may_read() {
            self.leave_queue_for_room();
        }
        if self.may_read() || self.has_unsent() {
            poll_fn(|context| self.poll_wait(context)).await
        } else {
            self.wait_for_core().await
        }
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        if self.may_read()
            && self.poll_room(context).is_ready()
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(read);
        }
        if self.has_unsent()
            && let Poll::Ready(writable) = self.wire.poll_write_ready(context)
        {
            return Poll::Ready(writable.map_err(EndReason::from));
        }
        let outbox = &self.client.outbox;
        let told = match self.is_output_full() {
            true => outbox.poll_close(context),
            false => outbox.poll_filled(context),
        };
        if told.is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_deadline(context)
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let room = self.intake.room();
        let read = self.wire.poll_read(context, room);
        if read.is_pending() {
            self.intake.rest();
        }
        Poll::Ready(match std::task::ready!(read) {
            Ok(0) => Err(EndReason::ByClient),
            Ok(count) => {
                self.shared.core.stats.bytes_received.add(count as u64);
                self.waiting_since_us = None;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        })
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        deadline.as_mut().poll(context).map(|()| self.patience_ended())
    }

    /// A connect request that has waited too long for a role is answered by the core.
    fn patience_ended(&mut self) -> Result<(), EndReason> {
        match self.stage {
            Stage::AwaitingRole => Ok(()),
            _ => Err(self.ended.take().unwrap_or(EndReason::Sessionless)),
        }
    }

    /// Waits for the core only: nothing is read or written, but a disconnect of the client is noticed.
    async fn wait_for_core(&mut self) -> Result<(), EndReason> {
        tokio::select! {
            biased;
            gone = gone(&self.wire, self.stage) => Err(gone.err().map_or(EndReason::ByClient, EndReason::Io)),
            () = self.client.outbox.filled() => Ok(()),
            () = until_change(self.role_changes.as_mut()) => Ok(()),
            () = until(self.deadline.as_mut()) => self.patience_ended(),
        }
    }
}

/// Waits until the client has disconnected. A client that waits for a role would get a session afterwards, which must
/// not be created if it is gone.
async fn gone(wire: &Wire, stage: Stage) -> io::Result<()> {
    match stage {
        Stage::AwaitingRole => wire.closed().await,
        _ => wire.gone().await,
    }
}

async fn until<F: Future<Output = ()> + Unpin>(deadline: Option<F>) {
    match deadline {
        Some(deadline) => deadline.await,
        None => std::future::pending().await,
    }
}

async fn until_change<T>(changes: Option<&mut watch::Receiver<T>>) {
    match changes {
        Some(changes) => _ = changes.changed().await,
        None => std::future::pending().await,
    }
}
