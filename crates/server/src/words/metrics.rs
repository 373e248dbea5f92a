//! The table of metrics: what an operator can read off this server, under Apache's names.
//! Apache: `ServerMetrics`, `ZooKeeperServer.registerMetrics`.
//!
//! The table makes the word `mntr` and the list in docs/operating.md. What Apache measures inside
//! machinery that does not exist here (queues between its threads) is not in it.

mod member;
mod table;

use std::sync::atomic::Ordering;

use super::{process, status};
use crate::io_threads::Shared;
use crate::stats::{Counter, Percentiles, Series, ServerStats, SharedDistribution, SharedSeries};

use member::Member;
pub(super) use table::{NEVER, TABLE};

/// One metric.
pub(super) struct Metric {
    pub name: &'static str,
    pub about: &'static str,
    pub source: Source,
}

/// Where its value comes from, and with that how it is shown.
pub(super) enum Source {
    /// True at this moment.
    Gauge(fn(&Moment) -> i64),
    /// The same of a member of an ensemble; others do not show it.
    OfMember(fn(&Member) -> i64),
    /// The same of a leader.
    OfLeader(fn(&Member) -> i64),
    /// True at this moment, with a fraction.
    Ratio(fn(&Moment) -> f64),
    /// Counted since the start, or since the word `srst`.
    Counter(fn(&ServerStats) -> &Counter),
    /// Average, extremes, count and sum.
    Summary(fn(&ServerStats) -> &SharedSeries),
    /// The same of a series that has percentiles, too, but does not show them.
    Plain(fn(&ServerStats) -> &SharedDistribution),
    /// The same with percentiles.
    Detailed(fn(&ServerStats) -> &SharedDistribution),
}

/// Metrics of what cannot happen on this server: they are shown, because dashboards ask for them,
/// and are 0.
pub(super) struct Never {
    pub counters: &'static [&'static str],
    pub summaries: &'static [&'static str],
    pub detailed: &'static [&'static str],
}

/// A number and how it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i64),
    Fraction(f64),
}

/// All gauges at one moment.
pub(super) struct Moment {
    pub latency: Series,
    pub packets_received: u64,
    pub packets_sent: u64,
    pub connections: usize,
    pub outstanding: u64,
    pub uptime_ms: u64,
    pub znodes: usize,
    pub watches: usize,
    pub ephemerals: usize,
    pub data_bytes: u64,
    pub sessions: usize,
    pub local_sessions: usize,
    pub open_files: i64,
    pub open_files_max: i64,
    pub drop_probability: f64,
    pub response_size: Series,
    pub last_response_bytes: u64,
    pub auth_failed: u64,
}

impl Moment {
    fn of(shared: &Shared) -> Self {
        let core = &shared.core;
        let stats = &core.stats;
        let local_sessions = core.with_node(|node| node.sessions().local_len());
        let (sessions, znodes, ephemerals, data_bytes, watches) = {
            let tree = core.tree();
            let (sessions, watches) = (tree.sessions().count(), tree.watches().count());
            (sessions, tree.node_count(), tree.ephemeral_count(), tree.data_size(), watches)
        };
        Moment {
            latency: stats.latency.get(),
            packets_received: stats.packets_received.get(),
            packets_sent: stats.packets_sent.get(),
            connections: core.clients.len(),
            outstanding: stats.outstanding.load(Ordering::Relaxed),
            uptime_ms: core.clock.monotonic_ms(),
            znodes: status::apache_node_count(znodes),
            watches,
            ephemerals,
            data_bytes: data_bytes + status::ROOT_SECOND_NAME.len() as u64,
            sessions,
            local_sessions,
            open_files: process::open_files(),
            open_files_max: process::open_files_max(),
            drop_probability: shared.connection_throttle.drop_probability(),
            response_size: stats.response_size.get(),
            last_response_bytes: stats.last_response_bytes.load(Ordering::Relaxed),
            auth_failed: stats.auth_failed.get(),
        }
    }

    /// Apache says -1 while there was no reply.
    fn of_responses(&self, bytes: u64) -> i64 {
        if self.response_size.count == 0 { -1 } else { bytes.cast_signed() }
    }
}

