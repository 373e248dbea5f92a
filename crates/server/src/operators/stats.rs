//! Counters of one server and of each connection. Apache: `ServerStats`, `ServerCnxn`.
//!
//! Each counter has one meaning and is updated where the event happens; four-letter words and
//! metrics only read. Latencies are in whole milliseconds, as Apache reports them; histograms, which
//! Apache does not have, are in microseconds.

mod distribution;
mod ensemble;
mod events;
mod histogram;

use std::sync::atomic::{AtomicU64, Ordering};

use herdsman_proto::{OpCode, SessionId, Xid, Zxid};
use parking_lot::Mutex;

pub use distribution::{Percentiles, SharedDistribution};
pub use ensemble::EnsembleStats;
pub use events::count_events;
pub use histogram::{Histogram, HistogramReading};

/// Bytes of the length field of a frame, which sizes of replies do not include.
pub(crate) const LENGTH_BYTES: u64 = 4;

/// A monotonic counter that an operator can reset.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Resets the counter.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Minimum, maximum, sum and count of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest; 0 without any.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Series {
    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds the same value several times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += times;
        self.sum += value * times;
    }

    /// Adds all of another series.
    pub fn merge(&mut self, other: &Series) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The mean, to four decimals as Apache prints it.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.sum as f64 / self.count as f64 * 10_000.0).round() / 10_000.0
    }
}

/// A series that several threads add to.
#[derive(Debug, Default)]
pub struct SharedSeries(Mutex<Series>);

impl SharedSeries {
    /// Adds one value.
    pub fn add(&self, value: u64) {
        self.0.lock().add(value);
    }

    /// Adds all of a series.
    pub fn merge(&self, series: &Series) {
        self.0.lock().merge(series);
    }

    /// Adds the same value several times.
    pub fn add_many(&self, value: u64, times: u64) {
        self.0.lock().add_many(value, times);
    }

    /// Returns a copy of the series.
    #[must_use]
    pub fn get(&self) -> Series {
        *self.0.lock()
    }

    /// Resets the series.
    pub fn reset(&self) {
        *self.0.lock() = Series::default();
    }
}

/// Counters of the whole server.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Frames received.
    pub packets_received: Counter,
    /// Frames sent.
    pub packets_sent: Counter,
    /// Bytes of requests.
    pub bytes_received: Counter,
    /// Bytes of replies and events.
    pub bytes_sent: Counter,
    /// Time from a request's arrival to its reply, reads and writes.
    pub latency: SharedSeries,
    /// The same, of reads.
    pub read_latency: SharedDistribution,
    /// The same, of writes.
    pub update_latency: SharedDistribution,
    /// Bytes of replies to requests.
    pub response_bytes: Counter,
    /// Bytes of one reply or event.
    pub response_size: SharedSeries,
    /// Bytes of the last reply.
    pub last_response_bytes: AtomicU64,
    /// Requests that wait for the log, or behind one that does.
    pub outstanding: AtomicU64,
    /// Connections that requested a session.
    pub connection_requests: Counter,
    /// Sessions that were resumed.
    pub connection_revalidations: Counter,
    /// Connections refused by a limit.
    pub connections_rejected: Counter,
    /// Connections that the client closed, or that broke.
    pub connections_dropped: Counter,
    /// Tokens missing in the bucket for new sessions, at each of them.
    pub connection_token_deficit: SharedDistribution,
    /// Connections that got no session in time.
    pub sessionless_expired: Counter,
    /// Sessions that expired.
    pub sessions_expired: Counter,
    /// Rejected credentials.
    pub auth_failed: Counter,
    /// `ensemble` logins that named this ensemble.
    pub ensemble_auth_fitted: Counter,
    /// `ensemble` logins that named another ensemble.
    pub ensemble_auth_failed: Counter,
    /// `ensemble` logins without a name, or without a configured one.
    pub ensemble_auth_skipped: Counter,
    /// TLS handshakes that failed.
    pub tls_handshakes_failed: Counter,
    /// TLS connections rejected because too many handshakes were in progress.
    pub tls_handshakes_refused: Counter,
    /// Requests whose size closed their connection.
    pub large_requests_rejected: Counter,
    /// Requests answered with `ThrottledOp`.
    pub throttled_ops: Counter,
    /// Connections closed because of an oversized or malformed frame.
    pub frames_refused: Counter,
    /// Connections closed because their client does not read.
    pub slow_readers_closed: Counter,
    /// Requests rejected because they would set too many watches.
    pub watches_refused: Counter,
    /// Replies that were too large.
    pub replies_refused: Counter,
    /// How often reading from a connection was paused.
    pub read_pauses: ReadPauseCounters,
    /// Requests above the threshold of the slow-request log.
    pub slow_requests: Counter,
    /// Time of one log sync.
    pub fsync: SharedDistribution,
    /// Syncs that took longer than the warning threshold.
    pub fsync_slow: Counter,
    /// Txns in one sync.
    pub batch_size: SharedDistribution,
    /// Time of one snapshot.
    pub snapshot: SharedDistribution,
    /// Snapshots that failed.
    pub snapshot_errors: Counter,
    /// Snapshots rejected because another one was requested over HTTP too recently.
    pub snapshots_too_soon: Counter,
    /// What the scrubber has read and found.
    pub scrub: ScrubStats,
    /// Time of one restore over HTTP.
    pub restore: SharedDistribution,
    /// Restores that failed.
    pub restore_errors: Counter,
    /// Restores rejected because another one was requested too recently.
    pub restores_too_soon: Counter,
    /// Time to load the tree at the start, snapshot and log.
    pub startup_load: SharedDistribution,
    /// Time to load the newest snapshot at the start.
    pub startup_snapshot_load: SharedDistribution,
    /// Time to replay the log at the start.
    pub startup_txns_load: SharedDistribution,
    /// Txns replayed at the start.
    pub startup_txns: SharedDistribution,
    /// Events sent to watchers.
    pub events_sent: Counter,
    /// Bytes of those events.
    pub watch_bytes: Counter,
    /// Watchers notified of one creation.
    pub watchers_of_created: SharedDistribution,
    /// Watchers notified of one deletion.
    pub watchers_of_deleted: SharedDistribution,
    /// Watchers notified of one change of data.
    pub watchers_of_changed: SharedDistribution,
    /// Watchers notified of one change of children.
    pub watchers_of_children: SharedDistribution,
    /// Digests that did not match while a log was replayed.
    pub digest_mismatches: Counter,
    /// Failures after which the log accepts no more txns.
    pub unrecoverable_errors: Counter,
    /// Counters of a member of an ensemble.
    pub ensemble: EnsembleStats,
    /// Durations in microseconds; the word `srst` does not reset them.
    pub durations: Durations,
}

