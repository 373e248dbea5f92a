//! File descriptors: how many the process may use, and how many of them are for clients.
//!
//! Every client needs a descriptor, and any host may connect. If clients could take the last one, the log could
//! not open its next file, snapshots could not be written, and other servers and operators could not connect.
//! So clients get only descriptors below a limit, and the others are a reserve. The system always assigns the
//! lowest free number: a socket whose number is at or above the limit shows that all below are in use, by
//! any part of the process.

use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// The largest reserve: log, snapshots and epoch files need about ten, the others are for connections of other
/// servers and of the admin port, which have their own limits.
const RESERVE_MAX: u64 = 1024;
/// With few descriptors, the reserve is this fraction.
const RESERVE_PART: u64 = 4;

/// Raises the soft limit of file descriptors to the hard limit. The soft limit is often 1,024
/// for programs that use `select`.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        warn!(
            "cannot raise the limit of open files from {} to {}: {error}",
            limit_text(current),
            limit_text(maximum)
        );
    }
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

/// The descriptors that clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientDescriptors {
    /// The limit of the process; `None` is no limit.
    limit: Option<u64>,
}

/// A client's connection was assigned a reserved descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{in_use} of {limit} file descriptors are in use; the rest are reserved for the log, snapshots and other servers. Raise the limit (ulimit -n)"
)]
pub(crate) struct Reserved {
    in_use: u64,
    limit: u64,
}

impl ClientDescriptors {
    /// Reads the current limit of the process.
    pub fn of_process() -> Self {
        ClientDescriptors { limit: getrlimit(Resource::Nofile).current }
    }

    /// Whether a client may keep this socket.
    pub fn check(self, socket: &impl AsRawFd) -> Result<(), Reserved> {
        self.check_number(socket.as_raw_fd())
    }

    fn check_number(self, number: RawFd) -> Result<(), Reserved> {
        let Some(limit) = self.limit else { return Ok(()) };
        let reserve = (limit / RESERVE_PART).min(RESERVE_MAX);
        let number = u64::try_from(number).unwrap_or(0);
        if number < limit - reserve { Ok(()) } else { Err(Reserved { in_use: number, limit }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_a_reserve() {
        let check = |limit, number| ClientDescriptors { limit }.check_number(number).is_ok();
        for (limit, first_reserved) in [(8, 6), (300, 225), (1024, 768), (65_536, 64_512)] {
            assert!(check(Some(limit), first_reserved - 1), "{limit}");
            assert!(!check(Some(limit), first_reserved), "{limit}");
        }
        assert!(check(None, i32::MAX));
    }
}