/// Every metric with its value, under Apache's names without a prefix.
pub(super) fn collect(shared: &Shared) -> Vec<(String, Value)> {
    let moment = Moment::of(shared);
    let member = Member::of(shared);
    let leader = member.as_ref().filter(|member| member.leads);
    let stats = &shared.core.stats;
    let mut all = Vec::with_capacity(512);
    for Metric { name, source, .. } in TABLE {
        match source {
            Source::Gauge(read) => all.push(((*name).to_owned(), Value::Whole(read(&moment)))),
            Source::OfMember(read) => add_gauge(&mut all, name, member.as_ref().map(read)),
            Source::OfLeader(read) => add_gauge(&mut all, name, leader.map(read)),
            Source::Ratio(read) => all.push(((*name).to_owned(), Value::Fraction(read(&moment)))),
            Source::Counter(read) => all.push(((*name).to_owned(), whole(read(stats).get()))),
            Source::Summary(read) => add_summary(&mut all, name, &read(stats).get()),
            Source::Plain(read) => add_summary(&mut all, name, &read(stats).get()),
            Source::Detailed(read) => {
                let spread = read(stats);
                add_summary(&mut all, name, &spread.get());
                add_percentiles(&mut all, name, spread.percentiles());
            }
        }
    }
    add_quotas(&mut all, shared);
    add_never(&mut all);
    all
}

fn add_gauge(all: &mut Vec<(String, Value)>, name: &str, value: Option<i64>) {
    all.extend(value.map(|value| (name.to_owned(), Value::Whole(value))));
}

fn whole(value: u64) -> Value {
    Value::Whole(value.cast_signed())
}

fn add_summary(all: &mut Vec<(String, Value)>, name: &str, series: &Series) {
    all.push((format!("avg_{name}"), Value::Fraction(series.mean())));
    let numbers =
        [("min", series.min), ("max", series.max), ("cnt", series.count), ("sum", series.sum)];
    all.extend(numbers.map(|(of, value)| (format!("{of}_{name}"), whole(value))));
}

fn add_percentiles(all: &mut Vec<(String, Value)>, name: &str, percentiles: Percentiles) {
    let Percentiles { p50, p95, p99, p999 } = percentiles;
    let numbers = [("p50", p50), ("p95", p95), ("p99", p99), ("p999", p999)];
    all.extend(numbers.map(|(of, value)| (format!("{of}_{name}"), whole(value))));
}

fn add_never(all: &mut Vec<(String, Value)>) {
    let Never { counters, summaries, detailed } = NEVER;
    all.extend(counters.iter().map(|&name| (name.to_owned(), Value::Whole(0))));
    for name in summaries.iter().chain(detailed) {
        add_summary(all, name, &Series::default());
    }
    for name in detailed {
        add_percentiles(all, name, Percentiles::default());
    }
}

/// Limits and use of all quotas below each child of the root, which Apache calls a namespace.
fn add_quotas(all: &mut Vec<(String, Value)>, shared: &Shared) {
    let quotas: Vec<_> = {
        let tree = shared.core.tree();
        let quota = |path: &str| Some((path.to_owned(), tree.quota(path)?));
        tree.limited_paths().filter_map(quota).collect()
    };
    let mut sums: std::collections::BTreeMap<String, [i64; 4]> = std::collections::BTreeMap::new();
    for (path, (limits, used)) in quotas {
        let Some(namespace) = path.split('/').nth(1).filter(|name| !name.is_empty()) else {
            continue;
        };
        let limit = |hard: i64, soft: i64| if hard > -1 { hard } else { soft };
        let values = [
            limit(limits.count_hard, limits.count),
            limit(limits.bytes_hard, limits.bytes),
            used.count,
            used.bytes,
        ];
        let sums = sums.entry(namespace.to_owned()).or_default();
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    let names = ["count_limit", "bytes_limit", "count_usage", "bytes_usage"];
    for (namespace, sums) in sums {
        for (name, sum) in names.iter().zip(sums) {
            all.push((format!("{namespace}_quota_{name}_per_namespace"), Value::Whole(sum)));
        }
    }
}
