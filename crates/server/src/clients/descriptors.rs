//! File descriptors: how many the process may have, and how many of them clients may take.
//!
//! Every client is a descriptor, and anybody may connect. If clients could take the last one, the log could
//! not open its next file, snapshots could not be written, and other servers and operators could not connect.
//! So clients get only descriptors below a number, and the rest is a reserve. The system always hands out the
//! lowest number that is free: a socket with a number at or above the limit says that all below are in use, by
//! whatever part of the process.

use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// The largest reserve: log, snapshots and epoch files need about ten, the rest is for connections of other
/// servers and of the admin port, which have limits of their own.
const RESERVE_MAX: u64 = 1024;
/// Of few descriptors, the reserve is this part.
const RESERVE_PART: u64 = 4;

/// Lets this process have as many file descriptors as it is allowed to ask for. The soft limit is often 1,024
/// for the sake of programs that use `select`.
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

/// Which descriptors clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientDescriptors {
    /// What the process may have; `None` is no limit.
    limit: Option<u64>,
}

/// A client's connection has a descriptor of the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{in_use} of {limit} file descriptors are in use, and the rest is kept for the log, snapshots and other servers; raise the limit (ulimit -n)"
)]
pub(crate) struct Reserved {
    in_use: u64,
    limit: u64,
}

impl ClientDescriptors {
    /// By the process's limit as it is now.
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