/// How often reading from a connection was paused, by the limit that was reached.
#[derive(Debug, Default)]
pub struct ReadPauseCounters {
    /// `herdsman.requestsPerConnectionMax`.
    pub own_requests: Counter,
    /// `herdsman.requestBytesPerConnectionMax`.
    pub own_bytes: Counter,
    /// `globalOutstandingLimit`.
    pub all_requests: Counter,
    /// `herdsman.requestBytesMax`.
    pub all_bytes: Counter,
    /// Replies that its client does not read.
    pub unread: Counter,
}

/// What the scrubber has read and found.
#[derive(Debug, Default)]
pub struct ScrubStats {
    /// Bytes read.
    pub bytes: Counter,
    /// Complete passes over all files.
    pub passes: Counter,
    /// When the last complete pass ended, in milliseconds since 1970; 0 before.
    pub last_pass_ms: AtomicU64,
    /// Damaged files.
    pub damaged_files: AtomicU64,
    /// Of these, files that a start would need.
    pub needed_files: AtomicU64,
}

/// Histograms of latencies.
#[derive(Debug, Default)]
pub struct Durations {
    /// From the moment when a read can be served, or from the arrival of a `sync`, to its reply in the output of its
    /// connection.
    pub read: Histogram,
    /// From a write's arrival to its reply in the output of its connection.
    pub write: Histogram,
    /// One sync of the log.
    pub fsync: Histogram,
    /// From the moment when a txn is queued for the log of a standalone server until it is durable. See
    /// [`EnsembleStats::commit`] for members of an ensemble.
    pub commit: Histogram,
    /// From a change until all bytes of its event are written to the socket.
    pub watch: Histogram,
}

impl ServerStats {
    /// What the word `srst` resets: everything but current values. Apache keeps the number of
    /// failed authentications, too.
    pub fn reset(&self) {
        self.latency.reset();
        self.response_size.reset();
        self.ensemble.reset();
        self.last_response_bytes.store(0, Ordering::Relaxed);
        for counter in self.counters() {
            counter.reset();
        }
        for spread in self.distributions() {
            spread.reset();
        }
    }

    fn counters(&self) -> [&Counter; 36] {
        [
            &self.packets_received,
            &self.packets_sent,
            &self.bytes_received,
            &self.bytes_sent,
            &self.response_bytes,
            &self.connection_requests,
            &self.connection_revalidations,
            &self.connections_rejected,
            &self.connections_dropped,
            &self.sessionless_expired,
            &self.sessions_expired,
            &self.tls_handshakes_failed,
            &self.tls_handshakes_refused,
            &self.large_requests_rejected,
            &self.throttled_ops,
            &self.frames_refused,
            &self.slow_readers_closed,
            &self.watches_refused,
            &self.replies_refused,
            &self.read_pauses.own_requests,
            &self.read_pauses.own_bytes,
            &self.read_pauses.all_requests,
            &self.read_pauses.all_bytes,
            &self.read_pauses.unread,
            &self.slow_requests,
            &self.fsync_slow,
            &self.snapshot_errors,
            &self.snapshots_too_soon,
            &self.scrub.bytes,
            &self.scrub.passes,
            &self.restore_errors,
            &self.restores_too_soon,
            &self.events_sent,
            &self.watch_bytes,
            &self.digest_mismatches,
            &self.unrecoverable_errors,
        ]
    }

