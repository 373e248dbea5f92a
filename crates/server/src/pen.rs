//! Who may write to a connection's socket. Nearly always the task that owns the connection. But a lone write is
//! answered sooner if the thread that made it durable sends the reply itself than if it wakes the owner first: to
//! wake a thread on an idle core costs as much as the rest of the way.
//!
//! The owner holds the pen whenever it is at work, so whoever gets it finds the owner resting, and what is in
//! the outbox is all that is to be sent next. Counts and order stay with the owner, which is woken afterwards
//! in any case.

use parking_lot::{Mutex, MutexGuard};
use tokio::net::tcp::OwnedWriteHalf;

use crate::outbox::Outbox;

/// The pen of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pen(Mutex<Held>);

/// The pen, in somebody's hand.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// `None` before the connection begins, and when it has ended.
    socket: Option<OwnedWriteHalf>,
    /// The owner has bytes that the socket did not take yet: nobody may go before them.
    pub has_unsent: bool,
}

impl Pen {
    /// The connection begins with this socket.
    pub fn ink(&self, socket: OwnedWriteHalf) {
        self.0.lock().socket = Some(socket);
    }

    /// The connection has ended: its owner closes the socket.
    pub fn put_away(&self) {
        if let Some(socket) = self.0.lock().socket.take() {
            socket.forget();
        }
    }

    /// For the owner.
    pub fn take(&self) -> MutexGuard<'_, Held> {
        self.0.lock()
    }

    /// Sends what is in the outbox, as far as the socket takes it now, if the owner rests. Tells how many bytes
    /// are gone.
    pub fn send(&self, outbox: &Outbox) -> usize {
        let Some(held) = self.0.try_lock() else { return 0 };
        let Some(socket) = held.socket.as_ref().filter(|_| !held.has_unsent) else { return 0 };
        // If that fails the owner will find out.
        outbox.write_out(|bytes| socket.try_write(bytes).unwrap_or(0))
    }
}
