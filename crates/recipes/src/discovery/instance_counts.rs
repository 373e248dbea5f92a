//! The connection counts that the instances of a service publish, as a client reads them.
//!
//! In: `<base>-connections/<service>/*`, followed with one watch. Out: the count of an instance, if it is fresh. A
//! count is stale when this client has seen no write of it for too long by its own clock: the instance hangs, or this
//! client is disconnected. No two clocks are compared.

use std::time::Duration;

use herdsman_client::{Client, Node};
use tokio::time::Instant;

use crate::balance::Loads;
use crate::error::Result;
use crate::membership::roster::{Content, Roster};

/// The published counts of a service's instances.
#[derive(Debug)]
pub(super) struct InstanceCounts {
    published: Roster<Published>,
    stale_after: Duration,
}

/// The published count of one instance.
#[derive(Clone, Copy, Debug)]
struct Published {
    /// `None` if it cannot be decoded.
    count: Option<u64>,
    /// When this client first saw this write.
    seen: Instant,
}

impl Published {
    fn new(data: &[u8], now: Instant) -> Self {
        let count = std::str::from_utf8(data).ok().and_then(|text| text.parse().ok());
        Published { count, seen: now }
    }

    fn fresh(self, stale_after: Duration, now: Instant) -> Option<u64> {
        let age = now.saturating_duration_since(self.seen);
        self.count.filter(|_| age < stale_after)
    }
}

impl InstanceCounts {
    pub(super) async fn open(
        client: &Client,
        directory: &str,
        stale_after: Duration,
    ) -> Result<Self> {
        // Each write is read once, even if it does not change the number.
        let read = |_: &str, node: &Node| Published::new(&node.data, Instant::now());
        let published = Roster::open(client, directory, Content::Data(Box::new(read))).await?;
        Ok(InstanceCounts { published, stale_after })
    }
}

impl Loads for InstanceCounts {
    fn load(&self, id: &str) -> u64 {
        self.known_load(id).unwrap_or(0)
    }

    fn known_load(&self, id: &str) -> Option<u64> {
        let published = **self.published.snapshot().get(id)?;
        published.fresh(self.stale_after, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fresh_numbers_count() {
        let (seen, stale_after) = (Instant::now(), Duration::from_secs(30));
        let after = |data: &[u8], seconds| {
            let now = seen + Duration::from_secs(seconds);
            Published::new(data, seen).fresh(stale_after, now)
        };
        assert_eq!(after(b"7", 0), Some(7));
        assert_eq!(after(b"7", 29), Some(7));
        assert_eq!(after(b"7", 30), None);
        for data in [&b""[..], b"-1", b"many", &[0xff]] {
            assert_eq!(after(data, 0), None);
        }
    }
}
