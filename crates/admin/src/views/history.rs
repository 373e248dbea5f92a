//! `GET /api/v1/history?since=ms`: the last half hour, a sample every two seconds.
//!
//! In: counters and histograms that only grow. Out: rates and percentiles of each interval, computed from the
//! differences between two readings, so that nothing has to be reset. Percentiles are the upper
//! bounds of the histograms' buckets: never too small, and at most 50 % too large. They are null for
//! an interval without requests.
//!
//! The history is kept only in memory, and begins when the admin server starts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use herdsman_server::ServerHandle;
use herdsman_server::operators::stats::HistogramReading;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;

use super::rendered::Rendered;
use crate::error::ApiError;
use crate::state::AdminState;

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(2);
/// Most samples that are kept: half an hour. The oldest are dropped.
const SAMPLES_MAX: usize = 900;
/// The approximate size of a sample in a response.
const SAMPLE_BYTES: usize = 256;

/// The rates of one interval, and the state at its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    at_ms: i64,
    reads_per_s: f64,
    writes_per_s: f64,
    read_p50_ms: Option<f64>,
    read_p99_ms: Option<f64>,
    write_p50_ms: Option<f64>,
    write_p99_ms: Option<f64>,
    fsync_p99_ms: Option<f64>,
    connections: usize,
    outstanding: u64,
    znodes: usize,
}

/// The samples so far, oldest first.
#[derive(Debug, Default)]
pub struct History(Mutex<VecDeque<Sample>>);

/// The query parameters.
#[derive(Debug, Deserialize)]
pub struct Since {
    /// Only samples after this moment, in milliseconds since 1970.
    since: Option<i64>,
}

/// The response.
#[derive(Debug, Serialize)]
pub struct HistoryView {
    interval_ms: u64,
    samples: Vec<Sample>,
}

/// The samples after a moment.
///
/// # Errors
/// Fails if too many requests of this address are in progress.
pub async fn history(
    State(state): State<AdminState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Query(Since { since }): Query<Since>,
) -> Result<Response, ApiError> {
    let samples = state.views.history.after(since.unwrap_or(i64::MIN));
    let interval_ms = u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX);
    let bytes = samples.len() * SAMPLE_BYTES;
    let view = HistoryView { interval_ms, samples };
    Rendered::by_size(&state, peer.ip(), bytes, move || view).await
}

impl History {
    fn add(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    fn after(&self, at_ms: i64) -> Vec<Sample> {
        let samples = self.0.lock();
        samples.iter().filter(|sample| sample.at_ms > at_ms).copied().collect()
    }
}

/// Takes samples of a server until it is dropped.
pub async fn sample(state: AdminState) {
    let mut ticks = tokio::time::interval(INTERVAL);
    // After a pause the next interval is longer; missed samples are not made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut before = Reading::of(&state.server);
    loop {
        ticks.tick().await;
        let now = Reading::of(&state.server);
        state.views.history.add(now.since(&before));
        before = now;
    }
}

/// The counters at one moment.
struct Reading {
    at: Instant,
    at_ms: i64,
    read: HistogramReading,
    write: HistogramReading,
    fsync: HistogramReading,
    connections: usize,
    outstanding: u64,
    znodes: usize,
}

impl Reading {
    fn of(server: &ServerHandle) -> Self {
        let core = server.core();
        let durations = &core.stats.durations;
        Reading {
            at: Instant::now(),
            at_ms: core.clock.now().wall_ms,
            read: durations.read.read(),
            write: durations.write.read(),
            fsync: durations.fsync.read(),
            connections: core.clients.len(),
            outstanding: core.stats.outstanding.load(Ordering::Relaxed),
            znodes: core.tree().node_count(),
        }
    }

