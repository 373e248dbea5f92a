//! What a master is, and how others hear of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;

/// What a master is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Not running, or waiting for its turn.
    Backup,
    /// Gives tasks to workers.
    Active,
}

/// Says that this master is active, for as long as it exists.
pub(super) struct Active<'m> {
    role: &'m watch::Sender<Role>,
}

impl<'m> Active<'m> {
    pub(super) fn new(role: &'m watch::Sender<Role>) -> Self {
        role.send_replace(Role::Active);
        Active { role }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.role.send_replace(Role::Backup);
    }
}

/// A stream of a master's [`Role`]s: the first at once, then each change; a slow reader sees only
/// the latest.
#[derive(Debug)]
pub struct Roles {
    inner: WatchStream<Role>,
}

impl Roles {
    pub(super) fn new(role: &watch::Sender<Role>) -> Self {
        Roles { inner: WatchStream::new(role.subscribe()) }
    }

    /// The next role; `None` when the master is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Role> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Roles {
    type Item = Role;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Role>> {
        Pin::new(&mut self.inner).poll_next(context)
    }
}
