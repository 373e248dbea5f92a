//! The role of a master, and how it is published.

use tokio::sync::watch;

/// The current role of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Not running, or waiting for its turn.
    Backup,
    /// Assigns tasks to workers.
    Active,
}

/// Publishes that this master is active, for as long as it exists.
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
