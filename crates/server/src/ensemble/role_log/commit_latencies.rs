//! Measures how long txns take from their arrival at this server to their commit.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use herdsman_node::Now;
use herdsman_proto::txn::Entry;
use herdsman_proto::{JuteReader, Zxid};

use crate::operators::stats::SharedDistribution;

/// Txns that are appended and not committed. As many as the protocol core has in flight.
#[derive(Debug, Default)]
pub(super) struct CommitLatencies {
    in_flight: VecDeque<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    zxid: Zxid,
    appended_ms: u64,
    /// The same with a higher resolution: histograms count microseconds.
    appended_at: Instant,
    /// The leader's wall clock when it created the txn.
    made_wall_ms: Option<i64>,
}

/// The duration of a commit.
pub(super) struct Latency {
    pub since_append_ms: u64,
    pub since_append: Duration,
    /// By two servers' wall clocks; `None` if that is negative.
    pub since_made_ms: Option<u64>,
}

impl Latency {
    pub fn count_propagation(&self, series: &SharedDistribution) {
        if let Some(latency_ms) = self.since_made_ms {
            series.add(latency_ms);
        }
    }
}

impl CommitLatencies {
    /// Records an appended txn. Returns how long it took to get here from the leader.
    pub fn appended(&mut self, now: Now, zxid: Zxid, payload: &[u8]) -> Option<u64> {
        let header = Entry::decode_header(&mut JuteReader::new(payload));
        let made_wall_ms = header.ok().map(|(header, _)| header.time_ms);
        let (appended_ms, appended_at) = (now.monotonic_ms, Instant::now());
        self.in_flight.push_back(InFlight { zxid, appended_ms, appended_at, made_wall_ms });
        since_made(now, made_wall_ms)
    }

    /// Records that everything up to here is committed.
    pub fn committed(&mut self, now: Now, zxid: Zxid, mut count: impl FnMut(&Latency, Zxid)) {
        while let Some(txn) = self.in_flight.front()
            && txn.zxid <= zxid
        {
            let latency = Latency {
                since_append_ms: now.monotonic_ms.saturating_sub(txn.appended_ms),
                since_append: txn.appended_at.elapsed(),
                since_made_ms: since_made(now, txn.made_wall_ms),
            };
            count(&latency, txn.zxid);
            self.in_flight.pop_front();
        }
    }

    /// Forgets what was in flight, because it may never be committed.
    pub fn clear(&mut self) {
        self.in_flight.clear();
    }
}

fn since_made(now: Now, made_wall_ms: Option<i64>) -> Option<u64> {
    u64::try_from(now.wall_ms - made_wall_ms?).ok()
}