    fn since(&self, before: &Reading) -> Sample {
        let seconds = (self.at - before.at).as_secs_f64().max(0.001);
        let per_second = |now: &HistogramReading, before: &HistogramReading| {
            round(now.count.saturating_sub(before.count) as f64 / seconds)
        };
        Sample {
            at_ms: self.at_ms,
            reads_per_s: per_second(&self.read, &before.read),
            writes_per_s: per_second(&self.write, &before.write),
            read_p50_ms: percentile_ms(&before.read, &self.read, 500),
            read_p99_ms: percentile_ms(&before.read, &self.read, 990),
            write_p50_ms: percentile_ms(&before.write, &self.write, 500),
            write_p99_ms: percentile_ms(&before.write, &self.write, 990),
            fsync_p99_ms: percentile_ms(&before.fsync, &self.fsync, 990),
            connections: self.connections,
            outstanding: self.outstanding,
            znodes: self.znodes,
        }
    }
}

/// The percentile, per mille, of the values that were added between two readings.
fn percentile_ms(
    before: &HistogramReading,
    after: &HistogramReading,
    per_mille: u64,
) -> Option<f64> {
    let count = after.count.saturating_sub(before.count);
    if count == 0 {
        return None;
    }
    let wanted = (count * per_mille).div_ceil(1000);
    let up_to = after.cumulative.iter().zip(&before.cumulative);
    let found = up_to
        .map(|(&(bound_us, after), &(_, before))| (bound_us, after.saturating_sub(before)))
        .find(|&(_, count)| count >= wanted);
    // Values beyond the last bound are only known to exceed it.
    let largest = after.cumulative.last().map(|&(bound_us, _)| bound_us);
    let bound_us = found.map(|(bound_us, _)| bound_us).or(largest)?;
    Some(round(bound_us as f64 / 1000.0))
}

/// Rounds to three decimals: microseconds for milliseconds, and precise enough for other values.
fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use herdsman_server::operators::stats::Histogram;

    use super::*;

    fn sample_at(at_ms: i64) -> Sample {
        Sample {
            at_ms,
            reads_per_s: 0.0,
            writes_per_s: 0.0,
            read_p50_ms: None,
            read_p99_ms: None,
            write_p50_ms: None,
            write_p99_ms: None,
            fsync_p99_ms: None,
            connections: 0,
            outstanding: 0,
            znodes: 0,
        }
    }

    #[test]
    fn the_oldest_samples_are_dropped() {
        let history = History::default();
        for at_ms in 0..SAMPLES_MAX as i64 + 10 {
            history.add(sample_at(at_ms));
        }
        let all = history.after(i64::MIN);
        assert_eq!((all.len(), all[0].at_ms), (SAMPLES_MAX, 10));
        assert_eq!(
            history.after(905).iter().map(|one| one.at_ms).collect::<Vec<_>>(),
            [906, 907, 908, 909]
        );
    }

    #[test]
    fn percentiles_are_those_of_the_interval_alone() {
        let histogram = Histogram::default();
        histogram.add_us(1_000_000, 1000);
        let before = histogram.read();
        assert_eq!(percentile_ms(&before, &before, 500), None);
        histogram.add_us(900, 98);
        histogram.add_us(3000, 2);
        let after = histogram.read();
        assert_eq!(percentile_ms(&before, &after, 500), Some(1.024));
        assert_eq!(percentile_ms(&before, &after, 980), Some(1.024));
        assert_eq!(percentile_ms(&before, &after, 990), Some(3.072));
    }

    #[test]
    fn values_beyond_all_bounds_are_shown_as_the_last_one() {
        let histogram = Histogram::default();
        let before = histogram.read();
        histogram.add(Duration::from_secs(3600));
        assert_eq!(percentile_ms(&before, &histogram.read(), 500), Some(25165.824));
    }

    #[test]
    fn rates_are_counted_by_the_time_that_has_passed() {
        let server = herdsman_testing::TestServer::start();
        let before = Reading::of(&server.handle());
        let mut after = Reading::of(&server.handle());
        after.at = before.at + Duration::from_secs(4);
        after.read.count = before.read.count + 10;
        let sample = after.since(&before);
        assert_eq!((sample.reads_per_s, sample.writes_per_s), (2.5, 0.0));
        assert_eq!(sample.znodes, 4);
    }

    /// Half an hour of samples used to be made on the thread that answers health checks.
    #[tokio::test]
    async fn a_long_history_is_made_by_a_counted_thread() {
        let server = herdsman_testing::TestServer::start();
        let state = AdminState::new(server.handle(), crate::AdminSettings::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        for at_ms in 0..SAMPLES_MAX as i64 {
            state.views.history.add(sample_at(at_ms));
        }
        let status = async |since| {
            let since = Query(Since { since });
            let answer = history(State(state.clone()), ConnectInfo(peer), since).await;
            answer.map_or_else(|error| error.status.as_u16(), |_| 200)
        };
        let threads: Vec<_> =
            std::iter::from_fn(|| state.limits.blocking(peer.ip()).ok()).collect();
        assert_eq!((status(Some(890)).await, status(None).await), (200, 429));
        drop(threads);
        assert_eq!(status(None).await, 200);
    }
}
