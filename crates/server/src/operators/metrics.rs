//! Metrics for operators, dashboards and alerts.
//! Apache: `ServerMetrics`, `ZooKeeperServer.registerMetrics`, `PrometheusMetricsProvider`.
//!
//! One table (`table.rs`) lists the metrics that Apache also has, under Apache's names; it generates the word
//! `mntr`, the admin server's `monitor`, the Prometheus metrics and the list in docs/operating.md.
//! Metrics without an Apache name (histograms, the process, the audit log) are in `own.rs`, and only for
//! Prometheus. Metrics of Apache's internals that do not exist here (queues between its
//! threads) are left out.
//!
//! In: a running server. Out: a list of [`Family`], plain data; [`prometheus_text`] and [`flat`] format it.
//! Deliberately not here: HTTP.

mod family;
mod flat;
mod member_gauges;
mod own;
mod prometheus;
mod quotas;
mod server_gauges;
mod table;

use crate::clients::io_threads::ServerContext;
use crate::handle::ServerHandle;
use crate::operators::stats::{Counter, ServerStats, SharedDistribution};

pub use family::{Detail, Family, Kind, Number, Reading, Sample, Summary};
pub use flat::flat;
pub use prometheus::{CONTENT_TYPE, prometheus_text};
pub(crate) use table::{ALWAYS_ZERO, SCRAPED_ALWAYS_ZERO, TABLE};

use member_gauges::MemberGauges;
use server_gauges::ServerGauges;

/// The help text of metrics that are always 0.
const ALWAYS_ZERO_ABOUT: &str = "Always 0: there is nothing to measure here.";

/// One metric.
pub(crate) struct Metric {
    pub name: &'static str,
    pub about: &'static str,
    pub source: Source,
}

/// The source of its value, which also decides how it is shown.
pub(crate) enum Source {
    /// The current value.
    Gauge(fn(&ServerGauges) -> i64),
    /// The same of a member of an ensemble; a standalone server does not show it.
    OfMember(fn(&MemberGauges) -> i64),
    /// The same of a leader.
    OfLeader(fn(&MemberGauges) -> i64),
    /// The current value, with a fraction.
    Ratio(fn(&ServerGauges) -> f64),
    /// A count since the start, or since the word `srst`.
    Counter(fn(&ServerStats) -> &Counter),
    /// Average, extremes, count and sum.
    Summary(fn(&ServerStats) -> &SharedDistribution),
    /// The same with percentiles.
    Detailed(fn(&ServerStats) -> &SharedDistribution),
}

/// Metrics of events that cannot happen on this server: they are shown as 0, because dashboards
/// query them.
pub(crate) struct AlwaysZero {
    pub counters: &'static [&'static str],
    pub summaries: &'static [&'static str],
    pub detailed: &'static [&'static str],
}

/// All current metrics of a server: Apache's, then our own.
#[must_use]
pub fn collect(server: &ServerHandle) -> Vec<Family> {
    let mut families = apache_families(&server.shared);
    add_never(&mut families, &SCRAPED_ALWAYS_ZERO);
    own::add(&mut families, &server.shared);
    families
}

/// Metrics with Apache's names: those that `mntr` and the admin server's `monitor` show.
#[must_use]
pub fn collect_apache(server: &ServerHandle) -> Vec<Family> {
    apache_families(&server.shared)
}

pub(crate) fn apache_families(shared: &ServerContext) -> Vec<Family> {
    let moment = ServerGauges::of(shared);
    let member = MemberGauges::of(shared);
    let leader = member.as_ref().filter(|member| member.leads);
    let stats = &shared.core.stats;
    let mut families = Vec::with_capacity(TABLE.len() + 64);
    for Metric { name, about, source } in TABLE {
        let gauge = |value| Family::gauge(name, about, Number::Whole(value));
        families.extend(match source {
            Source::Gauge(read) => Some(gauge(read(&moment))),
            Source::OfMember(read) => member.as_ref().map(|member| gauge(read(member))),
            Source::OfLeader(read) => leader.map(|leader| gauge(read(leader))),
            Source::Ratio(read) => {
                Some(Family::gauge(name, about, Number::Fraction(read(&moment))))
            }
            Source::Counter(read) => Some(Family::counter(name, about, read(stats).get())),
            Source::Summary(read) => {
                Some(Family::summary(name, about, Summary::of(read(stats), Detail::Basic)))
            }
            Source::Detailed(read) => {
                Some(Family::summary(name, about, Summary::of(read(stats), Detail::Advanced)))
            }
        });
    }
    quotas::add(&mut families, shared);
    add_never(&mut families, &ALWAYS_ZERO);
    families
}

fn add_never(families: &mut Vec<Family>, never: &'static AlwaysZero) {
    let AlwaysZero { counters, summaries, detailed } = never;
    families.extend(counters.iter().map(|name| Family::counter(name, ALWAYS_ZERO_ABOUT, 0)));
    for (names, detail) in [(summaries, Detail::Basic), (detailed, Detail::Advanced)] {
        let empty =
            |name: &&'static str| Family::summary(name, ALWAYS_ZERO_ABOUT, Summary::empty(detail));
        families.extend(names.iter().map(empty));
    }
}