    fn distributions(&self) -> [&SharedDistribution; 15] {
        [
            &self.read_latency,
            &self.update_latency,
            &self.connection_token_deficit,
            &self.fsync,
            &self.batch_size,
            &self.snapshot,
            &self.restore,
            &self.startup_load,
            &self.startup_snapshot_load,
            &self.startup_txns_load,
            &self.startup_txns,
            &self.watchers_of_created,
            &self.watchers_of_deleted,
            &self.watchers_of_changed,
            &self.watchers_of_children,
        ]
    }

    /// Counts a reply of this many bytes.
    pub fn responded(&self, frame_bytes: u64) {
        let mut frames = Series::default();
        frames.add(frame_bytes.saturating_sub(LENGTH_BYTES));
        self.responded_many(&frames, frames.max);
    }

    /// Counts replies: their bytes without the frames' lengths, and the last one's.
    pub fn responded_many(&self, replies: &Series, last_bytes: u64) {
        self.response_bytes.add(replies.sum);
        self.response_size.merge(replies);
        self.last_response_bytes.store(last_bytes, Ordering::Relaxed);
    }

    /// Counts an event sent to `watchers` watchers, `bytes` each.
    pub fn sent_events(&self, frame_bytes: u64, watchers: u64) {
        let bytes = frame_bytes.saturating_sub(LENGTH_BYTES);
        self.events_sent.add(watchers);
        self.watch_bytes.add(bytes * watchers);
        self.response_size.add_many(bytes, watchers);
        self.last_response_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Counters of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnStats {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Requests not answered yet.
    pub queued: usize,
    /// Its session.
    pub session: SessionId,
    /// The session's timeout.
    pub timeout_ms: i32,
    /// The last request answered.
    pub last_op: Option<OpCode>,
    /// Its xid.
    pub last_xid: Xid,
    /// The zxid of its reply.
    pub last_zxid: Zxid,
    /// When it was answered.
    pub last_response_ms: u64,
    /// How long it took.
    pub last_latency_ms: u64,
    /// The latencies of all its requests.
    pub latency: Series,
    /// When it requested a new session, until it has one.
    pub opening_since_ms: Option<u64>,
    /// Whether it has sent a four-letter word and is not read any more.
    pub asked_word: bool,
}

impl Default for ConnStats {
    fn default() -> Self {
        ConnStats {
            received: 0,
            sent: 0,
            queued: 0,
            session: SessionId::NONE,
            timeout_ms: 0,
            last_op: None,
            last_xid: Xid(-1),
            last_zxid: Zxid(-1),
            last_response_ms: 0,
            last_latency_ms: 0,
            latency: Series::default(),
            opening_since_ms: None,
            asked_word: false,
        }
    }
}

impl ConnStats {
    /// What the word `crst` resets.
    pub fn reset(&mut self) {
        let ConnStats { session, timeout_ms, queued, opening_since_ms, asked_word, .. } = *self;
        *self = ConnStats {
            session,
            timeout_ms,
            queued,
            opening_since_ms,
            asked_word,
            ..ConnStats::default()
        };
    }

    /// Records that the session is established. If it is a new one, that counts as an answered request, and the
    /// time it took is returned.
    pub fn opened(&mut self, zxid: Zxid, now_ms: u64) -> Option<u64> {
        let since_ms = self.opening_since_ms.take()?;
        self.answered(OpCode::CreateSession, Xid(0), zxid, since_ms, now_ms);
        Some(self.last_latency_ms)
    }

    /// Records an answered request.
    pub fn answered(&mut self, op: OpCode, xid: Xid, zxid: Zxid, since_ms: u64, now_ms: u64) {
        let latency_ms = now_ms.saturating_sub(since_ms);
        self.last_op = Some(op);
        // Pings and the like have negative numbers; the last real request is more useful.
        if xid.0 >= 0 {
            self.last_xid = xid;
        }
        self.last_zxid = zxid;
        self.last_response_ms = now_ms;
        self.last_latency_ms = latency_ms;
        self.latency.add(latency_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_keep_their_extremes() {
        let mut series = Series::default();
        series.add(5);
        series.add_many(2, 3);
        series.add_many(9, 0);
        assert_eq!((series.min, series.max, series.count, series.sum), (2, 5, 4, 11));
        assert!((series.mean() - 2.75).abs() < 1e-9);
    }

    #[test]
    fn a_ping_does_not_hide_the_last_request() {
        let mut stats = ConnStats::default();
        stats.answered(OpCode::GetData, Xid(7), Zxid(3), 10, 12);
        stats.answered(OpCode::Ping, Xid::PING, Zxid(4), 20, 20);
        assert_eq!((stats.last_op, stats.last_xid), (Some(OpCode::Ping), Xid(7)));
        assert_eq!((stats.last_zxid, stats.latency.max), (Zxid(4), 2));
        stats.reset();
        assert_eq!((stats.last_op, stats.last_xid, stats.last_zxid), (None, Xid(-1), Zxid(-1)));
    }
}
