//! What may go on at once. What is over a limit is refused with 429.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// Answers that go on for as long as their reader likes: events and exports.
const STREAMS_MAX: usize = 256;
/// Of these, those of one address.
const STREAMS_PER_ADDRESS_MAX: usize = 32;
/// Walks of the whole tree before there is an answer: searches, changes of subtrees.
const WALKS_MAX: usize = 8;

/// Counts what goes on.
#[derive(Debug)]
pub(crate) struct Limits {
    streams: Arc<Mutex<HashMap<IpAddr, usize>>>,
    walks: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { streams: Arc::default(), walks: Arc::new(Semaphore::new(WALKS_MAX)) }
    }
}

/// A stream that counts until this is dropped.
#[derive(Debug)]
pub(super) struct StreamPermit {
    streams: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Limits {
    /// One more stream for this address.
    pub(super) fn stream(&self, address: IpAddr) -> Result<StreamPermit, ApiError> {
        let mut streams = self.streams.lock();
        let of_address = streams.get(&address).copied().unwrap_or_default();
        if of_address >= STREAMS_PER_ADDRESS_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return Err(ApiError::too_many("too many streams and exports are open; close some"));
        }
        *streams.entry(address).or_default() += 1;
        Ok(StreamPermit { streams: Arc::clone(&self.streams), address })
    }

    /// One more long walk.
    pub(crate) fn walk(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.walks).try_acquire_owned().map_err(|_| {
            ApiError::too_many("too many searches and the like are under way; try again later")
        })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = self.streams.lock();
        if let Some(count) = streams.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_by_address_and_in_all() {
        let limits = Limits::default();
        let address = |n| IpAddr::from([10, 0, 0, n]);
        let mut open: Vec<_> =
            (0..STREAMS_PER_ADDRESS_MAX).map(|_| limits.stream(address(0)).unwrap()).collect();
        assert_eq!(limits.stream(address(0)).unwrap_err().status.as_u16(), 429);
        drop(open.pop());
        assert!(limits.stream(address(0)).is_ok());
        for n in 1..=255 {
            open.extend(limits.stream(address(n)));
        }
        assert_eq!(open.len(), STREAMS_MAX);
        drop(open);
        assert!(limits.streams.lock().is_empty());
    }
}
