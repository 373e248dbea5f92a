//! Limits on concurrent work, in total and for one network. Requests beyond a limit get 429.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::address_block::AddressBlock;
use crate::error::ApiError;

/// Most streams that last as long as their client reads: events and exports. Each holds a connection, so the limit is
/// below that of connections.
const STREAMS_MAX: usize = 128;
/// Most of these for one network.
const STREAMS_PER_NETWORK_MAX: usize = 32;
/// Most walks of subtrees that must complete before there is a response: searches, changes of subtrees.
const WALKS_MAX: usize = 8;
/// Most of these for one network.
const WALKS_PER_NETWORK_MAX: usize = 4;
/// Most work on blocking threads: commands, views. It continues when its client leaves, so it counts
/// until it is done.
const BLOCKING_MAX: usize = 32;
/// Most of these for one network.
const BLOCKING_PER_NETWORK_MAX: usize = 8;
/// Most bytes of request bodies in memory.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Most of these from one network.
const BODY_BYTES_PER_NETWORK_MAX: usize = 16 << 20;

/// Most bytes of responses in memory.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most of these to one network.
const ANSWER_BYTES_PER_NETWORK_MAX: usize = 16 << 20;

/// Counts concurrent work.
#[derive(Debug)]
pub(crate) struct Limits {
    streams: Limit,
    walks: Limit,
    blocking: Limit,
    body_bytes: Limit,
    answer_bytes: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            streams: Limit::new(STREAMS_MAX, STREAMS_PER_NETWORK_MAX),
            walks: Limit::new(WALKS_MAX, WALKS_PER_NETWORK_MAX),
            blocking: Limit::new(BLOCKING_MAX, BLOCKING_PER_NETWORK_MAX),
            body_bytes: Limit::new(BODY_BYTES_MAX, BODY_BYTES_PER_NETWORK_MAX),
            answer_bytes: Limit::new(ANSWER_BYTES_MAX, ANSWER_BYTES_PER_NETWORK_MAX),
        }
    }
}

impl Limits {
    /// Counts one more stream for this address.
    pub(super) fn stream(&self, address: IpAddr) -> Result<Permit, ApiError> {
        self.streams
            .take(address, 1)
            .ok_or_else(|| ApiError::too_many("too many streams and exports are open; close some"))
    }

    /// Counts one more long walk.
    pub(crate) fn walk(&self, address: IpAddr) -> Result<Permit, ApiError> {
        self.walks.take(address, 1).ok_or_else(|| {
            ApiError::too_many(
                "too many searches or subtree changes are in progress; try again later",
            )
        })
    }

    /// Counts one more thread, or one more request that waits for a thread. The permit must be moved to that thread.
    pub(crate) fn blocking(&self, address: IpAddr) -> Result<Permit, ApiError> {
        self.blocking.take(address, 1).ok_or_else(|| {
            ApiError::too_many(
                "too many commands are in progress; nothing was done; try again later",
            )
        })
    }

    /// Counts a body. One that exceeds a network's limit counts as that limit, or it could never be sent.
    pub(super) fn body(&self, address: IpAddr, bytes: usize) -> Result<Permit, ApiError> {
        let bytes = bytes.min(BODY_BYTES_PER_NETWORK_MAX);
        self.body_bytes.take(address, bytes).ok_or_else(|| {
            ApiError::too_many(
                "too many large requests are in progress; nothing was done; try again",
            )
        })
    }

    /// Counts a response. One that exceeds a network's limit counts as that limit.
    pub(crate) fn answer(&self, address: IpAddr, bytes: usize) -> Result<Permit, ApiError> {
        let bytes = bytes.min(ANSWER_BYTES_PER_NETWORK_MAX);
        self.answer_bytes.take(address, bytes).ok_or_else(|| {
            ApiError::too_many("too many large responses are unread; read them, then try again")
        })
    }
}

/// A limit, in total and for one network.
#[derive(Debug)]
struct Limit {
    max: usize,
    per_network_max: usize,
    used: Arc<Mutex<HashMap<AddressBlock, usize>>>,
}

/// An amount that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    used: Arc<Mutex<HashMap<AddressBlock, usize>>>,
    network: AddressBlock,
    amount: usize,
}

impl Limit {
    fn new(max: usize, per_network_max: usize) -> Self {
        Limit { max, per_network_max, used: Arc::default() }
    }

    fn take(&self, address: IpAddr, amount: usize) -> Option<Permit> {
        let network = AddressBlock::of(address);
        let mut used = self.used.lock();
        let of_network = used.get(&network).copied().unwrap_or_default() + amount;
        let in_all = used.values().sum::<usize>() + amount;
        if of_network > self.per_network_max || in_all > self.max {
            return None;
        }
        used.insert(network, of_network);
        Some(Permit { used: Arc::clone(&self.used), network, amount })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.used.lock();
        if let Some(amount) = used.get_mut(&self.network) {
            *amount -= self.amount;
            if *amount == 0 {
                used.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_by_network_and_in_total() {
        let limits = Limits::default();
        let address = |n| IpAddr::from([10, 0, 0, n]);
        let mut open: Vec<_> =
            (0..STREAMS_PER_NETWORK_MAX).map(|_| limits.stream(address(0)).unwrap()).collect();
        assert_eq!(limits.stream(address(0)).unwrap_err().status.as_u16(), 429);
        drop(open.pop());
        assert!(limits.stream(address(0)).is_ok());
        for n in 1..=255 {
            open.extend(limits.stream(address(n)));
        }
        assert_eq!(open.len(), STREAMS_MAX);
        drop(open);
        assert!(limits.streams.used.lock().is_empty());
    }

    #[test]
    fn one_host_leaves_walks_and_bodies_to_others() {
        let limits = Limits::default();
        let (one, other) = ("2001:db8::1".parse().unwrap(), "2001:db8:0:1::1".parse().unwrap());
        let _walks: Vec<_> =
            (0..WALKS_PER_NETWORK_MAX).map(|_| limits.walk(one).unwrap()).collect();
        assert!(limits.walk("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.walk(other).is_ok());
        let _body = limits.body(one, usize::MAX).unwrap();
        assert_eq!(limits.body(one, 1).unwrap_err().status.as_u16(), 429);
        assert!(limits.body(other, 1 << 20).is_ok());
    }
}
